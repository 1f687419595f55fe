"""Between two looks of a verification: which copies are known to hold what their sources hold.

Verification itself sees source and target alone, and cannot tell a row that is lost from one that is on its way.  The
journal can: capture has read past a look, found nothing new of a table, and everything before was in the copy already.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from replicator.errors import TidemarkError
from replicator.state.tables import TableState
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.worker.run.headless import captured, source_position

LOGGER = logging.getLogger("tidemark.verify")
POLL_SECONDS = 0.5
Level = tuple[Any, ...]


class CopyProgress:
    """Made before the first look; `wait` stands between each two."""

    def __init__(self, replicator: Replicator, tables: Sequence[ReplicatorTable], seconds: float) -> None:
        """`seconds`: of each wait."""
        self._replicator, self._seconds = replicator, seconds
        self._names = {table.pk: str(table) for table in tables}
        self._before: Mapping[int, Level] = {}
        self._reached: Mapping[str, Any] | None = None
        self._latest = self._levels()

    def wait(self) -> Collection[str]:
        """Let time pass; tables whose copies held at a look what their sources held, none where nothing is known yet.

        Such a table's level was the same before that look and now, when all is captured up to the position that the
        source had after it: so nothing of it changed in between.  That position is asked for after the pause: a commit
        that does not wait for the disk (Postgres: synchronous_commit off) is seen before it is in the log.
        """
        if self._reached is None:
            self._before = self._latest
        time.sleep(self._seconds)
        if self._reached is None:
            self._reached = self._position()
        passed = self._passed(self._reached)
        self._latest = self._levels()  # after the checkpoint: no older than it
        if not passed:
            return ()
        self._reached = None
        return {self._names[pk] for pk, level in self._latest.items() if self._before.get(pk) == level}

    def captured(self, seconds: float) -> bool:
        """Wait up to `seconds` until capture has read all that the source holds now."""
        reached, deadline = self._position(), time.monotonic() + seconds
        while not (passed := self._passed(reached)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return passed

    def _position(self) -> Mapping[str, Any] | None:
        try:
            return source_position(self._replicator)
        except TidemarkError as error:
            LOGGER.warning("The end of the source's log is unknown: %s", error.message)
            return None

    def _passed(self, reached: Mapping[str, Any] | None) -> bool:
        self._replicator.refresh_from_db(fields=["checkpoint_offset"])
        return reached is not None and captured(self._replicator, reached)

    def _levels(self) -> dict[int, Level]:
        """By table that streams and has nothing left to merge: what changes with each of its changes."""
        rows = ReplicatorTable.objects.filter(pk__in=self._names, state=TableState.STREAMING.value)
        return {
            row.pk: (row.last_sequence, row.last_chunk_sequence, row.load, row.schema_version)
            for row in rows
            if row.last_sequence <= max(row.applied, row.live_from) and row.load == row.made_load
        }
