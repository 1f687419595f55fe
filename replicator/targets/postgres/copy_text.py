"""Rows as COPY's text format (postgresql.org/docs/current/sql-copy.html), made by Arrow column by column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import ValueDoesNotFit
from replicator.targets.warehouse.value_limits import check_years

CHUNK = 8 * 1024 * 1024  # bytes of rows in memory that are written at a time
NULL = "\\N"
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_SPECIAL = r"[\\\t\n\r]"
_TEXT = pa.large_string()


def encoded(rows: pa.Table, table: str) -> Iterator[memoryview]:
    """Lines of text.  ValueDoesNotFit for a value that Postgres has not.  table: for messages."""
    size = max(1, rows.num_rows * CHUNK // max(rows.nbytes, 1))
    for first in range(0, rows.num_rows, size):
        part = rows.slice(first, size)
        columns = [_text(name, part.column(name), table) for name in part.column_names]
        lines = pc.binary_join_element_wise(*columns, pa.scalar("\t", _TEXT))
        whole = pc.binary_join_element_wise(lines, pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))
        for chunk in whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]:
            if len(chunk):
                _, offsets, values = chunk.buffers()
                bounds = np.frombuffer(offsets, np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
                yield memoryview(values)[int(bounds[0]) : int(bounds[-1])]


def _text(name: str, column: pa.ChunkedArray, table: str) -> pa.Array:
    """One column, never null."""
    kind, values = column.type, column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
    if pa.types.is_binary(kind):
        texts = pa.array([None if one is None else f"\\\\x{one.hex()}" for one in values.to_pylist()], _TEXT)
    elif pa.types.is_string(kind):
        texts = _escaped(name, values.cast(_TEXT), table)
    else:
        if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
            check_years(name, values, table)
        texts = values.cast(pa.string()).cast(_TEXT)
    return texts.fill_null(NULL)


def _escaped(name: str, values: pa.Array, table: str) -> pa.Array:
    if pc.any(pc.match_substring(values, "\0")).as_py():
        message = f"The column {name} of {table} has a text with a NUL character, which Postgres cannot store."
        remedy = "Remove the character in the source, or exclude the column; then resnapshot the table."
        raise ValueDoesNotFit(message, remedy=remedy, column=name)
    if pc.any(pc.match_substring_regex(values, _SPECIAL)).as_py():
        for plain, escape in _ESCAPES:
            values = pc.replace_substring(values, plain, escape)
    return values
