"""Row filters: parsed as they are printed, the same on Arrow as in verification, and filtered changes make the filtered
table.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.errors import ConfigurationError
from replicator.model.change import ChangeBatch
from replicator.model.identifiers import TableId
from replicator.model.row_filter import BARE, Condition, Literal, Operator, RowFilter, parse_filter
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, Column, TableSchema
from replicator.model.types import DataType, Kind
from replicator.selection.filtering import chosen_changes, matching
from replicator.verification.cells import CellRule
from replicator.verification.mysql.rules import SourceColumn
from replicator.verification.row_filters import chooser
from replicator.verification.source import SourceTable
from replicator.verification.target import canonical
from tests.property.budget import examples

TEXTS = st.sampled_from(["", "a", "A", "ä", "b", "a ", "ß", "z", "'", "\U0001f600", "\ue000"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXTS,
    "int": st.integers(-3, 3),
    "bigint": st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]),
    "decimal(9,2)": st.sampled_from([Decimal("0.00"), Decimal("-0.01"), Decimal("1.50"), Decimal("9999999.99")]),
    "decimal(38,0)": st.sampled_from([Decimal(10**37), Decimal(-(10**37)), Decimal(2**64), Decimal(0)]),
    "boolean": st.booleans(),
    "date": st.sampled_from([dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 2, 3), dt.date(9999, 12, 31)]),
    "timestamp": st.sampled_from(
        [dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC)]
    ),
}
ICEBERG = {"bigint": "long", "timestamp": "timestamptz"}
QUOTED = {"string", "date", "timestamp"}


def literal(kind: str, value: Any) -> Literal:
    text = str(value).lower() if kind == "boolean" else f"{value:f}" if isinstance(value, Decimal) else str(value)
    return Literal(text, quoted=kind in QUOTED)


@st.composite
def conditions(draw: st.DrawFn, name: str, kind: str) -> Condition:
    operators = list(Operator) if kind != "boolean" else [Operator.EQUAL, Operator.UNEQUAL, Operator.IN, *BARE]
    operator = draw(st.sampled_from(operators))
    count = 0 if operator in BARE else draw(st.integers(1, 3)) if operator is Operator.IN else 1
    return Condition(name, operator, tuple(literal(kind, draw(VALUES[kind])) for _ in range(count)))


@st.composite
def filtered_tables(draw: st.DrawFn) -> tuple[TableSchema, RowFilter]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    columns = [Column("id", DataType.parse("int"), False, "int")]
    columns += [Column(f"c {n}", DataType.parse(kind), True, kind) for n, kind in enumerate(kinds)]
    key = draw(st.sampled_from([("id",), ()]))
    rule = tuple(draw(conditions(f"c {n}", kind)) for n, kind in enumerate(kinds))
    return TableSchema(TableId("s", "t"), tuple(columns), key), RowFilter(rule)


def rows_of(schema: TableSchema) -> st.SearchStrategy[dict[str, Any]]:
    parts = {c.name: VALUES[str(c.type)] if c.name == "id" else st.none() | VALUES[str(c.type)] for c in schema.columns}
    return st.fixed_dictionaries(parts)


def proof(schema: TableSchema) -> SourceTable:
    """As verification has it."""

    def iceberg(kind: DataType) -> str:
        return (
            f"decimal({kind.precision}, {kind.scale})"
            if kind.kind is Kind.DECIMAL
            else ICEBERG.get(str(kind), str(kind))
        )

    return SourceTable(tuple((SourceColumn(c.name, "", ""), CellRule(iceberg(c.type))) for c in schema.columns), 0)


def given_to_proof(rule: RowFilter) -> list[dict[str, Any]]:
    return [
        {"column": one.column, "operator": one.operator.value, "values": [value.text for value in one.literals]}
        for one in rule.conditions
    ]


@settings(max_examples=examples(100, 3000))
@given(st.data())
def test_arrow_and_the_proof_choose_the_same_rows(data: st.DataObject) -> None:
    schema, rule = data.draw(filtered_tables())
    assert rule.refusal(schema) == ""
    assert parse_filter(str(rule)) == rule
    rows = data.draw(st.lists(rows_of(schema), min_size=1, max_size=12))
    batch = pa.RecordBatch.from_pylist(rows, schema=schema.row_arrow)
    cells = list(zip(*(canonical(column) for column in batch.columns), strict=True))
    chosen = chooser(given_to_proof(rule), proof(schema))
    assert matching(batch, rule, schema).to_pylist() == [chosen(row) for row in cells]


@settings(max_examples=examples(100, 3000))
@given(st.data())
def test_changes_behind_the_filter_make_the_same_table_as_a_filter_behind_the_changes(data: st.DataObject) -> None:
    schema, rule = data.draw(filtered_tables())
    keyed = bool(schema.key)
    table: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    for number in range(data.draw(st.integers(1, 15))):
        operation = data.draw(st.sampled_from(["INSERT", "UPDATE", "DELETE"] if table else ["INSERT"]))
        new = data.draw(rows_of(schema))
        old = data.draw(st.sampled_from(table)) if operation != "INSERT" else None
        others = [row for row in table if row is not old]
        if keyed and operation != "DELETE" and any(row["id"] == new["id"] for row in others):
            continue
        table = others + ([new] if operation != "DELETE" else [])
        after = new if operation != "DELETE" else old if not keyed else {"id": old and old["id"]}
        before = {BEFORE + name: value for name, value in (old or {}).items()}
        changes.append({SEQUENCE: number, OPERATION: operation, **before, **(after or {})})
    batch = ChangeBatch(schema.table, schema, pa.RecordBatch.from_pylist(changes, schema=schema.change_arrow))
    found = chosen_changes(batch, rule)
    assert found.data.schema == schema.change_arrow
    chosen = chooser(given_to_proof(rule), proof(schema))

    def taken(row: dict[str, Any]) -> bool:
        one = pa.RecordBatch.from_pylist([row], schema=schema.row_arrow)
        return chosen(tuple(canonical(column)[0] for column in one.columns))

    # As they are read back: one instant has one time zone's class.
    stored = pa.RecordBatch.from_pylist(table, schema=schema.row_arrow).to_pylist()
    assert replayed(found.data.to_pylist(), schema) == sorted(
        repr({name: row[name] for name in schema.names}) for row in filter(taken, stored)
    )
    operations = {change[SEQUENCE]: change[OPERATION] for change in found.data.to_pylist()}
    differ = {one[OPERATION] for one in changes if operations.get(one[SEQUENCE]) != one[OPERATION]}
    assert found.hidden == differ


def replayed(changes: list[dict[str, Any]], schema: TableSchema) -> list[str]:
    """The table that the changes make; each must fit what is there."""
    table: list[str] = []
    for change in changes:
        row = {name: change[name] for name in schema.names}
        before = {name: change[BEFORE + name] for name in schema.names}
        if change[OPERATION] == "INSERT":
            assert set(before.values()) == {None}
        else:
            table.remove(repr(before))
        if change[OPERATION] != "DELETE":
            table.append(repr(row))
        elif schema.key:
            assert row == {name: before[name] if name in schema.key else None for name in schema.names}
        else:
            assert row == before
    return sorted(table)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a=1", "a = 1"),
        ("  a >= -1.50 and B<>'it''s' ", "a >= -1.50 AND B <> 'it''s'"),
        ('"odd name" is not null AND `in` IN (1,2 , 3)', '"odd name" IS NOT NULL AND "in" IN (1, 2, 3)'),
        ("a != TRUE", "a <> true"),
        ("größe is null", "größe IS NULL"),
        ("", ""),
        (" \n", ""),
    ],
)
def test_a_filter_is_read_and_written(text: str, same: str) -> None:
    assert str(parse_filter(text)) == same
    assert parse_filter(same) == parse_filter(text)


@pytest.mark.parametrize(
    "text",
    [
        "a", "a =", "= 1", "a = b", "a = 1 OR b = 2", "a = 1 AND", "a IN ()", "a IN (1", "a IN 1", "a IS 1", "a = 'x",
        "a = 1;",
        "NOT a = 1", "a = 1 b = 2", "lower(a) = 'x'", 'a = "x"', "a = NULL", "a LIKE 'x'", "a = 1 -- x", "a" * 2001,
    ],
)  # fmt: skip
def test_what_is_no_filter_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ConfigurationError, match="row filter"):
        parse_filter(text)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("c = 1", "string", "with quotation marks"),
        ("c = '1'", "int", "without quotation marks"),
        ("c = 1.5", "int", "is not a valid value of c"),
        ("c = 2147483648", "int", "is not a valid value of c"),
        ("c = 1.005", "decimal(9,2)", "is not a valid value of c"),
        ("c = '2026-02-30'", "date", "is not a valid value of c"),
        ("c = '2026-01-01T00:00:00+01:00'", "timestamp_ntz", "is not a valid value of c"),
        ("c > true", "boolean", "does not support < and >"),
        ("c = 1", "double", "supports only IS NULL"),
        ("d IS NULL", "int", "column d of the row filter does not exist"),
    ],
)
def test_a_filter_that_does_not_fit_its_table_is_refused(text: str, kind: str, said: str) -> None:
    schema = TableSchema(TableId("s", "t"), (Column("c", DataType.parse(kind), True, kind),))
    assert said in parse_filter(text).refusal(schema)


def test_a_log_without_whole_old_rows_can_have_no_filter() -> None:
    column = Column("c", DataType.parse("int"), False, "int")
    assert "requires full before images" in parse_filter("c = 1").refusal(
        TableSchema(TableId("s", "t"), (column,), ("c",), partial=True)
    )
    assert RowFilter().refusal(TableSchema(TableId("s", "t"), (column,), ("c",), partial=True)) == ""
