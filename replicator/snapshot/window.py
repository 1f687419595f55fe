"""The windows of open chunks: which keys the log touched that a chunk's rows may not show (invariant 5).

Where the log's order is the order of visibility, those are the keys between a chunk's marks.  Where it is not
(Postgres: a commit is in the log before it is visible, and may stay so for long), a transaction before the low mark may
be unknown to the rows too: so the changes of all transactions that are not known to be visible are kept, and the
chunk's evidence tells which it shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replicator.model.change import EVERY, ChangeBatch
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, TXN_ID
from replicator.state.chunks import Mark

Key = tuple[Any, ...]
Shows = Callable[[str], bool]
DOUBTFUL = 20_000  # transactions without known changes that are named
RECALL_BYTES = 64 * 1024 * 1024
MAX_MET = 10_000  # attempts whose low marks are remembered
ANY = ""  # stands for all transactions of a log that is ordered by visibility


@dataclass
class Window:
    """`touched`: keys by transaction; `changes` counts rows; `spoiled` says why the chunk has to be read again.

    `doubtful`: transactions before the low mark of which no more is known than that they may be invisible yet.
    `batches`: the changes themselves, of a table whose updates may leave values out (`overlay`).
    `opened`: the opened mark of a keyless table was met; what comes after it is not in its rows.
    """

    table: TableId
    mark: Mark
    touched: dict[str, set[Key]] = field(default_factory=dict)
    doubtful: frozenset[str] = frozenset()
    changes: int = 0
    batches: list[ChangeBatch] = field(default_factory=list)
    spoiled: str = ""
    opened: bool = False

    def keys(self, shows: Shows | None) -> set[Key]:
        """Return the keys whose changes the rows may lack.  None: it is unknown which transactions the rows show."""
        return set().union(*(keys for txn, keys in self.touched.items() if shows is None or not shows(txn)))

    def overtaken(self, shows: Shows | None) -> bool:
        """Do the rows lack a transaction whose keys are not known?"""
        return shows is not None and (EVERY in self.doubtful or not all(map(shows, self.doubtful)))

    def behind(self, shows: Shows | None) -> bool:
        """Keyless: do the rows lack anything that the log had before the opened mark?"""
        return self.overtaken(shows) or (shows is not None and not all(map(shows, self.touched)))

    def spoil(self, reason: str) -> None:
        """What was read is worth nothing, and what was kept for it neither."""
        self.spoiled = reason
        self.touched.clear()
        self.batches.clear()

    @property
    def size(self) -> int:
        return sum(map(len, self.touched.values()))


class Windows:
    """All windows that are open at the present place of the log.  Memory is bounded by `limit` keys (invariant 9)."""

    def __init__(self, limit: int, recall_bytes: int = RECALL_BYTES) -> None:
        """`limit`: keys kept over all windows; a window that would exceed it is spoiled and its chunk read again.

        `by_transaction`: the log is not ordered by visibility (a `Settled` was met).
        `recall_bytes`: of changes kept because their transactions may be invisible yet; of older ones only the names
        are kept.
        """
        self._limit, self._recall_bytes = limit, recall_bytes
        self._open: dict[int, Window] = {}
        self._met: dict[tuple[int, str], None] = {}
        self.by_transaction = False
        self._recalled: list[tuple[ChangeBatch, frozenset[str]]] = []
        self._recalled_bytes = 0
        self._doubtful: set[str] = set()

    def settle(self, unsettled: frozenset[str]) -> None:
        """See `Settled`.  The first one, before any change, names those of which the changes are not known any more."""
        if EVERY in self._doubtful or not self.by_transaction:
            self._doubtful = set(unsettled)
        elif EVERY not in unsettled:
            self._doubtful &= unsettled
        self.by_transaction = True
        if EVERY not in unsettled:
            self._recalled = [one for one in self._recalled if not one[1].isdisjoint(unsettled)]
            self._recalled_bytes = sum(batch.data.nbytes for batch, _ in self._recalled)

    def open(self, table: TableId, mark: Mark) -> None:
        """Open a window at a low mark.  An older attempt's window of the same chunk is forgotten.

        Each attempt opens its window once: a repeated mark would hide what the log changed before it.
        """
        if (mark.chunk, mark.attempt) in self._met:
            return
        self._met[mark.chunk, mark.attempt] = None
        if len(self._met) > MAX_MET:
            del self._met[next(iter(self._met))]
        window = self._open[mark.chunk] = Window(table, mark, doubtful=frozenset(self._doubtful))
        for batch, _ in self._recalled:
            if batch.table == table:
                _touch(window, batch, self._keys(batch))
        self._bound()

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
        if self.by_transaction:
            self._recall(batch)
        windows = [w for w in self._open.values() if w.table == batch.table and not w.spoiled and not w.opened]
        if not windows:
            return
        keys = self._keys(batch)
        for window in windows:
            window.changes += batch.data.num_rows
            _touch(window, batch, keys)
        self._bound()

    def keys_unknown(self, table: TableId, transactions: frozenset[str]) -> None:
        """Rows of the table were changed by these transactions, and their keys are not known."""
        for window in self._open.values():
            if window.table == table and not window.opened:
                window.spoil("a change that cannot be decoded occurred while the chunk was read")
        if self.by_transaction:
            self._doubt(transactions)

    def spoil(self, table: TableId, reason: str) -> None:
        """A DDL, a failure: what was read within the open windows of this table is worth nothing.

        A DDL waits for the transactions that changed the table before it: they are visible.
        """
        self._recalled = [one for one in self._recalled if one[0].table != table]
        for window in self._open.values():
            if window.table == table:
                window.spoil(reason)

    def _keys(self, batch: ChangeBatch) -> dict[str, set[Key]]:
        """By transaction; a keyless table has transactions without keys."""
        key = batch.schema.key
        if not self.by_transaction:
            return {ANY: set(keys_of(batch.data, key)) if key else set()}
        column = batch.data.column(TXN_ID)
        found: dict[str, set[Key]] = {txn: set() for txn in pc.unique(column).to_pylist()}
        if key:
            for place, one in enumerate(keys_of(batch.data, key)):
                found[column[place % len(column)].as_py()].add(one)
        return found

    def _recall(self, batch: ChangeBatch) -> None:
        self._recalled.append((batch, frozenset(pc.unique(batch.data.column(TXN_ID)).to_pylist())))
        self._recalled_bytes += batch.data.nbytes
        while self._recalled_bytes > self._recall_bytes:
            oldest, transactions = self._recalled.pop(0)
            self._recalled_bytes -= oldest.data.nbytes
            self._doubt(transactions)

    def _doubt(self, transactions: frozenset[str]) -> None:
        self._doubtful |= transactions
        if len(self._doubtful) > DOUBTFUL:
            self._doubtful = {EVERY}

    def _bound(self) -> None:
        for window in self._open.values():
            if sum(batch.data.nbytes for batch in window.batches) > self._recall_bytes:
                window.spoil("too much data changed while the chunk was read")
        while sum(window.size for window in self._open.values()) > self._limit:
            largest = max(self._open.values(), key=lambda window: window.size)
            largest.spoil("too many changes while the chunk was read")


def _touch(window: Window, batch: ChangeBatch, keys: dict[str, set[Key]]) -> None:
    if batch.schema.partial:
        window.batches.append(batch)
    for txn, touched in keys.items():
        window.touched.setdefault(txn, set()).update(touched)


def keys_of(data: pa.RecordBatch, key: tuple[str, ...]) -> Iterator[Key]:
    """Key tuples of the row images, then of the before images (an absent image gives a tuple of None)."""
    for prefix in ("", BEFORE):
        yield from tuples(data, [prefix + name for name in key])


def touched_places(batches: Iterable[pa.RecordBatch], key: tuple[str, ...], touched: set[Key]) -> list[int]:
    """Places of the rows of a chunk whose key the log touched within the window; the batches need not have other
    columns.
    """
    found: list[int] = []
    if not touched:
        return found
    first = 0
    likely = _likely(batches, key[0], touched)
    for rows, places in likely:
        near = zip(places, tuples(rows.take(pa.array(places, pa.int64())), key), strict=True)
        found += [first + place for place, one in near if one in touched]
        first += rows.num_rows
    return found


def _likely(
    batches: Iterable[pa.RecordBatch], name: str, touched: set[Key]
) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
    """Each batch with the places of the rows whose first key column has a touched value; of floats, all (-0 is 0, but
    not to Arrow).
    """
    firsts: pa.Array | None = None
    for rows in batches:
        column = rows.column(name)
        if pa.types.is_floating(column.type):
            yield rows, list(range(rows.num_rows))
            continue
        if firsts is None:
            firsts = pa.array({one[0] for one in touched if one[0] is not None}, column.type)
        yield rows, pc.indices_nonzero(pc.is_in(column, value_set=firsts)).to_pylist()


def tuples(data: pa.RecordBatch, names: Iterable[str]) -> Iterator[Key]:
    """Of these columns; NaN is a key like any other, but unlike itself in Python."""
    return zip(*(_comparable(data.column(name)) for name in names), strict=True)


def _comparable(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return ["NaN" if value is not None and math.isnan(value) else value for value in values]
    return values
