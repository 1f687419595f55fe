"""What the Spark tests share: a lake on one sqlite file, segments by hand, and a reader that is not Spark."""

from __future__ import annotations

import datetime as dt
import itertools
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from replicator.model.identifiers import TableId
from replicator.model.mode import Mode
from replicator.model.schema import BEFORE, REPLACED, Column, TableSchema
from replicator.model.types import DataType
from replicator.staging.segment_file import SegmentFile, make_durable
from replicator.staging.storage import Storage
from replicator.state.journal import Segment, SegmentKind
from replicator.targets.base import Create, Merge, TargetTable
from replicator.targets.iceberg.apply import LIMITS
from replicator.targets.iceberg.direct.writer import Limits
from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
from replicator.targets.iceberg.target import IcebergTarget

Row = tuple[Any, ...]
TS = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
NAMES = itertools.count(1)
PASSWORD = "s3cr3t-and-unique"


def schema_of(columns: Mapping[str, str], key: Sequence[str] = (), table: TableId | None = None) -> TableSchema:
    made = tuple(Column(name, DataType.parse(kind), name not in key, kind) for name, kind in columns.items())
    return TableSchema(table or TableId("shop", "t"), made, tuple(key))


@dataclass(frozen=True)
class Change:
    seq: int
    op: str
    before: Row | None
    row: Row | None
    at: dt.datetime = TS


def insert(seq: int, *row: Any) -> Change:
    return Change(seq, "INSERT", None, row)


def read(seq: int, *row: Any) -> Change:
    return Change(seq, "READ", None, row)


def update(seq: int, before: Row, row: Row) -> Change:
    return Change(seq, "UPDATE", before, row)


def delete(seq: int, *row: Any) -> Change:
    return Change(seq, "DELETE", row, row)


@dataclass
class Lake:
    """A warehouse, its catalog, a staging folder and the target over them."""

    spark: SparkPool
    storage: Storage
    target: IcebergTarget
    catalog_file: Path
    made: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> SparkConfig:
        return self.spark.config

    def another_worker(self, replicator: str = "r1", limits: Limits = LIMITS) -> IcebergTarget:
        return IcebergTarget(SparkPool(self.config), self.storage, replicator, limits)

    def table(
        self, schema: TableSchema, name: str = "", *, applied: int = -1, load: str = "L1", mode: Mode = Mode.MIRROR
    ) -> TargetTable:
        """A new empty target table."""
        table = TargetTable("shop", name or f"t{next(NAMES)}")
        self.target.apply(table, Create(schema, 1, applied, load, mode))
        return table

    def segment(self, schema: TableSchema, changes: Iterable[Change], version: int = 1) -> Segment:
        """A staged file."""
        listed = list(changes)
        nothing = (None,) * len(schema.columns)
        columns: list[list[Any]] = [
            [c.seq for c in listed],
            [c.op for c in listed],
            [None if c.op == "READ" else c.at for c in listed],
            [None for _ in listed],
            [None for _ in listed],
        ]
        columns += [[(c.row or nothing)[i] for c in listed] for i in range(len(schema.columns))]
        columns += [[(c.before or nothing)[i] for c in listed] for i in range(len(schema.columns))]
        arrow = schema.change_arrow
        assert arrow.names[-1].startswith(BEFORE)
        batch = pa.table([pa.array(v, f.type) for v, f in zip(columns, arrow, strict=True)], schema=arrow)
        return self.stage(schema, batch, version)

    def stage(self, schema: TableSchema, data: pa.Table, version: int = 1) -> Segment:
        """As capture's writer writes it."""
        path = f"r1/{uuid.uuid4().hex}.parquet"
        file = SegmentFile(self.storage, path, data.schema, schema.key)
        file.write(data.to_batches())
        file.close()
        make_durable(self.storage, [file])
        ops = Counter(data.column("_operation").to_pylist())
        seqs = data.column("_sequence_num").to_pylist()
        kind = SegmentKind.CHUNK if set(ops) == {"READ"} else SegmentKind.LOG
        return Segment(
            schema.table, kind, version, min(seqs), max(seqs), path, data.num_rows, file.size,
            ops["INSERT"], ops["UPDATE"], ops["DELETE"], ops["READ"], TS, TS, journaled_at=TS,
        )  # fmt: skip

    def bare(self, schema: TableSchema, first: int, rows: Sequence[Row], without: Sequence[int] = ()) -> Segment:
        """A chunk's file as its reader writes it, numbered from `first`."""
        path = f"r1/chunks/{uuid.uuid4().hex}.parquet"
        arrow = schema.row_arrow
        data = pa.table(
            [pa.array(v, f.type) for v, f in zip(zip(*rows, strict=True), arrow, strict=True)], schema=arrow
        )
        data = data.append_column(REPLACED, pa.nulls(len(rows), pa.int32()))
        with self.storage.writer(path, data.schema) as writer:
            writer.write_table(data, row_group_size=3)
        kept = len(rows) - len(without)
        return Segment(
            schema.table, SegmentKind.CHUNK, 1, first, first + len(rows) - 1, path, kept, self.storage.size(path),
            reads=kept, bare=True, without=tuple(without), journaled_at=TS,
        )  # fmt: skip

    def merge(self, table: TargetTable, schema: TableSchema, *changes: Change) -> str:
        """Stage and merge these changes; how it was done, whichever way."""
        segment = self.segment(schema, changes)
        return self.target.apply(table, Merge([segment], schema, segment.last_sequence)).how.split(" (")[0]

    def rows(self, table: TargetTable, *, sequence: bool = False) -> list[Row]:
        """All rows, read by pyiceberg from the catalog file, in no order; `_sequence_num` last, if asked for."""
        data = self.arrow(table)
        names = [n for n in data.column_names if sequence or n != "_sequence_num"]
        return [tuple(row) for row in zip(*(data.column(n).to_pylist() for n in names), strict=True)]

    def arrow(self, table: TargetTable) -> pa.Table:
        return self.reader().load_table((table.namespace, table.name)).scan().to_arrow()

    @contextmanager
    def catalog_at(self, table: TargetTable) -> Iterator[Callable[[], None]]:
        """What is given puts the catalog's word about the table back to what it is now, as a restored database; afterwards that is undone."""
        where = "WHERE table_namespace = ? AND table_name = ?"
        place = (table.namespace, table.name)

        def word() -> tuple[Any, ...]:
            with closing(sqlite3.connect(self.catalog_file)) as db:
                found = db.execute(
                    f"SELECT metadata_location, previous_metadata_location FROM iceberg_tables {where}", place
                )
                return tuple(found.fetchone())

        def put(said: tuple[Any, ...]) -> None:
            with closing(sqlite3.connect(self.catalog_file)) as db:
                db.execute(
                    f"UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? {where}",
                    (*said, *place),
                )
                db.commit()

        now, last = word(), []

        def restore() -> None:
            last.append(word())
            put(now)

        yield restore
        put(last[0])

    def reader(self) -> SqlCatalog:
        """A catalog of its own."""
        return SqlCatalog("lake", uri=f"sqlite:///{self.catalog_file}", warehouse=self.config.warehouse)
