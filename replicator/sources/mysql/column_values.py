"""Column by column: from a value's bytes in a row image to what goes into an Arrow array.

A reader is `read(body, at, append) -> place after the value`.  What it appends is turned into an array by `finish`, once per
batch: integers for decimals (unscaled), dates (days) and timestamps (microseconds since 1970), bytes for UTF-8 text.
"""

# ruff: noqa: PLR2004 - sizes and codes of the wire format, which the sources above define

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from replicator.errors import UnsupportedCharset, UnsupportedType, ValueDoesNotFit
from replicator.model.schema import Column
from replicator.model.types import DataType, Kind
from replicator.sources.base import ReadOptions
from replicator.sources.mysql import jsonb
from replicator.sources.mysql import table_map as t
from replicator.sources.mysql.charsets import charset_name, decoder, is_utf8
from replicator.sources.mysql.pieces import decompressed, part
from replicator.sources.mysql.table_map import LogColumn
from replicator.sources.mysql.temporal_values import (
    NO_DATE,
    TEMPORAL,
    Append,
    Read,
    impossible,
    temporal_reader,
    temporal_size,
)
from replicator.sources.mysql.types import UNICODE_REMEDY

Finish = Callable[[list[Any]], pa.Array]
Convert = Callable[[bytes], Any]

_INTEGERS = {t.TINY: "b", t.SHORT: "h", t.LONG: "i", t.LONGLONG: "q"}
_TOO_LONG = "a value that is longer than its column or its event"
_BLOBS = frozenset({t.BLOB, t.TINY_BLOB, t.MEDIUM_BLOB, t.LONG_BLOB, t.GEOMETRY, t.VECTOR, t.JSON, t.BLOB_COMPRESSED})


class ColumnReader(NamedTuple):
    """How to read one column; `skip` columns are stepped over."""

    read: Read
    finish: Finish
    skip: bool = False
    dated: bool = False  # may give NO_DATE


def column_reader(log: LogColumn, column: Column | None, options: ReadOptions) -> ColumnReader:
    """`column` None: the column is left out.  UnsupportedType, UnsupportedCharset where it cannot be read exactly."""
    if column is None:
        return ColumnReader(_raw(log, lambda _: None), lambda values: pa.nulls(len(values)), skip=True)
    finish = _finisher(column.type) if column.type.kind is not Kind.STRING else _texts(column)
    if log.type in TEMPORAL:
        return ColumnReader(temporal_reader(log, column, options), _dated(finish), dated=True)
    if log.type in _INTEGERS or log.type == t.INT24:
        return ColumnReader(_integer(log, column), finish)
    if log.type in (t.FLOAT, t.DOUBLE):
        return ColumnReader(_fixed("<f" if log.type == t.FLOAT else "<d"), finish)
    if log.type == t.YEAR:
        return ColumnReader(_year, finish)
    return ColumnReader(_raw(log, _converter(log, column)), finish)


def _dated(finish: Finish) -> Finish:
    def finished(values: list[Any]) -> pa.Array:
        return finish([None if value is NO_DATE else value for value in values] if NO_DATE in values else values)

    return finished


def _integer(log: LogColumn, column: Column) -> Read:
    if log.type == t.INT24:
        return _int24(signed=not log.unsigned)
    code = _INTEGERS[log.type]
    read = _fixed("<" + (code.upper() if log.unsigned else code))
    if column.type.kind is Kind.BOOLEAN:
        return _mapped(read, bool)
    return read


def _mapped(read: Read, change: Callable[[Any], Any]) -> Read:
    def mapped(body: bytes, at: int, append: Append) -> int:
        return read(body, at, lambda value: append(change(value)))

    return mapped


def _fixed(layout: str) -> Read:
    unpack, size = struct.Struct(layout).unpack_from, struct.calcsize(layout)

    def read(body: bytes, at: int, append: Append) -> int:
        append(unpack(body, at)[0])
        return at + size

    return read


def _int24(*, signed: bool) -> Read:
    def read(body: bytes, at: int, append: Append) -> int:
        append(int.from_bytes(body[at : at + 3], "little", signed=signed))
        return at + 3

    return read


def _year(body: bytes, at: int, append: Append) -> int:
    value = body[at]
    append(1900 + value if value else 0)
    return at + 1


