"""Value by value: from its bytes in a row image to what goes into an Arrow array.

`Convert` gives integers for decimals (unscaled), dates (days) and timestamps (microseconds since 1970), text or bytes
of UTF-8 text, NO_DATE for a date that does not exist and is to be null.  `columns` calls it for what its kernels
do not do.
"""

# ruff: noqa: PLR2004 - sizes and codes of the wire format, which the sources above define

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from replicator.errors import UnsupportedCharset, UnsupportedType
from replicator.model.schema import Column
from replicator.model.types import Kind
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.charsets import charset_name, decoder, is_utf8
from replicator.sources.mysql.rows import jsonb
from replicator.sources.mysql.rows import table_map as t
from replicator.sources.mysql.rows.table_map import LogColumn
from replicator.sources.mysql.rows.temporal import TEMPORAL, impossible, temporal_converter, temporal_size
from replicator.sources.mysql.wire.bounded_slices import decompressed, part

Convert = Callable[[bytes], Any]

INTEGERS = {t.TINY: 1, t.SHORT: 2, t.INT24: 3, t.LONG: 4, t.LONGLONG: 8}
_BLOBS = frozenset({t.BLOB, t.TINY_BLOB, t.MEDIUM_BLOB, t.LONG_BLOB, t.GEOMETRY, t.VECTOR, t.JSON, t.BLOB_COMPRESSED})


class Shape(NamedTuple):
    """How long values are: `size` bytes, or, behind `prefix` bytes that say it, `size` at most."""

    prefix: int
    size: int


def shape_of(log: LogColumn) -> Shape:
    """Sizes: MySQL's Field::pack of each type.  UnsupportedType."""
    if log.type in _BLOBS:
        return Shape(log.metadata, (1 << 8 * log.metadata) - 1)
    if log.type in (t.VARCHAR, t.VARCHAR_COMPRESSED, t.VAR_STRING, t.STRING):
        width = 2 if log.metadata > 255 else 1
        return Shape(width, (1 << 8 * width) - 1 if log.type == t.VARCHAR_COMPRESSED else log.metadata)
    return Shape(0, fixed_size(log))


def converter(log: LogColumn, column: Column, options: ReadOptions) -> Convert:
    """Of one value that is not NULL.  UnsupportedType, UnsupportedCharset where it cannot be read exactly.

    What it gives back raises ValueDoesNotFit, and for bytes that are damaged what `EventParser.guard` knows.
    """
    if log.type in TEMPORAL:
        return temporal_converter(log, column, options)
    return _WAYS.get(log.type, _text)(log, column)


def _integer(log: LogColumn, column: Column) -> Convert:
    signed = not log.unsigned
    if column.type.kind is Kind.BOOLEAN:
        return any
    return lambda data: int.from_bytes(data, "little", signed=signed)


def fixed_size(log: LogColumn) -> int:
    """Bytes of a value whose size does not depend on it."""
    if log.type == t.NEWDECIMAL:
        return jsonb.decimal_reader(log.metadata >> 8, log.metadata & 0xFF)[1]
    if log.type == t.BIT:
        return (log.metadata + 7) // 8
    if log.type in (t.ENUM, t.SET):
        return log.metadata
    if log.type in TEMPORAL:
        return temporal_size(log)
    sizes = {t.TINY: 1, t.YEAR: 1, t.SHORT: 2, t.INT24: 3, t.LONG: 4, t.FLOAT: 4, t.DOUBLE: 8, t.LONGLONG: 8, t.NULL: 0}
    if log.type in sizes:
        return sizes[log.type]
    message = f"Column {log.name!r} has type {log.type} in the log, which is not supported."
    raise UnsupportedType(message)


def _decimal(log: LogColumn, column: Column) -> Convert:
    precision, scale = log.metadata >> 8, log.metadata & 0xFF
    read, _ = jsonb.decimal_reader(precision, scale)

    def unscaled(data: bytes) -> int:
        try:
            return read(data)
        except ValueError:
            raise impossible(column, data) from None

    if column.type.kind is Kind.DECIMAL:
        return unscaled

    def text(data: bytes) -> bytes:
        value = unscaled(data)
        digits = str(abs(value)).rjust(scale + 1, "0")
        body = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
        return (f"-{body}" if value < 0 else body).encode()

    return text


def _bits(log: LogColumn, column: Column) -> Convert:
    most, boolean = 1 << log.metadata, column.type.kind is Kind.BOOLEAN

    def bits(data: bytes) -> bool | int:
        value = int.from_bytes(data, "big")
        if value >= most:
            raise impossible(column, data)
        return bool(value) if boolean else value

    return bits


