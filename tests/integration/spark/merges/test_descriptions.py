"""Identifier fields, required columns and comments: as the source's key and comments are, and never in a row's way."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest

from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.targets.base import Append, Create, DeleteBelow, Evolve, Merge, TargetTable
from replicator.targets.iceberg.direct.writer import SPARK_ONLY
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.spark.lake import Lake
from tests.staged import Change, delete, insert, read, schema_of, update

pytestmark = pytest.mark.spark
NUMBERS = itertools.count(1)
KEYED = schema_of({"id": "int", "a.b": "string", "v": "string"}, ["id", "a.b"])


def described(lake: Lake, table: TargetTable) -> tuple[set[str], set[str], dict[str, str]]:
    """Identifiers, required columns, comments."""
    schema = lake.reader().load_table((table.namespace, table.name)).schema()
    docs = {field.name: field.doc for field in schema.fields if field.doc}
    return schema.identifier_field_names(), {one.name for one in schema.fields if one.required}, docs


def apply(lake: Lake, table: TargetTable, schema: TableSchema, *changes: Change, spark: bool = False) -> str:
    writer = lake.another_worker(limits=SPARK_ONLY) if spark else lake.target
    segment = lake.segment(schema, changes)
    return writer.apply(table, Merge([segment], schema, segment.last_sequence)).how


@pytest.mark.parametrize("spark", [False, True])
@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE, Mode.HISTORY, Mode.CHANGELOG])
def test_the_key_is_the_tables_identifier_where_it_has_one_row_for_each(lake: Lake, mode: Mode, *, spark: bool) -> None:
    table = lake.table(KEYED, mode=mode)
    key = {"id", "a.b"} if mode in {Mode.MIRROR, Mode.SOFT_DELETE} else set()
    assert described(lake, table) == (key, key, {})
    writer = lake.another_worker(limits=SPARK_ONLY) if spark else lake.target
    loaded = lake.segment(KEYED, [read(0, 1, "x", None), read(1, 2, "x", "w")])
    writer.apply(table, Append([loaded], KEYED, 1))
    apply(lake, table, KEYED, insert(2, 3, "x", "n"), update(3, (1, "x", None), (1, "y", "m")), spark=spark)
    apply(lake, table, KEYED, delete(4, 3, "x", "n"), delete(5, 9, "gone", None), spark=spark)
    writer.apply(table, DeleteBelow(2, 6))
    if mode is Mode.MIRROR:
        assert lake.rows(table) == [(1, "y", "m")]
    if mode is Mode.SOFT_DELETE:
        rows = Counter((row[0], row[1], row[3]) for row in lake.rows(table))
        gone = [(1, "x", True), (2, "x", True), (3, "x", True)]
        assert rows - Counter([(9, "gone", True)]) == Counter([(1, "y", False), *gone])


def test_what_cannot_identify_does_not(lake: Lake) -> None:
    assert described(lake, lake.table(schema_of({"f": "double", "v": "string"}, ["f"])))[:2] == (set(), set())
    assert described(lake, lake.table(schema_of({"v": "string"})))[:2] == (set(), set())


def test_the_identifier_follows_the_key(lake: Lake) -> None:
    """A column that leaves the key may be null from then on; one that comes into it may have been."""
    table = lake.table(KEYED)
    apply(lake, table, KEYED, insert(1, 1, "x", "v"), insert(2, 2, "x", "v"))
    renamed = schema_of({"a.b": "int", "id": "string", "v": "string"}, ["a.b", "id"])
    lake.target.apply(table, Evolve(renamed, 2, {"id": "a.b", "a.b": "id"}))
    assert described(lake, table)[:2] == ({"id", "a.b"}, {"id", "a.b"})
    apply(lake, table, renamed, update(3, (1, "x", "v"), (1, "x", "w")), delete(4, 2, "x", "v"))
    fewer = schema_of({"a.b": "bigint", "id": "string", "v": "string"}, ["a.b"])
    lake.target.apply(table, Evolve(fewer, 3))
    assert described(lake, table)[:2] == ({"a.b"}, {"a.b"})
    apply(lake, table, fewer, insert(5, 7, None, "null"))
    another = schema_of({"a.b": "bigint", "id": "string", "v": "string"}, ["v"])
    lake.target.apply(table, Evolve(another, 4))
    assert described(lake, table)[:2] == (set(), set())
    apply(lake, table, another, insert(6, None, "z", "k"), update(7, (7, None, "null"), (None, None, "null")))
    assert Counter(lake.rows(table)) == Counter([(1, "x", "w"), (None, "z", "k"), (None, None, "null")])


def test_a_key_column_that_goes_is_let_go(lake: Lake) -> None:
    for keep in (False, True):
        table = lake.table(KEYED)
        apply(lake, table, KEYED, insert(1, 1, "x", "v"))
        without = schema_of({"id": "int", "v": "string"}, ["id"])
        lake.target.apply(table, Evolve(without, 2, keep_dropped=keep))
        assert described(lake, table)[:2] == ({"id"}, {"id"})
        apply(lake, table, without, insert(2, 2, "w"))
        assert {row["id"]: row["v"] for row in lake.arrow(table).to_pylist()} == {1: "v", 2: "w"}


def test_a_table_of_before_stays_as_it_is(lake: Lake) -> None:
    old = schema_of({"id": "int", "v": "string"})  # as all tables were
    table = lake.table(old)
    keyed = schema_of({"id": "int", "v": "string", "n": "int"}, ["id"])
    lake.target.apply(table, Evolve(keyed, 2))
    assert described(lake, table)[:2] == (set(), set())
    apply(lake, table, keyed, insert(1, 1, "x", 5), update(2, (1, "x", 5), (1, "y", 5)))
    assert lake.rows(table) == [(1, "y", 5)]


def commented(schema: TableSchema, whole: str, **comments: str) -> TableSchema:
    columns = tuple(replace(column, comment=comments.get(column.name, "")) for column in schema.columns)
    return replace(schema, columns=columns, comment=whole)


def test_comments_come_with_the_table_and_with_its_next_version(lake: Lake) -> None:
    def whole(table: TargetTable) -> str | None:
        return lake.reader().load_table((table.namespace, table.name)).properties.get("comment")

    schema = schema_of({"id": "int", "v": "string"}, ["id"])
    table = lake.table(commented(schema, "Orders", id="The order's \N{SNOWMAN} 'number'"))
    assert (described(lake, table)[2], whole(table)) == ({"id": "The order's \N{SNOWMAN} 'number'"}, "Orders")
    wider = schema_of({"id": "int", "v": "string", "n": "int"}, ["id"])
    lake.target.apply(table, Evolve(commented(wider, "All orders", id="Number", n="Count"), 2))
    assert (described(lake, table)[2], whole(table)) == ({"id": "Number", "n": "Count"}, "All orders")
    with lake.spark.session({}) as spark:
        spark.sql(f"ALTER TABLE lake.shop.{table.name} ALTER COLUMN v COMMENT 'theirs'")
    lake.target.apply(table, Evolve(commented(wider, ""), 3))
    assert (described(lake, table)[2], whole(table)) == ({"id": "Number", "n": "Count", "v": "theirs"}, "All orders")
    ours = IcebergTarget(lake.spark, lake.storage, "r1", layout=Layout.parse({"table_properties": "comment=Ours"}))
    other = TargetTable("shop", f"commented{next(NUMBERS)}")
    ours.apply(other, Create(commented(schema, "Theirs"), 1, -1, "L1"))
    ours.apply(other, Evolve(commented(wider, "Theirs again"), 2))
    assert whole(other) == "Ours"
