"""Makes the archive of Java's classes (`webapp.embedded.java_classes`): `make classes`; the Docker image is built with
it.

A JVM does once what all do, and writes at its end what it has loaded.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import INT
from replicator.staging.segment_file import SegmentFile, make_durable
from replicator.staging.storage import Storage
from replicator.state.journal import Segment, SegmentKind
from replicator.targets.base import Create, Merge, TargetTable
from replicator.targets.iceberg.jvm import jvm
from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
from replicator.targets.iceberg.target import IcebergTarget
from webapp.embedded.java_artifacts import spark_jars
from webapp.embedded.java_classes import QUIET, archive

END_SECONDS = 120


def make() -> None:
    """Make the archive."""
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        folder = Path(name)
        made = folder / path.name
        config = SparkConfig(
            jars=spark_jars(),
            catalog_uri=f"jdbc:sqlite:{folder / 'catalog.db'}",
            warehouse=(folder / "lake").as_uri(),
            java_options=(f"-XX:ArchiveClassesAtExit={made}", *QUIET),
        )
        pool = SparkPool(config)
        process = pool.spark().gateway.proc
        _live(pool, folder)
        jvm.stop()
        process.wait(END_SECONDS)
        made.replace(path)


def _live(pool: SparkPool, folder: Path) -> None:
    """What each JVM does, on a small table; Spark is started and has nothing to do: its own classes would be four times
    as many.
    """
    storage = Storage((folder / "staging").as_uri())
    schema = TableSchema(TableId("a", "b"), (Column("k", INT, nullable=False, source_type="int"),), ("k",))
    table = TargetTable("a", "b")
    pool.spark().java("java.lang.Class").forName("org.postgresql.Driver")
    target = IcebergTarget(pool, storage, "a")
    target.apply(table, Create(schema, 1, -1, "load"))
    for sequence in range(2):
        changes = [{"_sequence_num": sequence, "_operation": "INSERT", "k": sequence}]
        rows = pa.Table.from_pylist(changes, schema=schema.change_arrow)
        file = SegmentFile(storage, f"{sequence}.parquet", rows.schema, schema.key)
        file.write(rows.to_batches())
        file.close()
        make_durable(storage, [file])
        segment = Segment(schema.table, SegmentKind.LOG, 1, sequence, sequence, file.path, 1, file.size, inserts=1)
        target.apply(table, Merge([segment], schema, sequence))
    with pool.session({}) as spark:
        spark.sql(f"SELECT * FROM lake.{table}").schema  # noqa: B018 - what is wanted is what it loads


if __name__ == "__main__":
    try:
        make()
    except OSError as error:  # a Java that writes no archive, a full disk: without it everything works, later
        sys.exit(f"Java class data could not be cached: {error}")
