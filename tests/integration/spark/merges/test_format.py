"""Format version 3 and Bloom filters: what is written, by Spark and without it, and what readers make of it."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from replicator.errors import TargetConflict
from replicator.targets.base import Append, Create, Merge, TargetTable
from replicator.targets.iceberg.apply import LIMITS
from replicator.targets.iceberg.direct import compaction
from replicator.targets.iceberg.direct.data_files import lake_files
from replicator.targets.iceberg.direct.scan_plan import planned
from replicator.targets.iceberg.direct.writer import SPARK_ONLY, DirectLimits
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.table import commit
from replicator.targets.iceberg.target import IcebergTarget
from replicator.targets.iceberg.upkeep import maintenance
from tests.integration.direct.play import Play
from tests.integration.spark.lake import Lake
from tests.integration.spark.test_readers import in_duckdb, in_pyiceberg
from tests.integration.spark.test_readers import in_spark as in_spark_planned
from tests.staged import Change, Row, insert, read, schema_of, update

pytestmark = pytest.mark.spark
NUMBERS = itertools.count(1)
KEYED = schema_of({"id": "int", "flag": "boolean", "v": "string"}, ["id", "flag"])


def target(lake: Lake, limits: DirectLimits = LIMITS, **settings: str) -> IcebergTarget:
    return IcebergTarget(lake.spark, lake.storage, "r1", limits, layout=Layout.parse(settings))


def filtered(lake: Lake, table: TargetTable) -> list[set[str]]:
    """Columns with Bloom filters, of each data file."""
    found = []
    for task in lake.reader().load_table((table.namespace, table.name)).scan().plan_files():
        group = pq.ParquetFile(Path(task.file.file_path.removeprefix("file:"))).metadata.row_group(0)
        columns = [group.column(n) for n in range(group.num_columns)]
        found.append({one.path_in_schema for one in columns if one.bloom_filter_offset is not None})
    return found


def test_bloom_filters_are_written_by_spark_and_without_it(lake: Lake) -> None:
    def merge(writer: IcebergTarget, *changes: Change) -> None:
        segment = lake.segment(KEYED, changes)
        writer.apply(table, Merge([segment], KEYED, segment.last_sequence))

    table = TargetTable("shop", f"bloom{next(NUMBERS)}")
    writer = target(lake, bloom_filters="yes")
    writer.apply(table, Create(KEYED, 1, -1, "L1"))
    writer.apply(table, Append([lake.segment(KEYED, [read(n, n, True, "x") for n in range(50)])], KEYED, 49))
    merge(writer, update(50, (1, True, "x"), (1, True, "y")), insert(51, 99, False, "z"))
    merge(target(lake, SPARK_ONLY), insert(52, 100, False, "spark"))
    assert filtered(lake, table) == [{"id"}] * 3
    with lake.spark.session({}) as spark:
        assert maintenance._compact(writer._catalog, writer._catalog.require(table)) in {0, 3}
        found = spark.sql(f"SELECT v FROM lake.shop.{table.name} WHERE id IN (1, 99, 100, 500)").collect()
    assert sorted(row["v"] for row in found) == ["spark", "y", "z"]
    plain = TargetTable("shop", f"bloom{next(NUMBERS)}")
    target(lake).apply(plain, Create(KEYED, 1, -1, "L1"))
    writer.maintain(plain)  # the setting was changed
    table = plain
    merge(writer, insert(0, 1, True, "x"))
    assert filtered(lake, plain) == [{"id"}]


VERSION_3 = {"format_version": "3"}


def merged(lake: Lake, writer: IcebergTarget, table: TargetTable, play: Play, size: int = 30) -> str:
    change = Merge([lake.segment(play.schema, play.batch(size))], play.schema, play.seq)
    return writer.apply(table, change).how


def metadata(lake: Lake, table: TargetTable) -> tuple[int, Counter[str]]:
    """Format version, and delete files that live by their format."""
    handle = lake.reader().load_table((table.namespace, table.name))
    files: Counter[str] = Counter()
    for task in handle.scan().plan_files():
        files.update(str(one.file_format.value) for one in task.delete_files)
    return handle.metadata.format_version, files


def in_spark(lake: Lake, table: TargetTable) -> Counter[Row]:
    """As Spark reads it."""
    with lake.spark.session({}) as spark:
        rows = spark.table(f"lake.shop.`{table.name}`").drop("_sequence_num").toArrow()
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@pytest.mark.parametrize("keys", [("int",), ("bigint", "string")], ids="+".join)
def test_random_batches_of_both_ways_end_as_their_source(lake: Lake, keys: tuple[str, ...]) -> None:
    play, table = Play(Random(f"v3 {keys}"), keys), TargetTable("shop", f"v3_{next(NUMBERS)}")
    writers = [target(lake, **VERSION_3)] * 3 + [target(lake, SPARK_ONLY, **VERSION_3)]
    writers[0].apply(table, Create(play.schema, 1, -1, "L1"))
    ways: Counter[str] = Counter()
    for number in range(12):
        ways[merged(lake, writers[number % 4], table, play)] += 1
        assert Counter(lake.rows(table)) == Counter(play.rows.values())
        if number % 4 == 3:
            assert in_spark(lake, table) == Counter(play.rows.values())
    assert ways["merge (direct)"] >= 8
    version, formats = metadata(lake, table)
    assert (version, set(formats)) == (3, {"PUFFIN"})


@pytest.mark.parametrize("spark_before", [False, True])
def test_a_table_of_version_2_is_upgraded_with_its_position_deletes(lake: Lake, *, spark_before: bool) -> None:
    play, table = Play(Random("upgrade"), ("int",)), TargetTable("shop", f"v2_{next(NUMBERS)}")
    before = target(lake, SPARK_ONLY if spark_before else LIMITS)
    before.apply(table, Create(play.schema, 1, -1, "L1"))
    for _ in range(4):
        merged(lake, before, table, play)
    assert metadata(lake, table)[0] == 2
    assert metadata(lake, table)[1]["PARQUET"]
    after = target(lake, **VERSION_3)
    after.maintain(table)
    assert metadata(lake, table)[0] == 3
    for _ in range(6):
        assert merged(lake, after, table, play) == "merge (direct)"
        assert Counter(lake.rows(table)) == Counter(play.rows.values()) == in_spark(lake, table)
    assert metadata(lake, table)[1]["PUFFIN"]
    before.maintain(table)  # by the settings of before: no way back
    assert metadata(lake, table)[0] == 3
    assert merged(lake, before, table, play).startswith("merge")
    assert in_spark(lake, table) == Counter(play.rows.values())


def test_a_commit_of_version_2_is_refused_once_the_table_was_upgraded(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, table = Play(Random("stale"), ("int",)), TargetTable("shop", f"v2_{next(NUMBERS)}")
    writer = target(lake)
    writer.apply(table, Create(play.schema, 1, -1, "L1"))
    merged(lake, writer, table, play)
    publish, rows = commit.publish, Counter(play.rows.values())

    def late(*args: Any) -> None:
        monkeypatch.undo()
        target(lake, **VERSION_3).maintain(table)
        publish(*args)

    monkeypatch.setattr(commit, "publish", late)
    batch = Merge([lake.segment(play.schema, play.batch(20))], play.schema, play.seq)
    with pytest.raises(TargetConflict):
        lake.another_worker().apply(table, batch)
    assert Counter(lake.rows(table)) == rows
    assert target(lake).apply(table, batch).how == "merge (direct)"
    assert (Counter(lake.rows(table)), metadata(lake, table)[0]) == (Counter(play.rows.values()), 3)


def test_every_row_has_an_id_of_its_own(lake: Lake) -> None:
    """Row lineage: of files that Iceberg registers without a first number, as Spark reads them."""
    play, table = Play(Random("lineage"), ("int",)), TargetTable("shop", f"v3_{next(NUMBERS)}")
    direct, spark_only = target(lake, **VERSION_3), target(lake, SPARK_ONLY, **VERSION_3)
    direct.apply(table, Create(play.schema, 1, -1, "L1"))
    for number in range(8):
        merged(lake, spark_only if number % 4 == 2 else direct, table, play)
        ids = lineage(lake, table)
        assert (len({row for _, row, _ in ids}), None in ids) == (len(play.rows), False)
        if number in {3, 5}:
            found = direct._catalog.require(table)
            files = lake_files(found)
            assert files is not None
            compaction.rewrite(files, found, planned(found))
            assert lineage(lake, table) == ids


def lineage(lake: Lake, table: TargetTable) -> set[tuple[int, int, int]]:
    """Of each row: the change that wrote it, its id, and the commit that wrote it."""
    columns = "_sequence_num, _row_id, _last_updated_sequence_number"
    with lake.spark.session({}) as spark:
        return {tuple(row) for row in spark.sql(f"SELECT {columns} FROM lake.shop.{table.name}").collect()}


def test_every_reader_takes_a_table_of_version_3(lake: Lake) -> None:
    table, schema = TargetTable("shop", f"v3_{next(NUMBERS)}"), schema_of({"id": "int", "v": "string"}, ["id"])
    writer = target(lake, **VERSION_3, bloom_filters="yes")
    writer.apply(table, Create(schema, 1, -1, "L1"))
    writer.apply(table, Append([lake.segment(schema, [read(n, n, "x") for n in range(9)])], schema, 8))
    for number, one in enumerate((writer, target(lake, SPARK_ONLY, **VERSION_3))):
        changes = [update(10 + number, (number, "x"), (number, "y"))]
        one.apply(table, Merge([lake.segment(schema, changes)], schema, 10 + number))
    expected = sorted([(0, "y"), (1, "y"), *((n, "x") for n in range(2, 9))])
    with lake.spark.session({}) as spark:
        readers = in_spark_planned(spark, table), in_pyiceberg(lake, table), in_duckdb(lake, table)
        for reader in readers:
            assert sorted(reader()) == expected
