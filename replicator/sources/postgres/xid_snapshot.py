"""Which transactions a snapshot shows, and which of those in the log may still be invisible.

A commit is in the log before it is visible: between the two the backend may wait for a synchronous standby, or for the
scheduler, as long as it likes.  pg_current_snapshot() says what is visible: `xmin:xmax:xip,…`
(https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from replicator.model.change import EVERY

NAMED = 1_000
_MAX_PARTS = 64
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

    All are kept, 8 bytes each; what the next observation shows goes as soon as that is known (`_observed`).  An offset
    names at most NAMED of them.  Of more it has EVERY, the first and the last: after a restart each transaction between
    these that an observation does not show may be one of them.
    """

    def __init__(self, unsettled: frozenset[str]) -> None:
        """`unsettled`: of the offset where reading begins."""
        named = np.array(sorted(int(one) for one in unsettled if one != EVERY), np.int64)
        self._parts = [named] if len(named) else []  # arrays that are never changed: `names` may be asked for later
        self._count, self._thin_at = len(named), NAMED
        self._observed = False  # some that were read are left out, because the first of `_observations` shows them
        self._before = named if EVERY in unsettled else None  # as above, until the first observation
        self._observations: deque[tuple[int, Snapshot]] = deque()

    def committed(self, xids: npt.NDArray[np.int64]) -> None:
        """Record transactions whose commits were read."""
        self._parts.append(np.array(xids, np.int64))
        self._count += len(xids)
        if self._count > self._thin_at and self._observations:
            known = self._count
            self._keep_unseen_by(self._observations[0][1])
            self._observed = self._observed or self._count < known
        elif len(self._parts) > _MAX_PARTS:
            self._parts = [np.concatenate(self._parts)]

    def observed(self, lsn: int, snapshot: Snapshot) -> None:
        """`lsn`: the end of the log, asked for after the snapshot was taken."""
        self._observations.append((lsn, snapshot))

    def reached(self, lsn: int) -> bool:
        """The log was read up to here; True if that settled anything."""
        settled = False
        while self._observations and self._observations[0][0] <= lsn:
            _, snapshot = self._observations.popleft()
            known = self._count
            self._keep_unseen_by(snapshot)
            settled = settled or self._observed or self._before is not None or self._count < known
            self._observed = False
            if self._before is not None:
                self._parts.append(_unseen_between(self._before, snapshot))
                self._count += len(self._parts[-1])
                self._before = None
        return settled

    def unsettled(self) -> frozenset[str]:
        """All that were read and may be invisible."""
        return self.names()()

    def names(self) -> Callable[[], frozenset[str]]:
        """What `unsettled` is now, worked out when it is asked for."""
        return partial(_names, tuple(self._parts), every=self._observed or self._before is not None)

    def _keep_unseen_by(self, snapshot: Snapshot) -> None:
        if self._parts:
            xids = np.concatenate(self._parts)
            kept = xids[~snapshot.show(xids)]
            self._parts, self._count = [kept], len(kept)
        self._thin_at = max(NAMED, 2 * self._count)  # looked at again when as many have come: linear over all


def _names(parts: Sequence[npt.NDArray[np.int64]], *, every: bool) -> frozenset[str]:
    xids = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    if len(xids) > NAMED:
        since = (xids - xids[0] + _WRAP // 2) % _WRAP  # numbers go on at 3 after 2^32 - 1
        xids, every = xids[[since.argmin(), since.argmax()]], True
    return frozenset((*map(str, xids.tolist()), *((EVERY,) if every else ())))


def _unseen_between(named: npt.NDArray[np.int64], snapshot: Snapshot) -> npt.NDArray[np.int64]:
    """All from the least to the greatest of `named` (without any: all) that the snapshot does not show."""
    full = [snapshot.full(xid) for xid in named.tolist()] or [0, snapshot.xmax - 1]
    running = [xid for xid in snapshot.running if min(full) <= xid <= max(full)]
    later = np.arange(max(snapshot.xmax, min(full)), max(full) + 1, dtype=np.int64)
    return np.concatenate([np.array(running, np.int64), later]) % _WRAP
