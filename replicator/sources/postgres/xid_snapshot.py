"""Which transactions a snapshot shows, and which of those in the log may still be invisible.

A commit is in the log before it is visible: between the two the backend may wait for a synchronous standby, or for the
scheduler, as long as it likes.  pg_current_snapshot() says what is visible: `xmin:xmax:xip,…`
(https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from replicator.model.change import EVERY

NAMED = 1_000
_WRAP = 1 << 32


@dataclass(frozen=True)
class Snapshot:
    """Transactions are full 64-bit numbers here; the log's have 32 bits, and mean the nearest to `xmax`."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Parse the text; ValueError if it is not a pg_snapshot."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, running.split(",") if running else ())))

    def shows(self, xid: int) -> bool:
        """True for a transaction that had ended when the snapshot was taken; `xid` as the log has it."""
        full = self.full(xid)
        return full < self.xmin or (full < self.xmax and full not in self.running)

    def show(self, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """`shows` of each."""
        full = xids + (self.xmax - xids + _WRAP // 2) // _WRAP * _WRAP
        running = np.isin(full, np.array(sorted(self.running), np.int64))
        return np.asarray((full < self.xmin) | ((full < self.xmax) & ~running))

    def full(self, xid: int) -> int:
        """The 64-bit number of a transaction that the log or a catalog's xmin has in 32 bits."""
        return xid + (self.xmax - xid + _WRAP // 2) // _WRAP * _WRAP


@lru_cache(maxsize=64)
def parsed(evidence: str) -> Snapshot:
    """Of a chunk's evidence, which is asked about many transactions."""
    return Snapshot.parse(evidence)


class InFlightTransactions:
    """Transactions that were read and are not known to be visible.

    An observation (a snapshot, and the log's end after it was taken) settles what it shows once the log was read up to
    that end: every mark after that place was written after it, and so was every snapshot after such a mark taken.
    """

    def __init__(self, unsettled: frozenset[str]) -> None:
        """`unsettled`: of the offset where reading begins."""
        self._read = set(unsettled)
        self._observations: deque[tuple[int, Snapshot]] = deque()

    def committed(self, xids: npt.NDArray[np.int64]) -> None:
        """Record transactions whose commits were read.

        Beyond NAMED, EVERY stands for those that the next observation will settle; without an observation, for all of
        them.
        """
        if len(self._read) + len(xids) > NAMED:
            named = np.array([int(one) for one in self._read if one != EVERY], np.int64)
            xids = np.concatenate([named, xids])
            xids = xids[~self._observations[0][1].show(xids)] if self._observations else xids[:0]
            self._read = {EVERY}
        self._read.update(map(str, xids.tolist()))

    def observed(self, lsn: int, snapshot: Snapshot) -> None:
        """`lsn`: the end of the log, asked for after the snapshot was taken."""
        self._observations.append((lsn, snapshot))

    def reached(self, lsn: int) -> bool:
        """The log was read up to here; True if that settled anything."""
        before = len(self._read)
        while self._observations and self._observations[0][0] <= lsn:
            _, snapshot = self._observations.popleft()
            self._read = {xid for xid in self._read if xid != EVERY and not snapshot.shows(int(xid))}
        return len(self._read) < before

    def unsettled(self) -> frozenset[str]:
        """All that were read and may be invisible."""
        return frozenset(self._read)