def _raw(log: LogColumn, convert: Convert) -> Read:
    """Bytes of a value, then `convert`.  Sizes: MySQL's Field::pack of each type."""
    if log.type in _BLOBS:
        return _prefixed(log.metadata, convert)
    if log.type in (t.VARCHAR, t.VARCHAR_COMPRESSED, t.VAR_STRING, t.STRING):
        most = None if log.type == t.VARCHAR_COMPRESSED else log.metadata
        return _prefixed(2 if log.metadata > 255 else 1, convert, most)
    size = fixed_size(log)

    def read(body: bytes, at: int, append: Append) -> int:
        append(convert(body[at : at + size]))
        return at + size

    return read


def _prefixed(width: int, convert: Convert, most: int | None = None) -> Read:
    """`most`: bytes that the column can hold."""
    limit = (1 << 8 * width) - 1 if most is None else most

    if width == 1:

        def read_short(body: bytes, at: int, append: Append) -> int:
            size = body[at]
            if size > limit:
                raise IndexError(_TOO_LONG)
            end = at + 1 + size
            append(convert(body[at + 1 : end]))
            return end

        return read_short

    def read(body: bytes, at: int, append: Append) -> int:
        start = at + width
        size = int.from_bytes(body[at:start], "little")
        if size > limit:
            raise IndexError(_TOO_LONG)
        end = start + size
        if end > len(body):
            raise IndexError(_TOO_LONG)
        append(convert(body[start:end]))
        return end

    return read


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
    message = f"Column {log.name!r} has type {log.type} in the log, which is unknown here."
    raise UnsupportedType(message)


def _converter(log: LogColumn, column: Column) -> Convert:
    if log.type == t.NEWDECIMAL:
        return _decimal(log, column)
    if log.type == t.BIT:
        return _bits(log, column)
    if log.type in (t.ENUM, t.SET):
        return _labels(log, column)
    if log.type == t.JSON:
        return jsonb.to_text
    if log.type in (t.BLOB_COMPRESSED, t.VARCHAR_COMPRESSED):
        inner = _text(log, column)
        return lambda data: inner(uncompressed(data))
    return _text(log, column)


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
        message = f"Column {log.name} has labels that are no valid UTF-8."
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
    known: dict[bytes, str] = {}

    def members(data: bytes) -> str:
        text = known.get(data)
        if text is None:
            bits = int.from_bytes(data, "little")
            if bits >> len(labels):
                raise impossible(column, data)
            text = ""
            for place, label in enumerate(labels):
                if bits >> place & 1:
                    text = f"{text},{label}" if text else label  # no comma after an empty label: Field_set::val_str
            known[data] = text
            if len(known) > 10_000:
                known.clear()
        return text

    return members


def _text(log: LogColumn, column: Column) -> Convert:
    special = _SPECIAL.get(column.source_type.split("(")[0].strip().lower())
    if special and log.type == t.STRING:
        return special
    if column.type.kind is Kind.BINARY:
        if log.type == t.STRING and log.charset == t.BINARY_CHARSET:  # the log leaves zeros at the end out
            size = log.metadata
            return lambda data: data.ljust(size, b"\0")
        return _same
    if log.charset is None:
        message = f"The log does not say the character set of column {column.name!r}."
        raise UnsupportedType(message)
    name = charset_name(log.charset)
    return _same if is_utf8(name) or name == "binary" else decoder(name)


def _same(data: bytes) -> bytes:
    return data


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


def _finisher(kind: DataType) -> Finish:
    arrow = kind.arrow
    if kind.kind is Kind.DECIMAL:
        return lambda values: decimal_array(values, arrow)
    if kind.kind is Kind.DATE:
        return lambda values: pa.array(values, pa.int32()).view(arrow)
    if kind.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        return lambda values: pa.array(values, pa.int64()).view(arrow)
    return lambda values: pa.array(values, arrow)


def _texts(column: Column) -> Finish:
    def finish(values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, pa.string())  # holds bytes against UTF-8
        except (pa.ArrowInvalid, UnicodeEncodeError):
            message = f"Column {column.name} ({column.source_type}) holds text that is no valid Unicode."
            raise ValueDoesNotFit(message, remedy=UNICODE_REMEDY) from None

    return finish


def decimal_array(values: list[int | None], arrow: pa.DataType) -> pa.Array:
    """Unscaled integers as a decimal128 array."""
    data = b"".join([(value or 0).to_bytes(16, "little", signed=True) for value in values])
    validity = None
    if None in values:
        validity = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(arrow, len(values), [validity, pa.py_buffer(data)])
