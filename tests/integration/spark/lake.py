"""What the Spark tests share: a lake on one sqlite file, segments by hand, and a reader that is not Spark."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from replicator.model.schema import REPLACED, TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment, SegmentKind
from replicator.targets.base import TargetTable
from replicator.targets.iceberg.apply import LIMITS
from replicator.targets.iceberg.direct.writer import DirectLimits
from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
from replicator.targets.iceberg.target import IcebergTarget
from tests.staged import TS, Row
from tests.staged_lake import StagedLake

PASSWORD = "s3cr3t-and-unique"


@dataclass
class Lake(StagedLake):
    """A warehouse, its catalog, a staging folder and the target over them."""

    spark: SparkPool
    storage: Storage
    target: IcebergTarget
    catalog_file: Path
    made: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> SparkConfig:
        return self.spark.config

    def another_worker(self, replicator: str = "r1", limits: DirectLimits = LIMITS) -> IcebergTarget:
        return IcebergTarget(SparkPool(self.config), self.storage, replicator, limits)

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

    def arrow(self, table: TargetTable) -> pa.Table:
        """By pyiceberg from the catalog file."""
        return self.reader().load_table((table.namespace, table.name)).scan().to_arrow()

    @contextmanager
    def catalog_at(self, table: TargetTable) -> Iterator[Callable[[], None]]:
        """What is given puts the catalog's word about the table back to what it is now, as a restored database;
        afterwards that is undone.
        """
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
        """Open a separate catalog client."""
        return SqlCatalog("lake", uri=f"sqlite:///{self.catalog_file}", warehouse=self.config.warehouse)
