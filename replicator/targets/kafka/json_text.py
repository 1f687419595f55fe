"""Columns as JSON text, column by column in Arrow: no Python object per value where there need not be one.

Exact: whole numbers as numbers; decimals as texts in plain digits; floats by their shortest digits that give the same
double, and `"NaN"`, `"Infinity"`, `"-Infinity"`; bytes in base64; days and times in ISO 8601, with `Z` where they are
moments.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from decimal import Decimal
from json.encoder import encode_basestring

import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()
NULL = pa.scalar("null", TEXT)
_ODD = r'["\\\x00-\x1f]'


def quoted(text: str) -> str:
    """A JSON string."""
    return json.dumps(text, ensure_ascii=False)


def joined(*parts: pa.Array | str) -> pa.Array:
    """Row by row; at least one part is an array without nulls."""
    pieces = [pa.scalar(part, TEXT) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*pieces, pa.scalar("", TEXT))


def chosen(mask: pa.Array, texts: pa.Array) -> pa.Array:
    """`null` where the mask is false."""
    return pc.if_else(mask, texts, NULL)


def members(batch: pa.RecordBatch) -> list[pa.Array | str]:
    """`"name":value` of each column, with commas between them, for `joined`."""
    parts: list[pa.Array | str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        parts += [f"{',' if parts else ''}{quoted(name)}:", values(column)]
    return parts


def objects(batch: pa.RecordBatch) -> pa.Array:
    """One JSON object per row; the batch has a column."""
    return joined("{", *members(batch), "}")


def values(column: pa.Array) -> pa.Array:
    """JSON text of each value; `null` for nulls."""
    return pc.fill_null(_values(column), NULL)


def _values(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        return _strings(column)
    if pa.types.is_binary(kind):
        return _texts([value and base64.b64encode(value).decode() for value in column.to_pylist()])
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_floating(kind):
        return _floats(column.cast(pa.float64()))
    text = column.cast(TEXT)
    if pa.types.is_timestamp(kind):
        text = pc.replace_substring(text, " ", "T")
    return _texts(text) if pa.types.is_temporal(kind) else text


def _texts(plain: pa.Array | Sequence[str | bytes | None]) -> pa.Array:
    """In quotes; nothing in them needs an escape."""
    array = plain if isinstance(plain, pa.Array) else pa.array(plain, TEXT)
    return joined('"', array, '"')


def _strings(column: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(column, _ODD)).as_py():
        return _texts(column.cast(TEXT))
    return pa.array([None if value is None else encode_basestring(value) for value in column.to_pylist()], TEXT)


def _decimals(column: pa.Array) -> pa.Array:
    text = column.cast(TEXT)
    if pc.any(pc.match_substring(text, "E")).as_py():
        text = pa.array([None if value is None else f"{Decimal(value):f}" for value in text.to_pylist()], TEXT)
    return _texts(text)


def _floats(column: pa.Array) -> pa.Array:
    text = column.cast(TEXT)
    if pc.any(pc.equal(text, "-0")).as_py():  # which readers take for a whole number, without its sign
        text = pc.if_else(pc.equal(text, "-0"), pa.scalar("-0.0", TEXT), text)
    if not pc.any(pc.invert(pc.is_finite(column))).as_py():
        return text
    names = pc.case_when(
        pc.make_struct(pc.is_nan(column), pc.greater(column, 0.0)),
        *(pa.scalar(name, TEXT) for name in ('"NaN"', '"Infinity"', '"-Infinity"')),
    )
    return pc.if_else(pc.is_finite(column), text, names)
