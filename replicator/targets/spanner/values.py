"""Rows as Spanner's API takes and gives them, and the values that it does not take."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from google.cloud.spanner_v1 import TypeCode
from google.protobuf.struct_pb2 import ListValue, Value

from replicator.model.schema import SEQUENCE
from replicator.model.types import Kind
from replicator.targets.spanner import names
from replicator.targets.spanner.names import type_of
from replicator.targets.warehouse.value_limits import CellLimit, check_cells

MAX_TEXT, MAX_BYTES = 2_621_440, 10 * 1024 * 1024  # characters, bytes of a cell
NULL = Value(null_value="NULL_VALUE")
CODES: Mapping[Kind, TypeCode] = {
    Kind.BOOLEAN: TypeCode.BOOL, Kind.INT: TypeCode.INT64, Kind.BIGINT: TypeCode.INT64, Kind.DECIMAL: TypeCode.NUMERIC,
    Kind.FLOAT: TypeCode.FLOAT64, Kind.DOUBLE: TypeCode.FLOAT64, Kind.STRING: TypeCode.STRING,
    Kind.BINARY: TypeCode.BYTES, Kind.DATE: TypeCode.DATE, Kind.TIMESTAMP_NTZ: TypeCode.TIMESTAMP,
    Kind.TIMESTAMP: TypeCode.TIMESTAMP,
}  # fmt: skip


@dataclass
class Budget:
    """How much a commit takes: less, once Spanner has refused one, as it counts entries of others' indexes, too."""

    mutations: int = field(default_factory=lambda: names.MAX_MUTATIONS)
    nbytes: int = names.MAX_COMMIT_BYTES

    def refused(self) -> None:
        self.mutations = max(self.mutations // 2, names.MIN_MUTATIONS)
        self.nbytes = max(self.nbytes // 2, names.MIN_COMMIT_BYTES)

    def fits(self, mutations: int, nbytes: int) -> bool:
        return mutations <= self.mutations and nbytes <= self.nbytes

    def pieces(self, rows: pa.Table, more: int = 0) -> Iterator[pa.Table]:
        """In order, each within one commit; rows of one number stay together.

        more: mutations of each row besides its columns.
        """
        most, start = max(self.mutations // (rows.num_columns + more), 1), 0
        sequence = rows.column(SEQUENCE).to_numpy() if SEQUENCE in rows.column_names else None
        while start < rows.num_rows:
            stop = start + min(most, rows.num_rows - start)
            while stop > start + 1 and rows.slice(start, stop - start).nbytes > self.nbytes:
                stop = start + (stop - start + 1) // 2
            while sequence is not None and stop < rows.num_rows and sequence[stop - 1] == sequence[stop]:
                stop += 1
            yield rows.slice(start, stop - start)
            start = stop

    def gathered(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Many tables of the same columns as few pieces."""
        left: pa.Table | None = None
        for rows in tables:
            left = rows if left is None else pa.concat_tables([left, rows])
            *whole, left = self.pieces(left) if left.num_rows else [left]
            yield from whole
        if left is not None and left.num_rows:
            yield left


def check_values(rows: pa.Table, table: str) -> None:
    """See `check_cells`."""
    check_cells(rows, table, "Spanner", CellLimit(MAX_TEXT, characters=True), CellLimit(MAX_BYTES))


def encoded(rows: pa.Table) -> list[ListValue]:
    """Each row's values, in the columns' order."""
    if not rows.num_columns:
        return []
    columns = [_encoded_column(column) for column in rows.columns]
    return [ListValue(values=row) for row in zip(*columns, strict=True)]


def _encoded_column(column: pa.ChunkedArray) -> list[Value]:
    kind = type_of(column.type).kind
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        column = pc.cast(column.cast(pa.timestamp("us")), pa.string())
    elif kind in (Kind.INT, Kind.BIGINT, Kind.DATE):
        column = pc.cast(column, pa.string())
    form = _FORMS[kind]
    return [NULL if value is None else form(value) for value in column.to_pylist()]


def _float(value: float) -> Value:
    if value != value:  # noqa: PLR0124 - NaN
        return Value(string_value="NaN")
    if value in (float("inf"), float("-inf")):
        return Value(string_value="Infinity" if value > 0 else "-Infinity")
    return Value(number_value=value)


def _text(value: str) -> Value:
    return Value(string_value=value)


_FORMS: Mapping[Kind, Callable[[Any], Value]] = {
    Kind.BOOLEAN: lambda value: Value(bool_value=value),
    Kind.INT: _text,
    Kind.BIGINT: _text,
    Kind.DECIMAL: lambda value: Value(string_value=format(value, "f")),
    Kind.FLOAT: _float,
    Kind.DOUBLE: _float,
    Kind.STRING: _text,
    Kind.BINARY: lambda value: Value(string_value=base64.b64encode(value).decode()),
    Kind.DATE: _text,
    Kind.TIMESTAMP_NTZ: lambda value: Value(string_value=f"{value[:10]}T{value[11:]}Z"),
    Kind.TIMESTAMP: lambda value: Value(string_value=f"{value[:10]}T{value[11:]}Z"),
}


def decoded(values: Sequence[Value], schema: pa.Schema) -> pa.Table:
    """Rows one after the other, as columns."""
    width = len(schema)
    arrays = [_decoded_column(values[number::width], field.type) for number, field in enumerate(schema)]
    return pa.table(arrays, schema=schema)


def _decoded_column(values: Sequence[Value], kind: pa.DataType) -> pa.Array:
    form = _VALUES[type_of(kind).kind]
    found = [None if value.HasField("null_value") else form(value) for value in values]
    if pa.types.is_timestamp(kind):
        return pa.array(found, pa.string()).cast(pa.timestamp("us")).cast(kind)
    return pa.array(found, kind)


def _as_float(value: Value) -> float:
    return float(value.string_value) if value.HasField("string_value") else float(value.number_value)


_VALUES: Mapping[Kind, Callable[[Value], Any]] = {
    Kind.BOOLEAN: lambda value: value.bool_value,
    Kind.INT: lambda value: int(value.string_value),
    Kind.BIGINT: lambda value: int(value.string_value),
    Kind.DECIMAL: lambda value: Decimal(value.string_value),
    Kind.FLOAT: _as_float,
    Kind.DOUBLE: _as_float,
    Kind.STRING: lambda value: value.string_value,
    Kind.BINARY: lambda value: base64.b64decode(value.string_value),
    Kind.DATE: lambda value: date.fromisoformat(value.string_value),
    Kind.TIMESTAMP_NTZ: lambda value: value.string_value.removesuffix("Z"),
    Kind.TIMESTAMP: lambda value: value.string_value.removesuffix("Z"),
}
