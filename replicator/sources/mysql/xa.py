"""XA transactions: their rows are in the log when they are prepared, and count when XA COMMIT is.

The rows wait as raw events.  As long as one waits, reading cannot resume behind its XA PREPARE, so no Commit is possible.
"""

from __future__ import annotations

import time

from replicator.errors import SourceError
from replicator.sources.mysql.events import Event

PATIENCE = 600.0  # seconds
_REMEDY = (
    "XA RECOVER on the source lists prepared transactions: commit or roll them back, then start the replicator again."
)


class PreparedTransactions:
    """Those between XA PREPARE and XA COMMIT or ROLLBACK."""

    def __init__(self, limit: int) -> None:
        """`limit` in bytes, for all that wait (invariant 9)."""
        self.recording: list[Event] | None = None
        self._limit = limit
        self._bytes = 0
        self._waiting: dict[str, tuple[float, list[Event]]] = {}

    @property
    def waiting(self) -> bool:
        """True while a transaction is prepared and not ended; SourceError where that takes too long."""
        if self._waiting and time.monotonic() - min(since for since, _ in self._waiting.values()) > PATIENCE:
            message = f"An XA transaction has been prepared for more than {PATIENCE / 60:.0f} minutes and is not ended."
            raise SourceError(message, remedy=_REMEDY)
        return bool(self._waiting)

    def start(self) -> None:
        """What follows is kept back until XA PREPARE."""
        self.recording = []

    def record(self, event: Event) -> None:
        """A TABLE_MAP or rows event of the XA transaction."""
        assert self.recording is not None
        self.recording.append(event)
        self._bytes += len(event.body)
        if self._bytes > self._limit:
            message = f"XA transactions of more than {self._limit} bytes wait for their end: that is not supported."
            raise SourceError(
                message, remedy="Use smaller XA transactions, or leave their tables out of the replicator."
            )

    def prepare(self, name: str, *, keep: bool) -> list[Event]:
        """XA PREPARE; `keep` False: it is the end already (one phase)."""
        events, self.recording = self.recording or [], None
        if keep:
            self._waiting[name] = (time.monotonic(), events)
        else:
            self._forget(events)
        return events

    def commit(self, name: str) -> list[Event]:
        """XA COMMIT: the events; SourceError where the rows were before the place where reading began."""
        if name not in self._waiting:
            message = (
                "An XA transaction was committed that had been prepared before reading began: its rows are not known."
            )
            raise SourceError(message, remedy="Resnapshot the tables of the replicator.")
        _, events = self._waiting.pop(name)
        self._forget(events)
        self.recording = None
        return events

    def rollback(self, name: str) -> None:
        """XA ROLLBACK."""
        _, events = self._waiting.pop(name, (0.0, []))
        self._forget(events)
        self.recording = None

    def abandon(self) -> None:
        """The transaction under way never ended."""
        self._forget(self.recording or [])
        self.recording = None

    def _forget(self, events: list[Event]) -> None:
        self._bytes -= sum(len(event.body) for event in events)
