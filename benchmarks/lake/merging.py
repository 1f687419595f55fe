"""Merges of random keys into a large table, through the product's own target: staged segments, one `Merge` each,
maintenance after it.

The table is loaded as an initial load is, by appends of snapshot segments. Half of the keys of its range are taken, so
that inserts fall among them. Of a batch's keys eight in ten are updated, one is deleted and one inserted, all of them
at random over the whole range.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from benchmarks.data.world import World
from benchmarks.initial_load import say
from benchmarks.report import Row
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, SEQUENCE, Column, TableSchema
from replicator.model.types import DataType
from replicator.staging.writer import SegmentWriter
from replicator.state.journal import Segment, SegmentKind

if TYPE_CHECKING:  # Spark is loaded when it is used
    from replicator.targets.base import ApplyResult, TargetChange, TargetTable

SMALL, TIMES_LARGER = 5_000_000, 4
BATCHES = (1_000, 10_000, 100_000)
DAY_MERGES, DAY_KEYS, DAY_READS = 288, 10_000, 12  # one merge every five minutes; the table is read every two hours
SHORT_DAY = 24
STEP = 1_000_000
DISK_SECONDS = 1.0
Ids = np.ndarray[Any, Any]
Choose = Callable[[Ids], Ids]
COLUMNS = {
    "id": "bigint", "customer": "int", "status": "string", "quantity": "int", "amount": "decimal(12,2)",
    "weight": "double",
    "gift": "boolean", "ordered": "timestamp_ntz", "due": "date", "note": "string",
}  # fmt: skip


@dataclass
class Merged:
    """Seconds of the merges and of the maintenance after them, and how they were done."""

    seconds: list[float]
    maintenance: list[float]
    how: Counter[str]

    def __add__(self, other: Merged) -> Merged:
        return Merged(self.seconds + other.seconds, self.maintenance + other.maintenance, self.how + other.how)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def ways(self) -> str:
        return ", ".join(f"{number} {how}" for how, number in self.how.most_common())


def run(world: World[Any], rows: int | None, repeats: int) -> list[Row]:
    """`rows` of the small table; a short day where they are given."""
    del world  # its environment says where the lake is
    from replicator.targets.iceberg.jvm import jvm
    from replicator.targets.iceberg.target import IcebergTarget
    from webapp.destinations.lakes import built_in_lake
    from webapp.replicators.staging import storage
    from webapp.worker.run.spark import spark

    pool = spark(built_in_lake())
    target = IcebergTarget(pool, storage(), "bench")
    try:
        small = MergedTable(target, pool, "small", rows or SMALL)
        large = MergedTable(target, pool, "large", (rows or SMALL) * TIMES_LARGER)
        found = []
        for table in (small, large):
            table.merges(BATCHES[0], 2)  # compiles Spark's code
        for keys in BATCHES:
            found += _compared(small, large, keys, repeats)
        return found + _day(small, SHORT_DAY if rows else DAY_MERGES)
    finally:
        jvm.stop()


def _compared(small: MergedTable, large: MergedTable, keys: int, repeats: int) -> list[Row]:
    """In turn, so that both meet what else the machine does."""
    into_small, into_large = Merged([], [], Counter()), Merged([], [], Counter())
    for _ in range(repeats):
        into_small += small.merges(keys, 1)
        into_large += large.merges(keys, 1)
    size, base, ours = f"{keys // 1000}k keys", into_small.median, into_large.median
    rows = [Row.at_most(f"merge: {size} into {large.title} ({into_large.ways})", ours, base, 1.2, "s")]
    if keys == BATCHES[0]:
        name = f"merge: {size} into {small.title} ({into_small.ways})"
        rows.append(Row(name, base, None, "≤ 1.5 s", base <= 1.5, "s"))
    return rows


def _day(table: MergedTable, merges: int) -> list[Row]:
    reads, day = [], Merged([], [], Counter())
    table.read()  # compiles Spark's code
    for _ in range(DAY_READS):
        day += table.merges(DAY_KEYS, merges // DAY_READS)
        reads.append(table.read())
    table.compact()
    table.read()
    fresh = statistics.median(table.read() for _ in range(3))
    say(f"merge: the day's reads {', '.join(f'{read:.2f}' for read in reads)} s, of the compacted table {fresh:.2f} s")
    title = f"{merges} merges of {DAY_KEYS // 1000}k keys into {table.title} ({day.ways})"
    spent = sum(day.maintenance) / sum(day.seconds)
    return [
        Row.at_most(f"merge: reading during a day, {title}", statistics.median(reads), fresh, 2, "s"),
        Row.at_most("merge: reading during that day, at its worst", max(reads), fresh, 2, "s"),
        Row("merge: that day's merge, median", day.median, None, "none", met=True, unit="s"),
        Row("merge: that day's maintenance, for each second of merging", spent, None, "none", met=True, unit="s"),
        Row("merge: rows too many or too few after that day", table.wrong(), None, "0", table.wrong() == 0),
    ]


class Merging(Protocol):
    """What is measured of a `Target`."""

    def apply(self, table: TargetTable, change: TargetChange) -> ApplyResult: ...
    def maintain(self, table: TargetTable) -> str: ...


class MergedTable:
    """A table of the lake, and how many rows it must have."""

    def __init__(self, target: Merging, pool: Any, name: str, rows: int, *, namespace: str = "bench_merge") -> None:
        """`pool`: of the sessions that read and compact; None where neither is asked for."""
        from replicator.targets.base import Create, TargetTable
        from webapp.replicators.staging import storage

        self._target, self._pool = target, pool
        self._name, self._rows = TargetTable(namespace, name), rows
        self.title = f"{rows / 1e6:g} M rows"
        table = TableId("bench_merge", name)
        columns = tuple(Column(key, DataType.parse(kind), key != "id", kind) for key, kind in COLUMNS.items())
        self._schema = TableSchema(table, columns, ("id",))
        self._writer = SegmentWriter(storage(), "bench")
        self._random = np.random.default_rng(1)
        self._there = np.arange(2 * rows) % 2 == 0  # by id
        self._sequence = 0
        target.apply(self._name, Create(self._schema, 1, -1, "load"))
        self._load()

    def _load(self) -> None:
        from replicator.targets.base import Append

        say(f"merge: loading {self.title}")
        segments: list[Segment] = []
        for first in range(0, self._rows, STEP):
            ids = np.arange(first, min(first + STEP, self._rows)) * 2
            segments += self._staged(ids, np.full(len(ids), "READ"), SegmentKind.CHUNK)
            if len(segments) == 4 or ids[-1] == 2 * self._rows - 2:
                self._target.apply(self._name, Append(segments, self._schema, segments[-1].last_sequence))
                segments = []

    def merges(self, keys: int, times: int, choose: Choose | None = None) -> Merged:
        """Merge `times` batches of `keys` keys, each followed by its maintenance.

        choose: returns the ids that may be taken.
        """
        from replicator.targets.base import Merge

        found = Merged([], [], Counter())
        for _ in range(times):
            ids, operations = self._batch(keys, choose)
            segments = self._staged(ids, operations, SegmentKind.LOG)
            started = time.monotonic()
            result = self._target.apply(self._name, Merge(segments, self._schema, segments[-1].last_sequence))
            merged = time.monotonic()
            self._target.maintain(self._name)
            found.seconds.append(merged - started)
            found.maintenance.append(time.monotonic() - merged)
            found.how[result.how] += 1
        say(
            f"merge: {keys:,} keys into {self.title}: {', '.join(f'{one:.2f}' for one in found.seconds[:8])} s"
            f" ({found.ways})"
        )
        return found

    def _batch(self, keys: int, choose: Choose | None) -> tuple[Ids, np.ndarray[Any, Any]]:
        """Updates and deletes of rows that are there, inserts of those that are not."""
        among = 2 * self._rows if choose is None else choose(np.arange(2 * self._rows))
        ids = self._random.choice(among, 3 * keys, replace=False)
        there = ids[self._there[ids]][: keys * 9 // 10]
        absent = ids[~self._there[ids]][: keys - len(there)]
        operations = np.concatenate([np.full(len(there), "UPDATE"), np.full(len(absent), "INSERT")])
        operations[: keys // 10] = "DELETE"
        self._there[absent], self._there[there[: keys // 10]] = True, False
        ids = np.concatenate([there, absent])
        order = self._random.permutation(len(ids))
        return ids[order], operations[order]

    def _staged(self, ids: np.ndarray[Any, Any], operations: np.ndarray[Any, Any], kind: SegmentKind) -> list[Segment]:
        first, count = self._sequence, len(ids)
        self._sequence += count
        row = dict(zip(COLUMNS, self.values(ids, first), strict=True))
        nothing = pa.nulls(count, pa.string())
        head = [
            np.arange(first, first + count), operations,
            pa.array([datetime.now(UTC)] * count, pa.timestamp("us", "UTC")), nothing, nothing,
        ]  # fmt: skip
        before = row if kind is SegmentKind.LOG else {name: pa.nulls(count) for name in row}
        schema = self._schema.change_arrow
        arrays = [*head, *row.values(), *(before[name.removeprefix(BEFORE)] for name in schema.names[-len(row) :])]
        cast = [_as(array, field.type) for array, field in zip(arrays, schema, strict=True)]
        self._writer.add(self._schema.table, 1, pa.record_batch(cast, schema=schema), kind)
        sealed = self._writer.seal()
        while not sealed.durable(DISK_SECONDS):
            pass
        return sealed.hand_out()

    @staticmethod
    def values(ids: np.ndarray[Any, Any], seed: int) -> list[Any]:
        """Of all columns, in their order."""
        mixed = (ids * 2_654_435_761 + seed) % 1_000_003
        return [
            ids, (mixed % 100_003).astype(np.int32),
            pa.array(np.array(["new", "paid", "shipped", "closed"])[mixed % 4]),
            (mixed % 50).astype(np.int32), pa.array(mixed).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
            mixed / 3,
            mixed % 2 == 0, pa.array(1_767_225_600_000_000 + mixed * 1_000_001).cast(pa.timestamp("us")),
            pa.array((20_454 + mixed % 365).astype(np.int32)).cast(pa.date32()),
            pa.array(np.char.add("left at the neighbour's, door ", mixed.astype(str))),
        ]  # fmt: skip

    def read(self) -> float:
        """Seconds in which Spark reads all rows: their number, and something of three columns."""
        with self._pool.session({}) as spark:
            started = time.monotonic()
            spark.sql(f"SELECT count(*), sum(amount), max(note), max({SEQUENCE}) FROM {self._path}").collect()
            return time.monotonic() - started

    def compact(self) -> None:
        """All of it, into files as a fresh load makes them."""
        with self._pool.session({}) as spark:
            options = "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
            spark.sql(f"CALL lake.system.rewrite_data_files(table => '{self._name}', {options})").collect()

    def files(self) -> int:
        """That the last merge has written, deletes among them."""
        with self._pool.session({}) as spark:
            wrote = "ifnull(summary['added-data-files'], 0) + ifnull(summary['added-delete-files'], 0)"
            merges = f"{self._path}.snapshots WHERE summary['tidemark.applied'] IS NOT NULL"
            found = spark.sql(f"SELECT {wrote} FROM {merges} ORDER BY committed_at DESC LIMIT 1").collect()
            return int(found[0][0])

    def wrong(self) -> int:
        """By how many rows the table is off."""
        with self._pool.session({}) as spark:
            found = spark.sql(f"SELECT count(*) FROM {self._path}").collect()[0][0]
        return abs(int(found) - self.held)

    @property
    def held(self) -> int:
        """Rows that the table must have."""
        return int(self._there.sum())

    @property
    def _path(self) -> str:
        return f"lake.{self._name}"


def _as(values: Any, kind: pa.DataType) -> pa.Array:
    """Numpy's or Arrow's; many texts of numpy become several chunks."""
    found = pa.array(values, kind) if isinstance(values, np.ndarray) else values.cast(kind)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
