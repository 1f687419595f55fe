"""Create, evolve, rename, drop; and names of all kinds."""

from __future__ import annotations

import pytest

from replicator.errors import ConfigurationError, TargetConflict, TargetError, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.targets.base import Append, Create, DeleteBelow, Drop, Evolve, Merge, Position, Rename, TargetTable
from tests.integration.spark.lake import Lake
from tests.staged import delete, insert, read, schema_of, update

PEOPLE = schema_of({"id": "int", "name": "string"}, ["id"])


def columns(lake: Lake, table: TargetTable) -> list[tuple[str, str]]:
    schema = lake.reader().load_table((table.namespace, table.name)).schema()
    return [(field.name, str(field.field_type)) for field in schema.fields]


def test_a_new_table_has_the_sources_columns_and_the_sequence_number(lake: Lake) -> None:
    table = lake.table(PEOPLE, applied=7)
    assert columns(lake, table) == [("id", "int"), ("name", "string"), ("_sequence_num", "long")]
    assert lake.target.position(table) == Position(7, -1, 1, "L1")
    assert lake.rows(table) == []
    assert lake.target.position(TargetTable("nowhere", "nothing")) is None


def test_create_again_begins_an_empty_table_of_the_new_load(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    lake.merge(table, PEOPLE, insert(0, 1, "a"))
    result = lake.target.apply(table, Create(schema_of({"x": "double"}), 4, 9, "L2"))
    assert (result.how, lake.rows(table), columns(lake, table)[0]) == ("recreate", [], ("x", "double"))
    assert lake.target.position(table) == Position(9, -1, 4, "L2")


def test_a_table_of_somebody_else_is_left_alone(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    other = lake.another_worker("r2")
    for change in (Create(PEOPLE, 1, -1, "L"), Drop(), DeleteBelow(1, 1), Rename(TargetTable("shop", "stolen"))):
        with pytest.raises(ConfigurationError) as raised:
            other.apply(table, change)
        assert not raised.value.retryable
        assert "Drop or rename that table" in raised.value.remedy
    assert lake.target.position(table) is not None


def test_columns_come_go_widen_move_and_change_type_in_place(lake: Lake) -> None:
    old = schema_of(
        {"id": "int", "a.b": "string", "w": "float", "d": "decimal(9,2)", "gone": "int", "t": "int"}, ["id"]
    )
    new = schema_of(
        {"d": "decimal(12,2)", "id": "bigint", "new.col": "date", "`q`": "string", "w": "double", "t": "string"}, ["id"]
    )
    table = lake.table(old)
    lake.merge(table, old, insert(0, 1, "x", 0.5, None, 5, 6))
    change = Evolve(new, 2, {"a.b": "`q`"})
    assert lake.target.apply(table, change).how == "evolve"
    assert lake.another_worker().apply(table, change).how == "skip"
    assert [name for name, _ in columns(lake, table)] == [*new.names, "_sequence_num"]
    assert dict(columns(lake, table)) | {"d": "decimal(12, 2)", "id": "long", "w": "double", "t": "string"} == dict(
        columns(lake, table)
    )
    assert lake.rows(table) == [(None, 1, None, "x", 0.5, None)]
    lake.merge(table, new, update(3, (None, 1, None, "x", 0.5, None), (None, 2**40, None, "y", 0.5, "t")))
    assert lake.rows(table) == [(None, 2**40, None, "y", 0.5, "t")]
    assert lake.target.position(table) == Position(3, -1, 2, "L1")


def test_a_stale_worker_does_not_turn_the_schema_back(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    wider = schema_of({"id": "int", "name": "string", "age": "int"}, ["id"])
    lake.target.apply(table, Evolve(wider, 3))
    assert lake.target.apply(table, Evolve(PEOPLE, 2)).how == "skip"
    assert [name for name, _ in columns(lake, table)] == ["id", "name", "age", "_sequence_num"]


def test_names_swap_and_a_dropped_name_is_taken_by_another_column(lake: Lake) -> None:
    first = schema_of({"id": "int", "a": "string", "b": "string"}, ["id"])
    table = lake.table(first)
    lake.merge(table, first, insert(0, 1, "A", "B"))
    lake.target.apply(table, Evolve(first, 2, {"a": "b", "b": "a"}))
    assert lake.rows(table) == [(1, "B", "A")]
    fewer = schema_of({"id": "int", "b": "string"}, ["id"])
    lake.target.apply(table, Evolve(fewer, 3, {"a": "b"}))  # DROP b, RENAME a TO b
    assert lake.rows(table) == [(1, "B")]
    upper = schema_of({"id": "int", "B": "string", "b": "int"}, ["id"])
    lake.target.apply(table, Evolve(upper, 4, {"b": "B"}))  # and a new b: they differ in case only
    lake.merge(table, upper, insert(4, 2, "x", 5))
    assert sorted(lake.rows(table)) == [(1, "B", None), (2, "x", 5)]


def test_kept_columns_stay_are_null_in_new_rows_and_begin_anew_when_they_return(lake: Lake) -> None:
    full = schema_of({"id": "int", "old": "string", "v": "int"}, ["id"])
    less = schema_of({"id": "int", "v": "int"}, ["id"])
    table = lake.table(full)
    lake.merge(table, full, insert(0, 1, "kept", 1))
    lake.target.apply(table, Evolve(less, 2, keep_dropped=True))
    lake.merge(table, less, update(1, (1, 1), (1, 2)), insert(2, 2, 2))
    lake.merge(table, less, insert(3, 3, 3))
    lake.target.apply(table, Append([lake.segment(less, [read(4, 4, 4)])], less, 4))
    assert sorted(lake.rows(table)) == [(1, 2, "kept"), (2, 2, None), (3, 3, None), (4, 4, None)]
    lake.target.apply(table, Evolve(schema_of({"id": "int", "v": "int", "w": "int"}, ["id"]), 3))
    assert [name for name, _ in columns(lake, table)] == ["id", "v", "w", "old", "_sequence_num"]
    lake.target.apply(table, Evolve(full, 4))
    assert sorted(lake.rows(table)) == [(1, None, 2), (2, None, 2), (3, None, 3), (4, None, 4)]


def test_changes_of_a_schema_that_the_table_has_not_are_refused(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    other = schema_of({"id": "int", "nme": "string"}, ["id"])
    with pytest.raises(TargetError, match="nme"):
        lake.merge(table, other, insert(0, 1, "a"))


def test_a_reserved_column_name_is_refused_by_name(lake: Lake) -> None:
    schema = schema_of({"_sequence_num": "int"})
    with pytest.raises(UnsupportedType, match="_sequence_num"):
        lake.target.apply(TargetTable("shop", "reserved"), Create(schema, 1, -1, "L1"))


ODD = ["select", "a b", "a.b.c", "back`tick", "sl/ash\\..", "naïve 表 😀", "quo'te\"s", "T1", "t1", "#%?&=;:", "-- x"]


def test_odd_names_of_tables_and_columns_live_side_by_side(lake: Lake) -> None:
    schema = schema_of(dict.fromkeys(ODD, "string"), ODD[:2], TableId("d.b `x`", "t"))
    tables = [TargetTable("d.b `x`/y", name) for name in ODD]
    for table in tables[:6]:
        lake.target.apply(table, Create(PEOPLE, 1, -1, "L1"))
        lake.merge(table, PEOPLE, insert(0, 1, table.name))
    for table in tables[6:]:
        lake.target.apply(table, Create(schema, 1, -1, "L1"))
        lake.merge(table, schema, insert(0, *ODD), insert(1, *["x"] * len(ODD)))
        how = lake.merge(
            table,
            schema,
            update(2, tuple(ODD), (*ODD[:2], *[table.name] * (len(ODD) - 2))),
            delete(3, *["x"] * len(ODD)),
        )
        assert how == "merge"
    assert [lake.rows(table) for table in tables[:6]] == [[(1, table.name)] for table in tables[:6]]
    assert [lake.rows(table) for table in tables[6:]] == [[(*ODD[:2], *[t.name] * (len(ODD) - 2))] for t in tables[6:]]
    locations = {lake.reader().load_table((t.namespace, t.name)).location() for t in tables}
    assert len(locations) == len(tables)
    assert all(
        set(where.removeprefix(lake.config.warehouse)) <= set("/-_") | set(map(chr, range(48, 123)))
        for where in locations
    )
    for table in tables:
        assert lake.target.apply(table, Drop()).how == "drop"


def test_a_renamed_table_keeps_rows_and_position(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    lake.merge(table, PEOPLE, insert(0, 1, "a"))
    new = TargetTable("elsewhere", "New Name")
    assert lake.target.apply(table, Rename(new)).how == "rename"
    assert lake.target.apply(table, Rename(new)).how == "skip"
    assert (lake.target.position(table), lake.target.position(new)) == (None, Position(0, -1, 1, "L1"))
    lake.target.apply(table, Create(PEOPLE, 1, -1, "L9"))
    lake.merge(new, PEOPLE, update(1, (1, "a"), (1, "b")))
    lake.merge(table, PEOPLE, insert(2, 7, "other"))
    assert (lake.rows(new), lake.rows(table)) == ([(1, "b")], [(7, "other")])
    with pytest.raises(TargetConflict, match="still exists"):
        lake.target.apply(table, Rename(new))


def test_a_dropped_table_is_gone_and_may_be_dropped_again(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    lake.merge(table, PEOPLE, insert(0, 1, "a"))
    lake.target.apply(table, Drop())
    assert lake.target.apply(table, Drop()).how == "skip"
    assert lake.target.position(table) is None
    with pytest.raises(TargetError, match="does not exist"):
        lake.target.apply(table, Merge([], PEOPLE, 1))
