"""A bounded batch of one shard: all tables' rows and events in one order, and the place behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from replicator.staging.storage import Storage
from replicator.streams.feed import LOAD, StreamEvent, StreamSegment, Stretch
from replicator.streams.position import ROW, StreamPosition
from replicator.streams.rows import Read, Rows, read

SCAN_BYTES = 64 * 1024 * 1024  # decoded for one batch at most, or so: other shards' rows are read, too


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """About; one row is always given."""

    rows: int = 10_000
    size: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CursorBatch:
    """What lies before `position`, from the place that was asked for.  `more`: there is something behind it now."""

    rows: tuple[Rows, ...]
    events: tuple[StreamEvent, ...]
    position: StreamPosition
    more: bool

    @property
    def empty(self) -> bool:
        return not (self.rows or self.events)


def read_batch(
    storage: Storage, stretch: Stretch, start: StreamPosition, *, shard: int, shards: int, limits: BatchLimits
) -> CursorBatch:
    """Return rows and events from `start` on, in order, without a gap, up to about `limits`.  Raises StagingError."""
    end = StreamPosition(stretch.upto)
    if start >= end:
        return CursorBatch((), (), start, stretch.more)
    merge = _Merge(storage, stretch.parts, start, end, shard, shards)
    merge.fill(limits)
    rows, position = merge.cut(limits)
    events = tuple(event for event in stretch.events if start <= place_of(event) < position)
    return CursorBatch(rows, events, position, stretch.more or position < end)


def place_of(event: StreamEvent) -> StreamPosition:
    """Where it lies among the rows."""
    return StreamPosition(event.sequence, 0 if event.kind == LOAD else ROW)


@dataclass(eq=False)
class _Source:
    """A part that is read as far as `known`: nothing before that is still to come."""

    part: StreamSegment
    known: StreamPosition
    batches: Iterator[Read] | None = None
    rows: list[Rows] = field(default_factory=list)


class _Merge:
    """Opens a part when its turn comes, so that only those that overlap are in memory (invariant 9)."""

    def __init__(
        self,
        storage: Storage,
        parts: Sequence[StreamSegment],
        start: StreamPosition,
        end: StreamPosition,
        shard: int,
        shards: int,
    ) -> None:
        self._storage, self._start, self._end = storage, start, end
        self._shard, self._shards = shard, shards
        there = [one for one in parts if start.sequence <= one.ends and one.begins < end.sequence]
        self._open = [_Source(one, max(start, StreamPosition(one.begins))) for one in there]
        self._all = list(self._open)
        self._scanned = 0

    def fill(self, limits: BatchLimits) -> None:
        """Read until there are rows enough whose order is certain, or nothing is left."""
        while (one := self._next()) is not None and not self._enough(limits):
            if self._scanned >= SCAN_BYTES and one.known > self._start:
                return
            if one.batches is None:
                one.batches = read(self._storage, one.part, self._start, self._shard, self._shards)
            found = next(one.batches, None)
            if found is None:
                self._open.remove(one)
                continue
            one.known = max(one.known, found.known)
            self._scanned += found.scanned
            if found.rows.data.num_rows:
                one.rows.append(found.rows)

    def cut(self, limits: BatchLimits) -> tuple[tuple[Rows, ...], StreamPosition]:
        """The first rows in order, and the place behind them."""
        behind = self._certain()
        found = [rows.between(0, rows.below(behind)) for one in self._all for rows in one.rows]
        found = [rows for rows in found if rows.data.num_rows]
        if not found:
            return (), behind
        sequences = np.concatenate([rows.sequences for rows in found])
        offsets = np.concatenate([rows.offsets for rows in found])
        sizes = np.concatenate([np.full(rows.data.num_rows, _each(rows)) for rows in found])
        order = np.lexsort((offsets, sequences))
        count = _fitting(sizes[order], limits)
        if count < len(order):
            first_left = order[count]
            behind = StreamPosition(int(sequences[first_left]), int(offsets[first_left]))
            found = [rows.between(0, rows.below(behind)) for rows in found]
        return tuple(rows for rows in found if rows.data.num_rows), behind

    def _next(self) -> _Source | None:
        """The one that all others wait for."""
        one = min(self._open, key=lambda source: source.known, default=None)
        return one if one is not None and one.known < self._end else None

    def _certain(self) -> StreamPosition:
        return min([self._end, *(source.known for source in self._open)])

    def _enough(self, limits: BatchLimits) -> bool:
        held = [rows for one in self._all for rows in one.rows]
        if sum(rows.data.num_rows for rows in held) < limits.rows and sum(r.data.nbytes for r in held) < limits.size:
            return False
        certain = self._certain()
        counts = [(rows, rows.below(certain)) for rows in held]
        rows = sum(count for _, count in counts)
        return rows >= limits.rows or sum(_each(one) * count for one, count in counts) >= limits.size


def _each(rows: Rows) -> float:
    """Bytes."""
    return float(rows.data.nbytes / rows.data.num_rows)


def _fitting(sizes: npt.NDArray[np.float64], limits: BatchLimits) -> int:
    fit = int(np.searchsorted(np.cumsum(sizes), limits.size, "right"))
    return max(1, min(fit, limits.rows))