def _labels(log: LogColumn, column: Column) -> Convert:
    if not log.labels:
        return lambda data: int.from_bytes(data, "little")
    decode = decoder(charset_name(log.charset)) if log.charset not in (None, t.BINARY_CHARSET) else decoder("utf8mb4")
    try:
        labels = [decode(label) for label in log.labels]
    except UnicodeDecodeError:
        message = f"Column {log.name} has labels that are not valid UTF-8."
        raise UnsupportedCharset(message) from None
    if log.type == t.ENUM:
        return _one_label(["", *labels], column)
    return _members(labels, column)


def _one_label(values: list[str], column: Column) -> Convert:
    def label(data: bytes) -> str:
        place = int.from_bytes(data, "little")
        if place >= len(values):
            raise impossible(column, data)
        return values[place]

    return label


def _members(labels: list[str], column: Column) -> Convert:
    def members(data: bytes) -> str:
        bits = int.from_bytes(data, "little")
        if bits >> len(labels):
            raise impossible(column, data)
        text = ""
        for place, label in enumerate(labels):
            if bits >> place & 1:
                text = f"{text},{label}" if text else label  # no comma after an empty label: Field_set::val_str
        return text

    return members


def _text(log: LogColumn, column: Column) -> Convert:
    special = _SPECIAL.get(column.source_type.split("(")[0].strip().lower())
    if special and log.type == t.STRING:
        return special
    if column.type.kind is Kind.BINARY:
        if log.type == t.STRING and log.charset == t.BINARY_CHARSET:  # the log leaves zeros at the end out
            return ZeroPadded(log.metadata)
        return same
    if log.charset is None:
        message = f"The log does not say the character set of column {column.name!r}."
        raise UnsupportedType(message)
    name = charset_name(log.charset)
    return same if is_utf8(name) or name == "binary" else decoder(name)


def same(data: bytes) -> bytes:
    """Of bytes, and of text that is UTF-8 already."""
    return data


@dataclass(frozen=True)
class ZeroPadded:
    """Of BINARY(`size`)."""

    size: int

    def __call__(self, data: bytes) -> bytes:
        return data.ljust(self.size, b"\0")


def uncompressed(data: bytes) -> bytes:
    """MariaDB's column compression (sql/field_comp.cc): one byte of method and size of the length, the length, zlib."""
    if not data:
        return data
    method = data[0] >> 4
    if method == 0:
        return data[1:]
    width = data[0] & 0x07
    if method != 8:
        message = "compressed column"
        raise IndexError(message)
    size = int.from_bytes(part(data, 1, width), "big")
    return decompressed(data[1 + width :], size, wbits=-15 if data[0] & 0x08 else 15)


def _compressed(log: LogColumn, column: Column) -> Convert:
    inner = _text(log, column)
    return lambda data: inner(uncompressed(data))


def _uuid_text(data: bytes) -> bytes:
    return str(uuid.UUID(bytes=data.ljust(16, b"\0"))).encode()


def _inet4_text(data: bytes) -> bytes:
    return ".".join(map(str, data.ljust(4, b"\0"))).encode()


def inet6_text(data: bytes) -> bytes:
    """As MariaDB's Inet6::to_string: the first longest run of zero words is left out, IPv4 tails are dotted."""
    data = data.ljust(16, b"\0")
    words = struct.unpack(">8H", data)
    start, length, at = -1, 0, 0
    while at < len(words):
        end = at
        while end < len(words) and words[end] == 0:
            end += 1
        if end - at > length:
            start, length = at, end - at
        at = max(end, at + 1)
    if start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):
        return (b"::" if length == 6 else b"::ffff:") + _inet4_text(data[12:])
    if length == 0:
        return ":".join(f"{word:x}" for word in words).encode()
    head = ":".join(f"{word:x}" for word in words[:start])
    return f"{head}::{':'.join(f'{word:x}' for word in words[start + length :])}".encode()


_SPECIAL: dict[str, Convert] = {"uuid": _uuid_text, "inet4": _inet4_text, "inet6": inet6_text}


def _unpacked(layout: str) -> Callable[[LogColumn, Column], Convert]:
    unpack = struct.Struct(layout).unpack
    return lambda *_: lambda data: unpack(data)[0]


_WAYS: dict[int, Callable[[LogColumn, Column], Convert]] = {
    **dict.fromkeys(INTEGERS, _integer),
    t.FLOAT: _unpacked("<f"),
    t.DOUBLE: _unpacked("<d"),
    t.YEAR: lambda *_: lambda data: 1900 + data[0] if data[0] else 0,
    t.NEWDECIMAL: _decimal,
    t.BIT: _bits,
    t.ENUM: _labels,
    t.SET: _labels,
    t.JSON: lambda *_: jsonb.to_text,
    t.BLOB_COMPRESSED: _compressed,
    t.VARCHAR_COMPRESSED: _compressed,
}
