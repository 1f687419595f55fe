"""Merges of UPDATEs that leave a large value out (Postgres TOAST), directly and as Spark does them, in turn, into
tables that are alike.

A row has a document of 2,000 characters; a batch changes the status of a thousand rows at random.
"""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.data.world import World
from benchmarks.initial_load import say
from benchmarks.report import Row
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, SEQUENCE, UNCHANGED, Column, TableSchema
from replicator.model.types import DataType
from replicator.staging.writer import SegmentWriter
from replicator.state.journal import Segment, SegmentKind

if TYPE_CHECKING:  # Spark is loaded when it is used
    from replicator.targets.iceberg.target import IcebergTarget

ROWS, KEYS, SIZE = 50_000, 1_000, 2_000
DISK_SECONDS = 1.0
NAMES = ("id", "status", "doc")


def run(world: World[Any], rows: int | None, repeats: int) -> list[Row]:
    """`rows` of each table."""
    del world  # its environment says where the lake is
    from replicator.targets.iceberg.direct.writer import SPARK_ONLY
    from replicator.targets.iceberg.jvm import jvm
    from replicator.targets.iceberg.target import IcebergTarget
    from webapp.destinations.lakes import built_in_lake
    from webapp.replicators.staging import storage
    from webapp.worker.run.spark import spark

    pool = spark(built_in_lake())
    try:
        direct = MergedTable(IcebergTarget(pool, storage(), "bench"), "direct", rows or ROWS)
        spark = MergedTable(IcebergTarget(pool, storage(), "bench", SPARK_ONLY), "spark", rows or ROWS)
        times: dict[str, list[float]] = {}
        for number in range(repeats + 2):
            for table in (direct, spark):
                how, seconds = table.merge()
                say(f"left out: {how}, {seconds:.2f} s")
                if number >= 2:  # Spark compiles its code
                    times.setdefault(how, []).append(seconds)
        with pool.session({}) as session:
            wrong = sum(table.wrong(session) for table in (direct, spark))
        ours, theirs = (statistics.median(found) for found in times.values())
        title = (
            f"merge: {KEYS // 1000}k keys whose values of {SIZE:,} characters are left out into"
            f" {(rows or ROWS) // 1000}k rows"
        )
        return [
            Row.at_most(f"{title}, {' against '.join(times)}", ours, theirs, 0.5, "s"),
            Row("merge: rows of these two that have another's document, or none", wrong, None, "0", wrong == 0),
        ]
    finally:
        jvm.stop()


class MergedTable:
    """A table of the lake; the document of a row begins with its id."""

    def __init__(self, target: IcebergTarget, name: str, rows: int) -> None:
        from replicator.targets.base import Append, Create, TargetTable
        from webapp.replicators.staging import storage

        self._target, self._name, self._rows = target, TargetTable("bench_left_out", name), rows
        kinds = zip(NAMES, ("bigint", "string", "string"), strict=True)
        columns = tuple(Column(name, DataType.parse(kind), name != "id", kind) for name, kind in kinds)
        self._schema = TableSchema(TableId("bench_left_out", name), columns, ("id",), partial=True)
        self._writer, self._random, self._sequence = (
            SegmentWriter(storage(), "bench"),
            np.random.default_rng(1),
            0,
        )
        target.apply(self._name, Create(self._schema, 1, -1, "load"))
        loaded = self._staged(np.arange(rows), "READ", SegmentKind.CHUNK)
        target.apply(self._name, Append(loaded, self._schema, loaded[-1].last_sequence))

    def merge(self) -> tuple[str, float]:
        """How it was done, and seconds."""
        from replicator.targets.base import Merge

        ids = np.sort(self._random.choice(self._rows, KEYS, replace=False))
        segments = self._staged(ids, "UPDATE", SegmentKind.LOG)
        started = time.monotonic()
        done = self._target.apply(self._name, Merge(segments, self._schema, segments[-1].last_sequence))
        return done.how, time.monotonic() - started

    def _staged(self, ids: Any, operation: str, kind: SegmentKind) -> list[Segment]:
        first, count = self._sequence, len(ids)
        self._sequence += count
        values: dict[str, Any] = {
            "id": pa.array(ids, pa.int64()),
            "status": pa.array([f"changed at {first}"] * count),
            SEQUENCE: pa.array(np.arange(first, first + count)),
            "_operation": pa.array([operation] * count),
            "_commit_ts": pa.array([datetime.now(UTC)] * count, pa.timestamp("us", "UTC")),
        }
        if operation == "READ":
            values["doc"] = pa.array([f"{one} {self._random.bytes(SIZE // 2).hex()}"[:SIZE] for one in ids])
        else:
            values |= {BEFORE + "id": values["id"], UNCHANGED: pa.array([[2]] * count, pa.list_(pa.int32()))}
        schema = self._schema.change_arrow
        columns = [values[field.name] if field.name in values else pa.nulls(count, field.type) for field in schema]
        self._writer.add(self._schema.table, 1, pa.record_batch(columns, schema=schema), kind)
        sealed = self._writer.seal()
        while not sealed.durable(DISK_SECONDS):
            pass
        return sealed.hand_out()

    def wrong(self, session: Any) -> int:
        """Rows without their own document, and by how many rows the table is off."""
        path = f"lake.{self._name}"
        own = session.sql(
            f"SELECT count(*) FROM {path} WHERE doc LIKE concat(id, ' %') AND length(doc) = {SIZE}"
        ).collect()
        return abs(int(own[0][0]) - self._rows)
