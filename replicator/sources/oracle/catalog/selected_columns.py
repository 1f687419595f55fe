"""Columns of a table in a SELECT of ours: what to select of each, and what came → Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import TableError, ValueDoesNotFit
from replicator.model.identifiers import TableId
from replicator.model.schema import Column
from replicator.sources.oracle.catalog.key_range_sql import printed
from replicator.sources.oracle.catalog.table_description import TableDescription
from replicator.sources.oracle.rows import redo_kernel as r
from replicator.sources.oracle.rows.columns import ColumnArrays, is_local, printed_cells
from replicator.sources.oracle.types import LOB_BYTES, ColumnDefinition, Form, ValueType

MAX_LOB_BYTES = 1 << 30  # of one row: the driver has no longer ones as values
_AS_THEY_COME = frozenset({Form.NUMBER, Form.FLOAT, Form.TEXT, Form.BYTES, Form.LOB})  # from the driver, exact
_PRINTED = {
    Form.NUMBER: r.TEXT,
    Form.DIGITS: r.TEXT,
    Form.MOMENT: r.MOMENT,
    Form.FINE_MOMENT: r.MOMENT,
    Form.ZONED: r.ZONED,
    Form.DAYS: r.DAYS,
    Form.MONTHS: r.MONTHS,
    Form.ROWID: r.TEXT,
}


def _length(definition: ColumnDefinition, value_type: ValueType) -> str:
    return f"DBMS_LOB.GETLENGTH({printed(definition, value_type)})"


def lob_bytes(description: TableDescription) -> str:
    """SQL for the bytes that a row's large objects take, at most; empty where it has none."""
    lobs = [description.place(name) for name in description.lobs]
    return " + ".join(f"NVL({_length(one, kind)}, 0) * {LOB_BYTES[one.data_type]}" for one, kind in lobs)


def require_fit(table: TableId, size: int) -> None:
    """ValueDoesNotFit where a row's large objects take more."""
    if size > MAX_LOB_BYTES:
        message = f"{table}: a row's large objects take up to {size:,} bytes, which is more than can be read."
        raise ValueDoesNotFit(message, table=str(table))


def longest_lob(description: TableDescription) -> str:
    """The same of the row that has the most, of an aggregate."""
    found = lob_bytes(description)
    return f"MAX({found})" if found else ""


class SelectedColumns:
    """All columns of a table, or those of these names; `convert` a result batch by batch.

    Of a large object its length is selected, too: an empty one comes as NULL from the driver.
    total, replaced: of the last batch, how many values could not be kept and became null, and of each row (int32; None
    where there were none).
    """

    def __init__(self, description: TableDescription, zero_dates: str, names: Sequence[str] = ()) -> None:
        self._schema, key = description.schema, description.schema.key
        self._columns = [one for one in self._schema.columns if not names or one.name in names]
        placed = [description.place(one.name) for one in self._columns]
        self._converters = [
            _PrintedColumn(column, kind, "fail" if column.name in key else zero_dates)
            for column, (_, kind) in zip(self._columns, placed, strict=True)
        ]
        self._lobs = [place for place, (_, kind) in enumerate(placed) if kind.form is Form.LOB]
        lengths = [_length(*placed[place]) for place in self._lobs]
        self.sql = ", ".join([*(printed(*one) for one in placed), *lengths])
        self._arrow = pa.schema([pa.field(one.name, one.type.arrow) for one in self._columns])
        self.total = 0
        self._counts: pa.Array | None = None

    def convert(self, rows: pa.Table) -> pa.RecordBatch:
        """ValueDoesNotFit."""
        arrays = []
        for place, converter in enumerate(self._converters):
            array = _whole(rows.column(place))
            if place in self._lobs:
                array = self._with_empty(array, rows, place)
            try:
                arrays.append(converter.convert(array))
            except TableError as error:
                error.table = str(self._schema.table)
                error.message = f"{self._schema.table}: {error.message}"
                raise
        self._count()
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _with_empty(self, array: pa.Array, rows: pa.Table, place: int) -> pa.Array:
        lengths = _whole(rows.column(len(self._columns) + self._lobs.index(place)))
        if pc.any(pc.and_(array.is_null(), pc.greater(lengths, 0))).as_py():
            message = f"The driver gave no value of a large object of {self._columns[place].name} that has one."
            raise ValueDoesNotFit(message, column=self._columns[place].name)
        return pc.if_else(pc.equal(lengths, 0).fill_null(False), pa.scalar("", array.type), array)  # noqa: FBT003

    def _count(self) -> None:
        self._counts = None
        for mask in [pa.array(one.bad).cast(pa.int32()) for one in self._converters if one.bad is not None]:
            self._counts = mask if self._counts is None else pc.add(self._counts, mask)
        self.total = int(pc.sum(self._counts).as_py() or 0) if self._counts is not None else 0

    def replaced(self) -> pa.Array | None:
        """See the class."""
        return self._counts


class _PrintedColumn:
    """A column of a SELECT's result → an array of its type.  `bad` as `ColumnArrays` has it."""

    def __init__(self, column: Column, value_type: ValueType, zero_dates: str) -> None:
        self._column, self._form = column, value_type.form
        self._arrays = ColumnArrays(column, value_type, zero_dates)

    @property
    def bad(self) -> Any:
        return self._arrays.bad

    def convert(self, array: pa.Array) -> pa.Array:
        """ValueDoesNotFit."""
        printed_number = self._form is Form.NUMBER and (
            pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        )
        if self._form not in _AS_THEY_COME or printed_number:
            kind = r.MOMENT if is_local(self._column) else _PRINTED[self._form]
            return self._arrays.convert(printed_cells(array, kind))
        try:
            return array.cast(self._column.type.arrow)
        except pa.ArrowInvalid:
            column = self._column
            message = f"Column {column.name} ({column.source_type}) has a value that is none of {column.type}."
            raise ValueDoesNotFit(message, column=column.name) from None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
