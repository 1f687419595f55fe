"""Field-level lineage: what a version changed, which column comes from which, and each column's life."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import BIGINT, DATE, INT, STRING, DataType, decimal
from replicator.telemetry.differences import ColumnChange, Definition, difference
from replicator.telemetry.lineage import Policy, fields, lives

ORDERS = TableId("shop", "orders")


def column(name: str, kind: DataType = STRING, text: str = "", number: int = 0, *, nullable: bool = True) -> Column:
    return Column(name, kind, nullable=nullable, source_type=text or str(kind), number=number)


def definition(version: int, *columns: Column, key: tuple[str, ...] = ("id",), **more: Any) -> Definition:
    table = more.pop("table", ORDERS)
    more.setdefault("renamed", {})
    return Definition(version, TableSchema(table, columns, key), **more)


ID = column("id", INT, "int(11)", nullable=False)
V1 = definition(1, ID, column("note"), column("total", decimal(10, 2)), column("old_name"))


def named(lines: list[Any]) -> dict[str, Any]:
    return {line.target or line.source: line for line in lines}


def lines_at(definitions: list[Definition], version: int, **more: Any) -> dict[str, Any]:
    return named(fields(definitions, version, target_type=lambda kind: f"ice:{kind}", **more))


def test_each_change_is_said_in_a_few_words() -> None:
    after = definition(
        2,
        column("id", BIGINT, "bigint(20)", nullable=False),
        column("new_name"),
        column("total", decimal(12, 2)),
        column("coupon", STRING, "varchar(40)"),
        renamed={"old_name": "new_name"},
    )
    found = difference(V1, after)
    assert found.texts == [
        "− note",
        "old_name renamed to new_name",
        "+ coupon varchar(40) → string",
        "id widened: int(11) → bigint(20) (int → bigint)",
        "total widened: decimal(10,2) → decimal(12,2) (decimal(10,2) → decimal(12,2))",
    ]


def test_what_rows_do_not_show_is_said_too() -> None:
    first = definition(1, ID, column("a", STRING, "varchar(40)"))
    retyped = definition(2, ID, column("a", STRING, "varchar(80)"))
    assert difference(first, retyped).texts == ["a retyped: varchar(40) → varchar(80)"]
    never = definition(2, ID, column("a", STRING, "varchar(40)", nullable=False))
    assert difference(first, never).texts == ["a is never null"]
    reordered = definition(2, column("a", STRING, "varchar(40)"), ID)
    assert difference(first, reordered).texts == ["column order changed"]
    rekeyed = definition(2, ID, column("a", STRING, "varchar(40)"), key=("id", "a"))
    assert difference(first, rekeyed).texts == ["key: id → id, a"]
    moved = definition(2, ID, column("a", STRING, "varchar(40)"), table=TableId("shop", "orders_2"))
    assert difference(first, moved).texts == ["table renamed from shop.orders to shop.orders_2"]
    converted = definition(2, ID, column("a", INT, "int(11)"))
    assert difference(first, converted).texts == ["a converted: varchar(40) → int(11) (string → int)"]


def test_a_column_lives_on_under_its_new_names_and_its_end_is_kept() -> None:
    versions = [
        V1,
        definition(2, ID, column("note"), column("total", decimal(12, 2)), column("b"), renamed={"old_name": "b"}),
        definition(3, ID, column("note"), column("total", decimal(12, 2)), column("c"), renamed={"b": "c"}),
        definition(4, ID, column("c"), column("total", decimal(12, 2))),
    ]
    found = {life.name: life for life in lives(versions)}
    assert found["c"].names == ("old_name", "b", "c")
    assert [(step.version, step.fate) for step in found["c"].steps] == [
        (1, ColumnChange.FIRST),
        (2, ColumnChange.RENAMED),
        (3, ColumnChange.RENAMED),
    ]
    assert (found["note"].first, found["note"].last) == (1, 3)
    assert found["note"].steps[-1].text == "− note"
    assert found["total"].last is None
    assert [found["c"].at(version).name for version in (1, 2, 3, 4)] == ["old_name", "b", "c", "c"]  # type: ignore[union-attr]
    assert found["note"].at(4) is None


def test_two_columns_that_swap_their_names_keep_their_lives_apart() -> None:
    first = definition(1, ID, column("a", STRING, "text"), column("b", INT, "int(11)"))
    swapped = definition(2, ID, column("b", STRING, "text"), column("a", INT, "int(11)"), renamed={"a": "b", "b": "a"})
    names = {life.names: life.steps[0].column.type for life in lives([first, swapped])}
    assert names == {("id",): INT, ("a", "b"): STRING, ("b", "a"): INT}


def test_a_rename_that_nobody_wrote_down_is_found_by_the_sources_column_numbers() -> None:
    first = definition(1, column("id", INT, number=1, nullable=False), column("a", number=2))
    after = definition(2, column("id", INT, number=1, nullable=False), column("b", number=2), renamed=None)
    assert difference(first, after).texts == ["a renamed to b"]
    written = definition(2, column("id", INT, number=1, nullable=False), column("b", number=2), renamed={})
    assert difference(first, written).texts == ["− a", "+ b string → string"]


def test_a_name_that_comes_again_is_another_column() -> None:
    first = definition(1, ID, column("a"))
    without, again = definition(2, ID), definition(3, ID, column("a", INT))
    found = [(life.name, life.first, life.last) for life in lives([first, without, again])]
    assert found == [("id", 1, None), ("a", 1, 1), ("a", 3, None)]


def test_a_table_made_anew_has_no_column_of_the_one_before() -> None:
    made = definition(2, ID, column("note"), created=True)
    found = [(life.name, life.first, life.last) for life in lives([V1, made])]
    assert found == [
        ("id", 1, 1),
        ("note", 1, 1),
        ("total", 1, 1),
        ("old_name", 1, 1),
        ("id", 2, None),
        ("note", 2, None),
    ]


def test_a_column_maps_onto_the_target_with_both_types_and_its_policy() -> None:
    first = definition(
        1,
        column("day", DATE, "date", nullable=False),
        column("until", DATE, "date"),
        column("seen", STRING, "datetime(6)"),
        key=("day",),
    )
    at = lines_at([first], 1)
    until = at["until"]
    assert (until.source_type, str(until.type), until.target_type) == ("date", "date", "ice:date")
    assert until.notes == ("an invalid date (zero date) becomes null, and is counted",)
    assert at["day"].notes == ("an invalid date (zero date) stops the table",)
    assert at["seen"].notes == ("kept as text, by the policy for zero dates",)
    assert lines_at([first], 1, policy=Policy("fail"))["until"].notes[0].endswith("stops the table")
    own = at["_sequence_num"]
    assert (own.source, own.target_type) == ("", "ice:bigint")


def test_what_the_selection_leaves_out_stands_on_the_sources_side_only() -> None:
    first = definition(1, ID, column("ssn"))
    hidden = definition(2, ID, left_out=frozenset({"ssn"}))
    assert difference(first, hidden).texts == ["− ssn, excluded by the selection"]
    line = lines_at([first, hidden], 2)["ssn"]
    assert (line.source, line.target, line.fate) == ("ssn", "", ColumnChange.LEFT_OUT)


def test_a_kept_column_stays_on_the_targets_side_until_its_name_or_its_table_is_made_anew() -> None:
    dropped = definition(2, ID, keep_dropped=True)
    versions = [definition(1, ID, column("a")), dropped, definition(3, ID, column("b"))]
    kept = lines_at(versions, 3)["a"]
    assert (kept.source, kept.target, kept.fate) == ("", "a", ColumnChange.KEPT)
    assert "dropped in the source with version 2" in kept.notes[0]
    assert "a" not in lines_at(versions, 3, made_anew=2)
    versions.append(definition(4, ID, column("b"), column("a", INT)))
    again = lines_at(versions, 4)["a"]
    assert (again.source, again.fate) == ("a", ColumnChange.ADDED)
    over = next(life for life in lives(versions) if life.name == "a" and life.last)
    assert over.steps[-1].fate is ColumnChange.OVERWRITTEN


def test_older_versions_are_shown_as_they_were() -> None:
    versions = [V1, definition(2, ID, column("b"), renamed={"old_name": "b"})]
    assert set(lines_at(versions, 1)) == {"id", "note", "total", "old_name", "_sequence_num"}
    line = lines_at(versions, 2)["b"]
    assert (line.was, line.fate, line.plain) == ("old_name", ColumnChange.RENAMED, False)
    with pytest.raises(KeyError):
        lines_at(versions, 3)


def test_plain_lines_are_those_with_nothing_to_say() -> None:
    at = lines_at([V1], 1)
    assert [name for name, line in at.items() if line.plain] == ["note", "total", "old_name"]
