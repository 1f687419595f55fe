"""Casts of computed columns on Arrow, against verification's own on cells."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.model.computed import Computed, ComputedKind, can_cast
from replicator.model.identifiers import TableId
from replicator.model.schema import (
    BEFORE,
    CHANGE_FIELDS,
    OPERATION,
    SEQUENCE,
    UNCHANGED,
    Column,
    TableSchema,
)
from replicator.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    decimal,
)
from replicator.selection.computing import cast, computed_changes, with_computed, without_computed
from replicator.targets.iceberg.table.type_names import iceberg_type
from replicator.verification.computed_columns import _cast
from replicator.verification.target import canonical
from tests.property.budget import examples

ALL = (
    BOOLEAN,
    INT,
    BIGINT,
    FLOAT,
    DOUBLE,
    STRING,
    BINARY,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    decimal(9, 3),
    decimal(38, 0),
)
TO = (STRING, BIGINT, DOUBLE, DATE, decimal(12, 3), decimal(22, 3), decimal(38, 10))
DIGITS = st.integers(-999_999_999, 999_999_999)
VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    INT: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(width=32, allow_nan=False),
    STRING: st.text(),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
    TIMESTAMP_NTZ: st.datetimes(),
    decimal(9, 3): DIGITS.map(lambda value: Decimal(value).scaleb(-3)),
    decimal(38, 0): st.integers(-(10**37), 10**37).map(Decimal),
}
CASTS = [(old, new) for old in ALL for new in TO if can_cast(old, new)]


@pytest.mark.parametrize(("old", "new"), CASTS, ids=str)
@settings(max_examples=examples(30, 2000))
@given(st.data())
def test_a_cast_loses_nothing_and_is_what_verification_expects(
    old: DataType, new: DataType, data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.none() | VALUES[old], max_size=5))
    array = pa.array(values, old.arrow)
    found = cast(array, old, new)
    assert found.type == new.arrow
    cells = canonical(array)
    expected = [None if one is None else _cast(one, iceberg_type(old), iceberg_type(new)) for one in cells]
    assert canonical(found) == expected
    if new == DATE:
        days = [None if one is None else date(one.year, one.month, one.day) for one in values]
        assert found.to_pylist() == days
    elif new != STRING:
        assert found.to_pylist() == values


def _schema(*, key: bool, partial: bool = False) -> TableSchema:
    columns = (Column("id", INT, False, "int"), Column("v", INT, True, "int"))
    return TableSchema(TableId("d", "t"), columns, ("id",) if key else (), partial=partial)


def _changes(schema: TableSchema, rows: list[tuple[Any, ...]], unchanged: list[Any] | None = None) -> pa.RecordBatch:
    """rows: operation, id, v, id before, v before."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    values: dict[str, list[Any]] = {
        SEQUENCE: list(range(len(rows))), OPERATION: [row[0] for row in rows], "_commit_ts": [at] * len(rows),
        "_txn_id": ["t"] * len(rows), "_offset": [f"log:{n}" for n in range(len(rows))], "id": [r[1] for r in rows],
        "v": [r[2] for r in rows], BEFORE + "id": [r[3] for r in rows], BEFORE + "v": [r[4] for r in rows],
        UNCHANGED: unchanged or [],
    }  # fmt: skip
    arrow = schema.change_arrow
    return pa.RecordBatch.from_arrays([pa.array(values[field.name], field.type) for field in arrow], schema=arrow)


COMPUTED = {
    "c": Computed(ComputedKind.CONSTANT, STRING, "x"),
    "at": Computed(ComputedKind.COMMIT_TIME, TIMESTAMP),
    "place": Computed(ComputedKind.OFFSET, STRING),
    "op": Computed(ComputedKind.OPERATION, STRING),
    "text": Computed(ComputedKind.CAST, STRING, "v"),
}
ROWS = [
    ("INSERT", 1, 1, None, None),
    ("UPDATE", 1, 2, 1, 1),
    ("DELETE", 1, None, 1, 2),
]


def test_computed_columns_are_null_where_a_columns_own_values_are() -> None:
    plain = _schema(key=True)
    schema = with_computed(plain, COMPUTED)
    assert TableSchema.from_dict(schema.to_dict()) == schema
    assert without_computed(schema) == plain
    found = computed_changes(_changes(plain, ROWS), schema)
    assert found.schema == schema.change_arrow
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert found.select(["c", "at", "place", "op", "text"]).to_pylist() == [
        {"c": "x", "at": at, "place": "log:0", "op": "INSERT", "text": "1"},
        {"c": "x", "at": at, "place": "log:1", "op": "UPDATE", "text": "2"},
        dict.fromkeys(("c", "at", "place", "op", "text")),
    ]
    assert found.column(BEFORE + "c").to_pylist() == [None, "x", "x"]
    assert found.column(BEFORE + "text").to_pylist() == [None, "1", "2"]
    assert found.column(BEFORE + "at").null_count == found.num_rows
    assert {field.name for field in CHANGE_FIELDS} <= set(found.schema.names)


def test_a_deleted_row_without_key_has_its_computed_values() -> None:
    plain = _schema(key=False)
    schema = with_computed(plain, {name: COMPUTED[name] for name in ("c", "text")})
    found = computed_changes(_changes(plain, [("DELETE", 1, 5, 1, 5)]), schema)
    assert found.select(["c", "text", BEFORE + "c", BEFORE + "text"]).to_pylist() == [
        {"c": "x", "text": "5", BEFORE + "c": "x", BEFORE + "text": "5"}
    ]


def test_a_cast_of_a_value_that_was_left_out_is_left_out() -> None:
    plain = _schema(key=True, partial=True)
    schema = with_computed(plain, COMPUTED)
    rows = [("UPDATE", 1, None, 1, None), ("UPDATE", 1, 3, 1, None)]
    found = computed_changes(_changes(plain, rows, [[1], None]), schema)
    assert found.column(UNCHANGED).to_pylist() == [[1, schema.names.index("text")], None]
    assert found.column("c").to_pylist() == ["x", "x"]
