"""Tables that are still to be added to the publication.

A locked table is retried at growing intervals and does not hold up the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from replicator.errors import TableBusy, TableError
from replicator.model.identifiers import TableId
from replicator.sources.postgres.stream.slot import ReplicationSlot

_FIRST_PAUSE, _MAX_PAUSE = 1.0, 30.0
_DOUBTED = 2.0  # pauses after which another answer is hoped for


class Additions:
    """Of one reading of the log, by its thread."""

    def __init__(self, slot: ReplicationSlot, missing: Iterable[TableId]) -> None:
        self._slot = slot
        self._pauses = dict.fromkeys(missing, _FIRST_PAUSE)
        self._next = dict.fromkeys(self._pauses, 0.0)

    def add(self, table: TableId) -> None:
        """Now, or later where it is locked: until then no row of it is read.  TableError."""
        pause = self._pauses.get(table, _FIRST_PAUSE)
        try:
            self._slot.add(table)
        except TableError as error:
            if pause > _DOUBTED and not isinstance(error, TableBusy):
                raise
            self._pauses[table] = min(2 * pause, _MAX_PAUSE)
            self._next[table] = time.monotonic() + pause
        else:
            self._pauses.pop(table, None)
            self._next.pop(table, None)

    def refused(self) -> Iterator[tuple[TableId, TableError]]:
        """Try those whose time has come; what the server has against them for good."""
        for table in [table for table, at in self._next.items() if at <= time.monotonic()]:
            try:
                self.add(table)
            except TableError as error:
                del self._pauses[table], self._next[table]
                yield table, error
