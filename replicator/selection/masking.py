"""Masks on Arrow: a table's schema and its batches, with what is masked in place of what the source has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import SelectionDoesNotFit
from replicator.model.masks import Mask, Masked, MaskKind
from replicator.model.schema import BEFORE, Column, TableSchema
from replicator.model.types import Kind


def masked_schema(schema: TableSchema, masks: Mapping[str, Mask]) -> TableSchema:
    """What is staged of `schema`.

    SelectionDoesNotFit where a mask has no column, or not one that it fits (invariant 7).

    A column that was renamed or dropped is not there: its new name could stand for the same values, so nothing is
    guessed.
    """
    if not masks:
        return schema
    if missing := sorted(set(masks) - set(schema.names)):
        message = f"{schema.table} has no column {missing[0]}, which has a mask: it was renamed, dropped or excluded."
        raise SelectionDoesNotFit(message, table=str(schema.table))
    for name, mask in masks.items():
        if why := mask.refusal(name, schema.column(name).type, key=name in schema.key):
            raise SelectionDoesNotFit(f"{schema.table}: {why}", table=str(schema.table))
    columns = tuple(_masked_column(column, masks.get(column.name)) for column in schema.columns)
    return replace(schema, columns=columns)


def unmasked_schema(schema: TableSchema) -> TableSchema:
    """Return the source's own schema: the inverse of `masked_schema`, for any masks."""
    if not any(column.masked for column in schema.columns):
        return schema
    return replace(schema, columns=tuple(_plain_column(column) for column in schema.columns))


def _masked_column(column: Column, mask: Mask | None) -> Column:
    if mask is None:
        return column
    plain = Masked(mask, column.type, column.nullable)
    nullable = column.nullable or mask.kind is MaskKind.NULL
    return replace(column, type=mask.type(column.type), nullable=nullable, masked=plain)


def _plain_column(column: Column) -> Column:
    if column.masked is None:
        return column
    return replace(column, type=column.masked.type, nullable=column.masked.nullable, masked=None)


def masked_rows(data: pa.RecordBatch, schema: TableSchema, salt: bytes) -> pa.RecordBatch:
    """Rows, or changes with their before images, of `unmasked_schema(schema)`, as `schema` has them; other columns
    stay.
    """
    if not any(column.masked for column in schema.columns):
        return data
    arrays = list(data.columns)
    fields = list(data.schema)
    for column in schema.columns:
        if column.masked is None:
            continue
        for name in (column.name, BEFORE + column.name):
            place = data.schema.get_field_index(name)
            if place >= 0:
                arrays[place] = _values(arrays[place], column.masked, salt)
                fields[place] = fields[place].with_type(column.type.arrow)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=data.schema.metadata))


def _values(values: pa.Array, masked: Masked, salt: bytes) -> pa.Array:
    """Null where `values` is."""
    match masked.mask.kind:
        case MaskKind.NULL:
            return pa.nulls(len(values), values.type)
        case MaskKind.FIXED:
            fixed = pa.scalar(masked.mask.fixed(masked.type), values.type)
            return pc.if_else(pc.is_valid(values), fixed, pa.scalar(None, values.type))
        case MaskKind.PARTIAL:
            return _partial(canonical_text(values, masked.type.kind), masked.mask)
        case MaskKind.HASH:
            return _hashed(canonical_text(values, masked.type.kind), salt)


def canonical_text(values: pa.Array, kind: Kind) -> pa.Array:
    """The one text of each value; of binary columns, the bytes themselves."""
    if kind in {Kind.STRING, Kind.BINARY}:
        return values
    if kind is Kind.BOOLEAN:
        return values.cast(pa.int8()).cast(pa.string())
    if kind is Kind.TIMESTAMP:
        return values.cast(pa.timestamp("us")).cast(pa.string())  # without the zone: all are in UTC
    if kind is Kind.DECIMAL:  # Arrow would write a very small one with an exponent
        known = values.dictionary_encode()
        return pa.array([f"{value:f}" for value in known.dictionary.to_pylist()], pa.string()).take(known.indices)
    return values.cast(pa.string())


def _partial(texts: pa.Array, mask: Mask) -> pa.Array:
    """A text with no more characters than may be shown is hidden whole."""
    lengths = pc.utf8_length(texts)
    shown = mask.first + mask.last
    first = pc.utf8_slice_codeunits(texts, 0, mask.first)
    last = pc.utf8_slice_codeunits(texts, -mask.last) if mask.last else pa.scalar("")
    stars = pc.binary_repeat("*", pc.max_element_wise(pc.subtract(lengths, shown), 0, skip_nulls=False))
    parts = pc.binary_join_element_wise(first, stars, last, "")
    hidden = pc.binary_repeat("*", lengths)
    return pc.if_else(pc.greater(lengths, shown), parts, hidden)


def _hashed(texts: pa.Array, salt: bytes) -> pa.Array:
    """SHA-256 in hexadecimal digits, of each distinct value once."""
    if not salt:
        message = "The salt for hash masks is missing."
        raise ValueError(message)
    known = texts.dictionary_encode()
    found = [_digest(value, salt) for value in known.dictionary.to_pylist()]
    return pa.array(found, pa.string()).take(known.indices)


def _digest(value: Any, salt: bytes) -> str:
    return hashlib.sha256(salt + (value.encode() if isinstance(value, str) else value)).hexdigest()
