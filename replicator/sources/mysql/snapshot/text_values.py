"""Values of the text protocol as Arrow, a column at a time, and the SELECT expressions whose text is exact."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import TableError, ValueDoesNotFit
from replicator.model.identifiers import TableId
from replicator.model.schema import Column
from replicator.model.types import Kind
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.connection import quoted
from replicator.sources.mysql.types import DATES, UNICODE_REMEDY, ZERO_DATE_REMEDY, ColumnDefinition

_DATE_LENGTH = 10
_FIRST_DAY = -719_162  # 0001-01-01, in days since 1970
_MICROSECONDS_A_DAY = 86_400_000_000


def select_expression(definition: ColumnDefinition) -> str:
    """What to SELECT so that the text holds the whole value.

    The text of a FLOAT has 6 digits, that of FLOAT(m,d) d decimals; as a DOUBLE it has all (and `* 1e0`, unlike `+
    0e0`, keeps negative zero).  The text of a BIT is its bytes.
    """
    name = quoted(definition.name)
    match definition.data_type:
        case "float" | "double":
            return f"{name} * 1e0"
        case "bit":
            return f"CAST({name} AS UNSIGNED)"
        case "year":
            return f"{name} + 0"
        case _:
            return name


class RowConverter:
    """Columns of bytes, in the order of a description's columns, to record batches of its `row_arrow`."""

    def __init__(self, description: TableDescription, zero_dates: str) -> None:
        schema = description.schema
        self._schema = schema.row_arrow
        self._columns = [
            _ColumnConverter(schema.table, column, definition, "fail" if column.name in schema.key else zero_dates)
            for column, definition in zip(schema.columns, description.definitions, strict=True)
        ]

    @property
    def nulled(self) -> int:
        """Zero dates that became null so far."""
        return sum(column.nulled for column in self._columns)

    def zero_dates(self) -> pa.Array | None:
        """Of each row of the last batch, how many (int32); None where there were none."""
        masks = [column.bad.cast(pa.int32()) for column in self._columns if column.bad is not None]
        return reduce(pc.add, masks) if masks else None

    def batch(self, arrays: Sequence[pa.Array]) -> pa.RecordBatch:
        """Raises ValueDoesNotFit."""
        converted = [column.convert(array) for column, array in zip(self._columns, arrays, strict=True)]
        return pa.RecordBatch.from_arrays(converted, schema=self._schema)


class _ColumnConverter:
    def __init__(self, table: TableId, column: Column, definition: ColumnDefinition, zero_dates: str) -> None:
        self._table, self._column = table, column
        self._zero_dates = zero_dates
        self._dated = definition.data_type in DATES and column.type.kind is not Kind.STRING
        self.nulled = 0
        self.bad: pa.BooleanArray | None = None

    def convert(self, array: pa.Array) -> pa.Array:
        """`array` is binary: what the server sent."""
        kind, target = self._column.type.kind, self._column.type.arrow
        self.bad = None
        if kind is Kind.BINARY:
            return array
        try:
            if kind is Kind.STRING:
                return array.cast(pa.string())  # holds the text against UTF-8
            text = array.view(pa.string())
            if self._dated:
                return self._dates(text).cast(target)
            if kind is Kind.BOOLEAN:
                return text.cast(pa.int8()).cast(target)
            return text.cast(target)
        except pa.ArrowInvalid as error:
            if kind is Kind.STRING:
                raise not_unicode(self._column, self._table) from None
            raise self._misfit(str(error)) from None

    def _dates(self, text: pa.Array) -> pa.Array:
        """Naive dates or time stamps; those that do not exist by policy."""
        plain = pa.date32() if self._column.type.kind is Kind.DATE else pa.timestamp("us")
        try:
            values = text.cast(plain)
            if _all_in_calendar(values):
                return values
        except pa.ArrowInvalid:
            pass
        bad = _not_in_calendar(text)
        if self._zero_dates != "null":
            raise self._misfit(str(text.filter(bad)[0].as_py()), ZERO_DATE_REMEDY)
        self.nulled += pc.sum(bad).as_py() or 0
        self.bad = bad
        return pc.if_else(bad, pa.scalar(None, pa.string()), text).cast(plain)

    def _misfit(self, value: str, remedy: str | None = None) -> TableError:
        column = self._column
        message = (
            f"Column {column.name} of {self._table}: {value!r} is not a valid value of {column.type}"
            f" ({column.source_type})."
        )
        return ValueDoesNotFit(message, table=str(self._table), remedy=remedy)


def not_unicode(column: Column, table: TableId) -> TableError:
    """What the server itself takes for text and gives as UTF-8 need not be any."""
    message = f"Column {column.name} of {table} ({column.source_type}) contains text that is not valid Unicode."
    return ValueDoesNotFit(message, table=str(table), remedy=UNICODE_REMEDY)


def _all_in_calendar(values: pa.Array) -> bool:
    """Arrow knows a year 0, Spark and Iceberg do not."""
    least = pc.min(values)
    if not least.is_valid:
        return True
    return bool(least.value >= (_FIRST_DAY if pa.types.is_date32(values.type) else _FIRST_DAY * _MICROSECONDS_A_DAY))


def _not_in_calendar(text: pa.Array) -> pa.Array:
    """True for each text that does not begin with a day between 0001-01-01 and 9999-12-31; false for null."""
    days = pc.utf8_slice_codeunits(text, 0, _DATE_LENGTH).dictionary_encode()
    bad = pa.array([not _exists(day) for day in days.dictionary.to_pylist()], pa.bool_())
    return pc.fill_null(bad.take(days.indices), fill_value=False)


def _exists(day: str) -> bool:
    try:
        date(int(day[:4]), int(day[5:7]), int(day[8:10]))
    except ValueError:
        return False
    return True
