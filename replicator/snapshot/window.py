"""The windows of open chunks: which keys the log touched between a chunk's marks (invariant 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replicator.model.change import ChangeBatch
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE
from replicator.state.chunks import Mark

Key = tuple[Any, ...]


@dataclass
class Window:
    """`touched` holds the keys seen; `changes` counts rows; `spoiled` says why the chunk has to be read again."""

    table: TableId
    mark: Mark
    touched: set[Key] = field(default_factory=set)
    changes: int = 0
    spoiled: str = ""


class Windows:
    """All windows that are open at the present place of the log.  Memory is bounded by `limit` keys (invariant 9)."""

    def __init__(self, limit: int) -> None:
        """`limit`: keys kept over all windows; a window that would exceed it is spoiled and its chunk read again."""
        self._limit = limit
        self._open: dict[int, Window] = {}

    def open(self, table: TableId, mark: Mark) -> None:
        """Met a low mark.  An older attempt's window of the same chunk is forgotten."""
        self._open[mark.chunk] = Window(table, mark)

    def close(self, mark: Mark) -> Window | None:
        """Met the high mark; None where this attempt's low mark was not seen."""
        window = self._open.get(mark.chunk)
        if window is None or window.mark.attempt != mark.attempt:
            return None
        return self._open.pop(mark.chunk)

    def peek(self, mark: Mark) -> Window | None:
        """The window, left open (a keyless table's opened mark)."""
        window = self._open.get(mark.chunk)
        return window if window is not None and window.mark.attempt == mark.attempt else None

    def observe(self, batch: ChangeBatch) -> None:
        """Remember the keys that a batch touches, before and after images both."""
        windows = [w for w in self._open.values() if w.table == batch.table and not w.spoiled]
        if not windows:
            return
        keys = set(keys_of(batch.data, batch.schema.key)) if batch.schema.key else set()
        for window in windows:
            window.changes += batch.data.num_rows
            window.touched |= keys
        self._bound()

    def spoil(self, table: TableId, reason: str) -> None:
        """A DDL, a failure: what was read within the open windows of this table is worth nothing."""
        for window in self._open.values():
            if window.table == table:
                window.spoiled = reason
                window.touched.clear()

    def _bound(self) -> None:
        while sum(len(window.touched) for window in self._open.values()) > self._limit:
            largest = max(self._open.values(), key=lambda window: len(window.touched))
            largest.spoiled = "too many changes while the chunk was read"
            largest.touched.clear()


def keys_of(data: pa.RecordBatch, key: tuple[str, ...]) -> Iterator[Key]:
    """Key tuples of the row images and of the before images (an absent image gives a tuple of None)."""
    for prefix in ("", BEFORE):
        yield from zip(*(data.column(prefix + name).to_pylist() for name in key), strict=True)


def untouched(rows: pa.RecordBatch, key: tuple[str, ...], touched: Iterable[Key]) -> pa.RecordBatch:
    """The rows of a chunk whose key the log did not touch within the window."""
    seen = touched if isinstance(touched, set) else set(touched)
    if not seen:
        return rows
    keys = zip(*(rows.column(name).to_pylist() for name in key), strict=True)
    return rows.filter(pc.invert(pa.array([one in seen for one in keys], pa.bool_())))
