"""Is the server's log still the one that was read?

A restored data folder and a promoted standby may have another past (ADR 31).

The slot is confirmed only up to the commit record of the last transaction that was read, so that this one comes first
when reading begins again.  Its place, number and commit time together are of one past alone.
"""

from __future__ import annotations

from replicator.errors import SourceReplaced
from replicator.sources.postgres.offset import LsnOffset, lsn_text


class Past:
    """What was read before `start`.  Offsets of earlier versions name no commit, and nothing is looked for."""

    def __init__(self, start: LsnOffset) -> None:
        self._start, self._last = start, start.last_commit
        self.awaited = start.last_commit is not None

    def has(self, record: int, xid: int, commit_us: int) -> bool:
        """Was this transaction, the next of the log, read before?  SourceReplaced where it is of another past."""
        last = self._last
        if last is None:
            return record < self._start.lsn
        if record < last.record:
            return True
        if self.awaited:
            if (record, xid, commit_us) != (last.record, last.xid, last.commit_us):
                raise self._replaced()
            self.awaited = False
            return True
        if record < self._start.lsn:
            message = (
                f"The source's log has transaction {xid} at {lsn_text(record)}, which did not exist when the log was"
                f" read up to {self._start}. The server was restored from an older backup, or a standby was promoted."
            )
            raise SourceReplaced(message)
        return False

    def reached(self, lsn: int) -> None:
        """The log was read up to here.  SourceReplaced where the last commit should have come."""
        if self.awaited and self._last is not None and lsn > self._last.record:
            raise self._replaced()

    def _replaced(self) -> SourceReplaced:
        assert self._last is not None
        return SourceReplaced(
            f"The source's log does not have transaction {self._last.xid} at {lsn_text(self._last.record)}, which was"
            " read from it. The server was restored from an older backup, or a standby without it was promoted."
        )
