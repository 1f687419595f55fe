"""Computed columns on Arrow: a table's schema and its batches, with the columns that the source does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import SelectionDoesNotFit
from replicator.model.change import Operation
from replicator.model.computed import Computed, ComputedKind, can_cast
from replicator.model.literals import value_of
from replicator.model.schema import (
    BEFORE,
    COMMIT_TS,
    OFFSET,
    OPERATION,
    UNCHANGED,
    UNCHANGED_FIELD,
    Column,
    TableSchema,
)
from replicator.model.types import STRING, DataType, Kind
from replicator.selection.masking import canonical_text

_CHANGE_COLUMNS = {
    ComputedKind.COMMIT_TIME: COMMIT_TS,
    ComputedKind.OFFSET: OFFSET,
    ComputedKind.OPERATION: OPERATION,
}
MAX_SHARED_VALUE = 200  # characters: it is part of the name of a property of the target table


def with_computed(schema: TableSchema, columns: Mapping[str, Computed]) -> TableSchema:
    """What is staged of `schema`, which is masked already.  SelectionDoesNotFit where a column cannot be computed."""
    if not columns:
        return schema
    for name, one in columns.items():
        if why := refusal(name, one, schema):
            message = f"{schema.table}: {why}"
            raise SelectionDoesNotFit(message, table=str(schema.table), remedy="Change the computed columns.")
    found = [Column(name, one.type, nullable=True, source_type=str(one), computed=one) for name, one in columns.items()]
    return replace(schema, columns=(*schema.columns, *found))


def refusal(name: str, one: Computed, schema: TableSchema) -> str:  # noqa: PLR0911 - a reason each
    """Why this cannot be the column `name` of a table with this schema, as a sentence; empty where it can."""
    if any(column.name.lower() == name.lower() for column in schema.columns):
        return f"The computed column {name} has the name of a column of the table. Rename the computed column."
    if one.shared and (why := _cannot_share(name, one, schema)):
        return why
    if one.is_metadata and not schema.key:
        return (
            f"The computed column {name} ({one}) needs a key: a table without one has its rows identified by"
            " all their columns."
        )
    if one.kind is not ComputedKind.CAST:
        return ""
    if one.value not in schema.names:
        return f"The computed column {name} is a cast of {one.value}, which is not a replicated column."
    of = schema.column(one.value).type
    if can_cast(of, one.type):
        return ""
    return f"The computed column {name} cannot be a cast of {one.value} ({of}) to {one.type}: values could be lost."


def _cannot_share(name: str, one: Computed, schema: TableSchema) -> str:
    if not schema.key:
        return (
            f"Tables that share the target table {one.shared} need a key. Add a key, or route the table to a"
            " target table of its own."
        )
    if len(one.value) > MAX_SHARED_VALUE:
        return f"The value of {name} is longer than {MAX_SHARED_VALUE} characters. Change the routing rule."
    return ""


def without_computed(schema: TableSchema) -> TableSchema:
    """Inverse of `with_computed`."""
    if not any(column.computed for column in schema.columns):
        return schema
    return replace(schema, columns=tuple(column for column in schema.columns if column.computed is None))


def computed_rows(rows: pa.RecordBatch, schema: TableSchema, read_at: datetime) -> pa.RecordBatch:
    """Rows of a snapshot, read at that time, with the columns of `schema` behind their own.

    The time stands for that of their commit; an offset they have none.
    """
    values = {
        ComputedKind.COMMIT_TIME: read_at,
        ComputedKind.OPERATION: Operation.READ.value,
        ComputedKind.OFFSET: None,
    }
    for column in schema.columns:
        if column.computed is None:
            continue
        if column.computed.kind in values:
            array = _repeated(values[column.computed.kind], column.type, rows.num_rows)
        else:
            array = _of_row(column.computed, schema, rows)
        rows = rows.append_column(pa.field(column.name, column.type.arrow), array)
    return rows


def computed_changes(data: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Changes with the columns of `schema`, whose `change_arrow` the result has.

    As the source's own columns, they are null in the row of a DELETE with a key, and in the image before an INSERT;
    what tells of the change is null in all images before.
    """
    if not any(column.computed for column in schema.columns):
        return data
    arrays = dict(zip(data.schema.names, data.columns, strict=True))
    deleted = pc.equal(arrays[OPERATION], Operation.DELETE.value)
    changed = pc.or_(deleted, pc.equal(arrays[OPERATION], Operation.UPDATE.value))
    for column in schema.columns:
        if (one := column.computed) is None:
            continue
        nothing = pa.scalar(None, column.type.arrow)
        if one.kind in _CHANGE_COLUMNS:
            row, before = arrays[_CHANGE_COLUMNS[one.kind]], _repeated(None, column.type, data.num_rows)
        else:
            row = _of_row(one, schema, data)
            before = pc.if_else(changed, _of_row(one, schema, data, BEFORE), nothing)
        arrays[column.name] = pc.if_else(deleted, nothing, row) if schema.key else row
        arrays[BEFORE + column.name] = before
    if schema.partial:
        arrays[UNCHANGED] = _unchanged(arrays[UNCHANGED], schema)
    arrow = schema.change_arrow
    if data.schema.metadata:
        arrow = arrow.with_metadata(data.schema.metadata)
    return pa.RecordBatch.from_arrays([arrays[name] for name in arrow.names], schema=arrow)


def _of_row(one: Computed, schema: TableSchema, rows: pa.RecordBatch, prefix: str = "") -> pa.Array:
    if one.kind is ComputedKind.CONSTANT:
        return _repeated(value_of(one.value, one.type), one.type, rows.num_rows)
    return cast(rows.column(prefix + one.value), schema.column(one.value).type, one.type)


def _repeated(value: object, kind: DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind.arrow), count)


def cast(values: pa.Array, old: DataType, new: DataType) -> pa.Array:
    """Of a cast that `can_cast` allows; null stays null."""
    if new == STRING:
        return canonical_text(values, old.kind)
    if new.kind is Kind.DATE:
        days = pc.floor_temporal(values.cast(pa.timestamp("us")), unit="day")  # of a time with a zone: in UTC
        return days.cast(pa.date32())
    return values.cast(new.arrow)


def _unchanged(places: pa.Array, schema: TableSchema) -> pa.Array:
    """With the casts of columns that were left out among them: their value is not known either."""
    names = schema.names
    casts = [
        (names.index(column.computed.value), place)
        for place, column in enumerate(schema.columns)
        if column.computed is not None and column.computed.kind is ComputedKind.CAST
    ]
    if not casts or places.null_count == len(places):
        return places
    found = [
        None if left_out is None else [*left_out, *(place for of, place in casts if of in left_out)]
        for left_out in places.to_pylist()
    ]
    return pa.array(found, UNCHANGED_FIELD.type)
