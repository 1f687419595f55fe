"""Deletes and files that another program wrote: respected without Spark where that is safe, else left to Spark."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replicator.errors import CopyMustBeRecreated
from replicator.targets.base import Create, DeleteBelow, Evolve, Merge, TargetTable
from replicator.targets.iceberg.direct import scan_plan
from replicator.targets.iceberg.direct.data_files import FIELD_ID, new_data_file
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.table.naming import sql_name
from replicator.targets.iceberg.target import IcebergTarget
from replicator.targets.iceberg.upkeep import maintenance
from tests.integration.direct.test_direct import deletes_of
from tests.integration.spark.lake import Lake
from tests.staged import Row, insert, schema_of, update

pytestmark = pytest.mark.spark
COLUMNS = {"id": "int", "at": "date", "v": "string"}
KEYED = schema_of(COLUMNS, ["id"])
NUMBERS = itertools.count(1)
DAY = dt.date(2026, 1, 1)


@pytest.fixture(params=["", "shop.t: bucket(2, id)"], ids=["plain", "partitioned"])
def ours(lake: Lake, request: pytest.FixtureRequest) -> IcebergTarget:
    return IcebergTarget(lake.spark, lake.storage, "r1", layout=Layout.parse({"partition_by": request.param}))


def row(n: int, v: str = "x") -> Row:
    return n, DAY, v


def filled(lake: Lake, ours: IcebergTarget) -> TargetTable:
    """Two commits of 20 rows."""
    table = TargetTable("shop", f"others{next(NUMBERS)}")
    ours.apply(table, Create(KEYED, 1, -1, "L1"))
    for first in (0, 20):
        segment = lake.segment(KEYED, [insert(n, *row(n)) for n in range(first, first + 20)])
        ours.apply(table, Merge([segment], KEYED, first + 19))
    return table


def merge(lake: Lake, ours: IcebergTarget, table: TargetTable, seq: int, keys: list[int], new: str) -> str:
    """Rows of these keys, which may be gone."""
    changes = [update(seq + place, row(key), row(key, new)) for place, key in enumerate(keys)]
    return ours.apply(table, Merge([lake.segment(KEYED, changes)], KEYED, seq + len(keys) - 1)).how


def sql(lake: Lake, statement: str) -> list[Any]:
    with lake.spark.session({}) as spark:
        return [tuple(one) for one in spark.sql(statement).collect()]


def delete_in_spark(lake: Lake, table: TargetTable, condition: str) -> None:
    """One file of deletes for the data files of a partition."""
    name = sql_name(table)
    sql(lake, f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.granularity' = 'partition')")
    sql(lake, f"DELETE FROM {name} WHERE {condition}")


def test_position_deletes_of_several_data_files_are_respected(lake: Lake, ours: IcebergTarget) -> None:
    table = filled(lake, ours)
    delete_in_spark(lake, table, "id IN (1, 2, 21, 22)")
    files = {file.uri: file for file in scan_plan.planned(lake.target._catalog.require(table))}
    shared = any(one.shared for file in files.values() for one in file.deletes)
    assert shared or ours._layout.partitions  # there Spark may read, and write, each file on its own
    assert merge(lake, ours, table, 40, [2, 5, 21, 30], "y") == "merge (direct)"
    expected = Counter(row(n, "y" if n in {2, 5, 21, 30} else "x") for n in range(40) if n not in {1, 22})
    assert Counter(lake.rows(table)) == expected
    assert Counter(sql(lake, f"SELECT id, at, v FROM {sql_name(table)}")) == expected
    assert merge(lake, ours, table, 50, [0, 22, 39], "z") == "merge (direct)"
    changed = dict.fromkeys((0, 22, 39), "z") | dict.fromkeys((2, 5, 21, 30), "y")
    expected = Counter(row(n, changed.get(n, "x")) for n in range(40) if n != 1)
    assert Counter(lake.rows(table)) == expected
    done = ours.apply(table, DeleteBelow(25, 60))
    assert done.how == "delete (direct)"
    expected = Counter({one: 1 for one in expected if one[0] >= 25 or one[2] != "x"})
    assert Counter(lake.rows(table)) == expected
    assert Counter(sql(lake, f"SELECT id, at, v FROM {sql_name(table)}")) == expected


def test_a_compaction_takes_what_another_program_deleted_with_it(
    lake: Lake, ours: IcebergTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object) -> int:
        raise AssertionError(args)

    monkeypatch.setattr(maintenance, "_compact", never)
    monkeypatch.setattr(maintenance, "MIN_DELETES", 1)
    monkeypatch.setattr(maintenance, "MAX_DELETED_SHARE", 0)
    table = filled(lake, ours)
    delete_in_spark(lake, table, "id % 20 < 10")
    expected = Counter(row(n) for n in range(40) if n % 20 >= 10)
    assert "compacted" in ours.maintain(table)
    assert set(deletes_of(lake, table).values()) == {0}
    assert Counter(lake.rows(table)) == expected
    assert Counter(sql(lake, f"SELECT id, at, v FROM {sql_name(table)}")) == expected


def test_large_files_of_shared_deletes_are_left_to_spark(
    lake: Lake, ours: IcebergTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_plan, "MAX_SHARED", 1)
    table = filled(lake, ours)
    delete_in_spark(lake, table, "id IN (1, 2, 3, 21, 22, 23)")
    assert merge(lake, ours, table, 40, [2], "y") == "merge (Spark: position deletes)"
    assert Counter(lake.rows(table)) == Counter(
        row(n, "y" if n == 2 else "x") for n in range(40) if n not in {1, 3, 21, 22, 23}
    )


def test_equality_deletes_are_left_to_spark_which_respects_them(lake: Lake) -> None:
    ours = lake.target
    table = filled(lake, ours)
    loaded = ours._catalog.require(table)
    java, path = loaded.engine.java, new_data_file(loaded)
    keys = pa.table({"id": pa.array([1, 25], pa.int32())}).cast(
        pa.schema([pa.field("id", pa.int32(), metadata={FIELD_ID: b"1"})])
    )
    pq.write_table(keys, path.removeprefix("file://"))
    size = Path(path.removeprefix("file://")).stat().st_size
    ids = loaded.engine.gateway.new_array(loaded.engine.jvm.int, 1)
    ids[0] = 1
    builder = java("org.apache.iceberg.FileMetadata").deleteFileBuilder(loaded.handle.spec())
    builder = builder.ofEqualityDeletes(ids).withPath(path).withFormat("parquet").withFileSizeInBytes(size)
    loaded.handle.newRowDelta().addDeletes(builder.withRecordCount(2).build()).commit()
    assert merge(lake, ours, table, 40, [2, 25], "y") == "merge (Spark: equality deletes)"
    expected = Counter(row(n, "y" if n in {2, 25} else "x") for n in range(40) if n != 1)
    assert Counter(sql(lake, f"SELECT id, at, v FROM {sql_name(table)}")) == expected
    assert maintenance._compact(ours._catalog, ours._catalog.require(table)) > 0
    assert merge(lake, ours, table, 50, [3], "y") == "merge (direct)"


@pytest.mark.parametrize("column", ["note string", "tags array<string>", "at_time struct<h: int, m: int>"])
def test_columns_that_another_program_adds_stay_over_merges_and_compaction(
    lake: Lake, ours: IcebergTarget, column: str
) -> None:
    table, name = filled(lake, ours), column.split(maxsplit=1)[0]
    sql(lake, f"ALTER TABLE {sql_name(table)} ADD COLUMNS ({column})")
    why = "kept columns" if name == "note" else "column types of other programs"
    assert merge(lake, ours, table, 40, [1, 39], "y") == f"merge (Spark: {why})"
    value = {"note": "'a'", "tags": "array('a')", "at_time": "named_struct('h', 1, 'm', 2)"}[name]
    sql(lake, f"UPDATE {sql_name(table)} SET {name} = {value} WHERE id = 7")
    for seq in range(50, 50 + maintenance.SMALL_FILES + 1):
        segment = lake.segment(KEYED, [insert(seq, *row(seq))])
        ours.apply(table, Merge([segment], KEYED, seq))
    ours.maintain(table)
    expected = Counter(
        row(n, "y" if n in {1, 39} else "x") for n in (*range(40), *range(50, 50 + maintenance.SMALL_FILES + 1))
    )
    assert Counter(sql(lake, f"SELECT id, at, v FROM {sql_name(table)}")) == expected
    assert sql(lake, f"SELECT id, {name} = {value} FROM {sql_name(table)} WHERE {name} IS NOT NULL") == [(7, True)]
    ours.apply(table, Evolve(schema_of({**COLUMNS, "w": "int"}, ["id"]), 2))
    assert name not in {str(one[0]) for one in sql(lake, f"DESCRIBE {sql_name(table)}")}
    assert Counter(sql(lake, f"SELECT id, at, v FROM {sql_name(table)}")) == expected


@pytest.mark.parametrize("column", ["tags array<string>", "v2 struct<h: int>"])
def test_a_column_of_the_source_with_the_name_of_anothers_stops_the_table(
    lake: Lake, ours: IcebergTarget, column: str
) -> None:
    table, name = filled(lake, ours), column.split(maxsplit=1)[0]
    sql(lake, f"ALTER TABLE {sql_name(table)} ADD COLUMNS ({column})")
    with pytest.raises(CopyMustBeRecreated, match=f"The target column {name} of .* which Tidemark did not create"):
        ours.apply(table, Evolve(schema_of({**COLUMNS, name: "int"}, ["id"]), 2))


def test_deletion_vectors_are_respected(lake: Lake, ours: IcebergTarget) -> None:
    table = filled(lake, ours)
    delete_in_spark(lake, table, "id IN (3, 23)")  # position deletes from before the upgrade
    sql(lake, f"ALTER TABLE {sql_name(table)} SET TBLPROPERTIES ('format-version' = '3')")
    sql(lake, f"DELETE FROM {sql_name(table)} WHERE id IN (1, 22)")
    assert merge(lake, ours, table, 40, [2, 30], "y") == "merge (direct)"
    expected = Counter(row(n, "y" if n in {2, 30} else "x") for n in range(40) if n not in {1, 3, 22, 23})
    assert Counter(lake.rows(table)) == expected
    assert Counter(sql(lake, f"SELECT id, at, v FROM {sql_name(table)}")) == expected


def test_files_without_column_ids_are_left_to_spark(lake: Lake, ours: IcebergTarget, tmp_path: Path) -> None:
    table = filled(lake, ours)
    hive = tmp_path / "hive"
    hive.mkdir()
    arrow = pa.table(
        {
            "id": pa.array([100, 102], pa.int32()),
            "at": pa.array([DAY] * 2),
            "v": ["imported"] * 2,
            "_sequence_num": pa.array(np.zeros(2, np.int64)),
        }
    )
    pq.write_table(arrow, hive / "part.parquet")
    if ours._layout.partitions:
        sql(lake, f"ALTER TABLE {sql_name(table)} REPLACE PARTITION FIELD bucket(2, id) WITH at")
        (hive / "part.parquet").unlink()
        (hive / f"at={DAY}").mkdir()
        pq.write_table(arrow.drop_columns(["at"]), hive / f"at={DAY}" / "part.parquet")
    sql(lake, f"CALL lake.system.add_files(table => 'shop.{table.name}', source_table => '`parquet`.`{hive}`')")
    assert Counter(sql(lake, f"SELECT id, at, v FROM {sql_name(table)} WHERE id >= 100")) == Counter(
        [row(100, "imported"), row(102, "imported")]
    )
    how = merge(lake, ours, table, 40, [2, 100], "y")
    assert how == "merge (Spark: files without column ids or partition columns)"
    expected = Counter([*(row(n, "y" if n == 2 else "x") for n in range(40)), row(100, "y"), row(102, "imported")])
    assert Counter(sql(lake, f"SELECT id, at, v FROM {sql_name(table)}")) == expected
