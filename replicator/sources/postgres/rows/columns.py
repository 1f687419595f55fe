"""Values of the log and of snapshots as Arrow, a column at a time: one text, one binary form, one result.

A value is given as the server's own text under fixed settings, or in binary for the types of which the decoder here is
exact; both give the same Arrow value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import LogCorrupt, TableError, ValueDoesNotFit
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import DataType, Kind
from replicator.sources.postgres.catalog.attributes import Attribute, PgType, TableDescription
from replicator.sources.postgres.charset import Charset
from replicator.sources.postgres.rows import binary_columns, binary_values, text_values
from replicator.sources.postgres.rows.tuples import BINARY, TEXT, Cells, Found, Places
from replicator.sources.postgres.types import CATALOG, DATE_REMEDY, DATES, NUMERIC_REMEDY, dated

_UNICODE_REMEDY = (
    "Correct the row on the source (the database's encoding allows invalid bytes), or exclude the column from the "
    "replicator; then resnapshot the table."
)
_SHOWN = 100  # bytes of a value in a message


def binary_exact(pg_type: PgType, typmod: int, data_type: DataType | None = None) -> bool:  # noqa: ARG001 - part of the type
    """Is there a decoder of the type's binary form?  `pg_type` is not a domain: see `Attribute.plain`.

    `data_type`: what the column becomes; for a date that becomes text, only the server's text is used.
    """
    name = _decoded_name(pg_type)
    if name in DATES:
        return data_type is None or data_type.kind is not Kind.STRING
    return binary_values.decoder(name, data_type or DataType(Kind.STRING)) is not None


def exact(schema: TableSchema, attributes: Sequence[Attribute]) -> bool:
    """Has every column of a table a decoder for its binary form?  `attributes` are those of `schema.columns`."""
    pairs = zip(schema.columns, attributes, strict=True)
    return all(binary_exact(*one.plain, column.type) for column, one in pairs)


def _decoded_name(pg_type: PgType) -> str:
    """How the binary decoders call it; empty for those that have none."""
    if pg_type.kind == "e":
        return binary_values.ENUM
    return pg_type.name if pg_type.schema == CATALOG and pg_type.kind == "b" else ""


class ColumnConverter:
    """Cells of one column to Arrow arrays of its type.

    `bad`: of each row converted last, whether its date does not exist in the target and became null; None where none
    did.
    `nulled`: how many did so far.
    """

    def __init__(
        self, column: Column, attribute: Attribute, table: TableId, zero_dates: str, charset: Charset | None = None
    ) -> None:
        """`zero_dates`: the policy; a column that cannot be null, a key's say, has none but to fail.

        `charset`: of texts, else UTF-8.
        """
        self._table, self._column = table, column
        self._dated = dated(attribute) and column.type.kind is not Kind.STRING
        self._null_dates = zero_dates == "null" and column.nullable
        self._is_numeric = _decoded_name(attribute.plain[0]) == "numeric"
        self._from_text = text_values.decoder(column.type)
        self._from_binary = binary_values.decoder(_decoded_name(attribute.plain[0]), column.type)
        self._direct = binary_columns.way(_decoded_name(attribute.plain[0]), column.type)
        if charset is not None and column.type.kind is Kind.STRING:
            self._from_text, self._direct = charset.strings, None
        self.nulled = 0
        self.bad: pa.BooleanArray | None = None

    def rows(self, found: Found, tuples: Sequence[Places]) -> list[pa.Array] | None:
        """Of each of `tuples` the array whose row i has the value of tuple number tuples[i] (-1: null), as `convert`
        and `take` give it.

        None where it must be these: for other types and forms, and where there is anything to complain of or to count.
        """
        if self._direct is None:
            return None
        arrays: list[pa.Array] = []
        for one in tuples:
            array = self._direct(found, one)
            if array is None:
                return None
            arrays.append(array)
        self.bad = None
        return arrays

    def convert(self, cells: Cells) -> pa.Array:
        """Convert cells to an array, null where the cell is null or unchanged.

        Raises ValueDoesNotFit; LogCorrupt for malformed values.
        """
        self.bad = None
        binary = cells.kind == BINARY
        if not binary.any():
            return self._convert(cells.values, binary=False)
        text = cells.kind == TEXT
        if not text.any():
            return self._convert(cells.values, binary=True)
        return self._mixed(cells, text)

    def _mixed(self, cells: Cells, text: npt.NDArray[np.bool_]) -> pa.Array:
        """Convert the cells of each form separately, then merge them."""
        parts: list[pa.Array] = []
        masks: list[pa.Array | None] = []
        for chosen, binary in ((text, False), (cells.kind == BINARY, True)):
            self.bad = None
            parts.append(self._convert(cells.values.filter(pa.array(chosen)), binary=binary).take(_places(chosen)))
            masks.append(None if self.bad is None else pc.fill_null(self.bad.take(_places(chosen)), fill_value=False))
        found = [mask for mask in masks if mask is not None]
        self.bad = reduce(pc.or_, found) if found else None
        return pc.coalesce(*parts)

    def _convert(self, values: pa.Array, *, binary: bool) -> pa.Array:
        if self._dated:
            return self._dates(values, binary=binary)
        decode = self._from_binary if binary else self._from_text
        if decode is None:
            message = f"Column {self._column.name} of {self._table} arrived in an unexpected binary format."
            raise LogCorrupt(message)
        try:
            return decode(values)
        except pa.ArrowInvalid:
            bad = _first_bad(values, decode)
            shown = binary_values.numeric_texts(bad).cast(pa.binary()) if binary and self._is_numeric else bad
            raise self._misfit(shown[0].as_py()) from None

    def _dates(self, values: pa.Array, *, binary: bool) -> pa.Array:
        kind, target = self._column.type.kind, self._column.type.arrow
        bad: pa.BooleanArray
        if binary:
            found, bad = binary_values.calendar(values, kind, target)
            if not pc.any(bad).as_py():
                return found
        else:
            try:
                return self._from_text(values)
            except pa.ArrowInvalid:
                bad = text_values.out_of_calendar(values)
        if not self._null_dates and pc.any(bad).as_py():
            first = values.filter(bad)
            raise self._misfit(binary_values.day_text(first, kind) if binary else first[0].as_py())
        self.bad = bad
        self.nulled += pc.sum(bad).as_py() or 0
        if binary:
            return found
        kept = pc.if_else(bad, pa.scalar(None, pa.binary()), values)
        try:
            return self._from_text(kept)
        except pa.ArrowInvalid:
            raise self._misfit(_first_bad(kept, self._from_text)[0].as_py()) from None

    def _misfit(self, value: bytes) -> TableError:
        column = self._column
        named = f"Column {column.name} of {self._table}"
        remedy = DATE_REMEDY if self._dated else NUMERIC_REMEDY if self._is_numeric else None
        if column.type.kind is Kind.STRING:
            message = f"{named} ({column.source_type}) contains text that is not valid Unicode."
            return ValueDoesNotFit(message, table=str(self._table), remedy=_UNICODE_REMEDY, column=column.name)
        shown = value[:_SHOWN].decode("utf-8", "backslashreplace")
        message = f"{named}: {shown!r} is not a valid value of {column.type} ({column.source_type})."
        return ValueDoesNotFit(message, table=str(self._table), remedy=remedy, column=column.name)


class RowConverter:
    """Columns of cells, in the order of a description's columns, to record batches of its `row_arrow`."""

    def __init__(self, description: TableDescription, zero_dates: str) -> None:
        schema = description.schema
        self._schema = schema.row_arrow
        self._columns = [
            ColumnConverter(column, attribute, schema.table, "fail" if column.name in schema.key else zero_dates)
            for column, attribute in zip(schema.columns, description.attributes, strict=True)
        ]

    @property
    def nulled(self) -> int:
        """Dates that became null so far."""
        return sum(column.nulled for column in self._columns)

    def zero_dates(self) -> pa.Array | None:
        """Of each row of the last batch, how many (int32); None where there were none."""
        masks = [column.bad.cast(pa.int32()) for column in self._columns if column.bad is not None]
        return reduce(pc.add, masks) if masks else None

    def batch(self, cells: Sequence[Cells]) -> pa.RecordBatch:
        """Raises ValueDoesNotFit, LogCorrupt."""
        converted = [column.convert(one) for column, one in zip(self._columns, cells, strict=True)]
        return pa.RecordBatch.from_arrays(converted, schema=self._schema)


def _places(chosen: npt.NDArray[np.bool_]) -> pa.Array:
    """Of each row its place among those that are chosen, null for the others."""
    return pa.array(np.cumsum(chosen) - 1, mask=~chosen)


def _first_bad(values: pa.Array, decode: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The first value that `decode` refuses, alone; found by halving: it refuses one of `values`."""
    while len(values) > 1:
        half = values[: len(values) // 2]
        try:
            decode(half)
        except pa.ArrowInvalid:
            values = half
        else:
            values = values[len(half) :]
    return values
