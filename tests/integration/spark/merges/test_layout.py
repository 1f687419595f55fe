"""Partitions, sort order and properties: set when a table is made, evolved later, and let go of with their columns."""

from __future__ import annotations

import itertools

import pytest

from replicator.errors import ConfigurationError, UnsupportedDdl
from replicator.targets.base import Append, Create, Evolve, Merge, Position, TargetTable
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.spark.lake import Lake
from tests.staged import Change, delete, insert, read, schema_of, update

pytestmark = pytest.mark.spark
KEYED = schema_of({"id": "int", "region": "string", "n": "int", "v": "string"}, ["id"])
WIDER = schema_of({"id": "int", "area": "string", "n": "bigint", "v": "string"}, ["id"])
WITHOUT = schema_of({"id": "int", "n": "bigint", "v": "string"}, ["id"])
BACK = schema_of({"id": "int", "n": "bigint", "v": "string", "area": "int"}, ["id"])
NUMBERS = itertools.count(1)


def target(lake: Lake, **settings: str) -> IcebergTarget:
    return IcebergTarget(lake.spark, lake.storage, "r1", layout=Layout.parse(settings))


def spec(lake: Lake, table: TargetTable) -> list[tuple[str, str]]:
    handle = lake.reader().load_table((table.namespace, table.name))
    names = {field.field_id: field.name for field in handle.schema().fields}
    return [(names[one.source_id], str(one.transform)) for one in handle.spec().fields if str(one.transform) != "void"]


def merge(writer: IcebergTarget, lake: Lake, table: TargetTable, *changes: Change) -> str:
    segment = lake.segment(KEYED, changes)
    return writer.apply(table, Merge([segment], KEYED, segment.last_sequence)).how


def test_a_partitioned_table_follows_its_source(lake: Lake) -> None:
    writer = target(lake, partition_by="shop.t: region, bucket(4, id)", sort_by="*.*: n desc, id")
    table = TargetTable("shop", f"partitioned{next(NUMBERS)}")
    writer.apply(table, Create(KEYED, 1, -1, "L1"))
    assert spec(lake, table) == [("region", "identity"), ("id", "bucket[4]")]
    loaded = [read(n, n, ("north", "so/u=th", None)[n % 3], n, "x") for n in range(30)]
    writer.apply(table, Append([lake.segment(KEYED, loaded)], KEYED, 29))
    moved = update(31, (1, "so/u=th", 1, "x"), (1, "north", 1, "moved"))
    how = merge(writer, lake, table, moved, delete(32, 2, None, 2, "x"), insert(33, 99, "new", 9, "y"))
    assert how == "merge (direct)"
    rows = {row[0]: row[1:] for row in lake.rows(table)}
    assert (len(rows), rows[1], rows[99], 2 in rows) == (30, ("north", 1, "moved"), ("new", 9, "y"), False)
    order = lake.reader().load_table((table.namespace, table.name)).sort_order()
    assert [str(one.direction) for one in order.fields] == ["DESC", "ASC"]
    writer.apply(table, Evolve(WIDER, 2, {"region": "area"}))
    assert spec(lake, table) == [("area", "identity"), ("id", "bucket[4]")]
    writer.apply(table, Evolve(WITHOUT, 3))  # what files are partitioned by stays, and is null in new rows
    assert spec(lake, table) == [("area", "identity"), ("id", "bucket[4]")]
    segment = lake.segment(WITHOUT, [insert(40, 100, 5, "z"), delete(41, 99, 9, "y")])
    writer.apply(table, Merge([segment], WITHOUT, 41))
    data = lake.arrow(table).to_pylist()
    assert sorted(row["id"] for row in data) == [0, 1, *range(3, 30), 100]
    assert {row["id"]: row["area"] for row in data if row["id"] in {0, 100}} == {0: "north", 100: None}
    assert writer.position(table) == Position(41, 29, 3, "L1")
    with pytest.raises(UnsupportedDdl, match="partitioned by area"):
        writer.apply(table, Evolve(BACK, 4))


def test_a_layout_is_evolved_and_another_one_given_up(lake: Lake) -> None:
    plain = target(lake)
    table = TargetTable("shop", f"evolved{next(NUMBERS)}")
    plain.apply(table, Create(KEYED, 1, -1, "L1"))
    merge(plain, lake, table, *[insert(n, n, "north", n, "x") for n in range(10)])
    first = target(
        lake, partition_by="shop.t: truncate(3, n)", table_properties="owner=team a\nwrite.parquet.page-row-limit=9"
    )
    first.maintain(table)
    assert spec(lake, table) == [("n", "truncate[3]")]
    properties = lake.reader().load_table((table.namespace, table.name)).properties
    assert (properties["owner"], properties["write.parquet.page-row-limit"]) == ("team a", "9")
    merge(first, lake, table, update(20, (1, "north", 1, "x"), (1, "north", 8, "y")), delete(21, 2, "north", 2, "x"))
    target(lake, partition_by="shop.*: region").maintain(table)
    assert spec(lake, table) == [("region", "identity")]
    merge(first, lake, table, update(30, (1, "north", 8, "y"), (1, "south", 8, "z")), delete(31, 3, "north", 3, "x"))
    plain.maintain(table)
    assert spec(lake, table) == []
    merge(plain, lake, table, insert(40, 50, "west", 1, "w"), update(41, (1, "south", 8, "z"), (1, "east", 8, "end")))
    rows = {row[0]: row[1:] for row in lake.rows(table)}
    assert sorted(rows) == [0, 1, *range(4, 10), 50]
    assert rows[1] == ("east", 8, "end")
    assert plain.position(table) == Position(41, -1, 1, "L1")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"partition_by": "shop.t: nothing"}, "has no column nothing"),
        ({"partition_by": "shop.t: day(v)"}, "day"),
        ({"sort_by": "shop.t: nothing"}, "has no column nothing"),
    ],
)
def test_what_a_table_cannot_have_is_told(lake: Lake, settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        target(lake, **settings).apply(TargetTable("shop", f"wrong{next(NUMBERS)}"), Create(KEYED, 1, -1, "L1"))


@pytest.mark.parametrize(
    "settings",
    [
        {"partition_by": "t: a"},
        {"partition_by": "shop.t: day(a"},
        {"partition_by": "shop.t: century(a)"},
        {"partition_by": "shop.t:"},
        {"table_properties": "format-version=3"},
        {"table_properties": "tidemark.load=L2"},
        {"table_properties": "write.data.path=s3://elsewhere"},
        {"table_properties": "nothing"},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        Layout.parse(settings)
