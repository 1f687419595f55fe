"""Three readers that planned before 200 merges, two compactions and an expiry pass finish after them (invariant 11)."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyiceberg.io.pyarrow import ArrowScan

from replicator.targets.base import TargetTable
from replicator.targets.iceberg.table.naming import sql_name
from replicator.targets.iceberg.upkeep import maintenance
from tests.integration.lake.duckdb_reader import duckdb_with_iceberg
from tests.integration.spark.lake import Lake
from tests.staged import insert, schema_of, update

KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
ROWS = 20
Read = Callable[[], list[tuple[Any, ...]]]


def test_what_was_planned_is_read_after_merges_compactions_and_expiry(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, *[insert(n, n, "planned") for n in range(ROWS)])
    with lake.spark.session({}) as spark:
        readers: dict[str, Read] = {
            "pyiceberg": in_pyiceberg(lake, table),
            "Spark": in_spark(spark, table),
            "DuckDB": in_duckdb(lake, table),
        }
        compactions, random, rows = 0, Random(7), dict.fromkeys(range(ROWS), "planned")
        for n in range(200):
            keys = random.sample(range(ROWS), 5)
            rows |= dict.fromkeys(keys, str(n))
            lake.merge(table, KEYED, *[update(100 + n * ROWS + key, (key, "?"), (key, str(n))) for key in sorted(keys)])
            if n in {90, 190}:
                compactions += maintenance._compact(lake.target._catalog, lake.target._catalog.require(table)) > 0
        later = time.time() + 3 * 3600
        monkeypatch.setattr(maintenance.time, "time", lambda: later)
        assert "expired" in lake.target.maintain(table)
        monkeypatch.undo()
        assert compactions == 2
        assert len(lake.reader().load_table((table.namespace, table.name)).snapshots()) <= 20
        for name, read in readers.items():
            assert sorted(read()) == [(key, "planned") for key in range(ROWS)], name
    assert sorted(lake.rows(table)) == sorted(rows.items())


def in_pyiceberg(lake: Lake, table: TargetTable) -> Read:
    scan = lake.reader().load_table((table.namespace, table.name)).scan()
    tasks = list(scan.plan_files())

    def read() -> list[tuple[Any, ...]]:
        data = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter).to_table(tasks)
        return [(row["id"], row["v"]) for row in data.to_pylist()]

    return read


def in_spark(spark: Any, table: TargetTable) -> Read:
    frame = spark.table(sql_name(table)).select("id", "v")
    assert frame.rdd.getNumPartitions() > 0  # it has planned which files it reads
    return lambda: [tuple(row) for row in frame.rdd.collect()]


def in_duckdb(lake: Lake, table: TargetTable) -> Read:
    """It goes by the metadata file that it was given."""
    metadata = lake.reader().load_table((table.namespace, table.name)).metadata_location.replace("file:///", "/")
    query = "SELECT id, v FROM iceberg_scan(?, metadata_compression_codec => 'gzip')"

    def read() -> list[tuple[Any, ...]]:
        with duckdb_with_iceberg() as connection:
            return connection.execute(query, [metadata]).fetchall()

    return read
