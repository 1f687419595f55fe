"""Column by column: from a value's bytes in a row image to what goes into an Arrow array.

A reader is `read(body, at, append) -> place after the value`.  What it appends is turned into an array by `finish`, once per
batch: integers for decimals (unscaled), dates (days) and timestamps (microseconds since 1970), bytes for UTF-8 text.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa

from replicator.errors import UnsupportedType, ValueDoesNotFit
from replicator.model.schema import Column
from replicator.model.types import DataType, Kind
from replicator.sources.base import ReadOptions
from replicator.sources.mysql import jsonb, table_map as t
from replicator.sources.mysql.charsets import charset_name, decoder, is_utf8
from replicator.sources.mysql.table_map import LogColumn

Append = Callable[[Any], None]
Read = Callable[[bytes, int, Append], int]
Finish = Callable[[list[Any]], pa.Array]
Convert = Callable[[bytes], Any]

_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400_000_000
_INTEGERS = {t.TINY: "b", t.SHORT: "h", t.LONG: "i", t.LONGLONG: "q"}
_BLOBS = frozenset({t.BLOB, t.TINY_BLOB, t.MEDIUM_BLOB, t.LONG_BLOB, t.GEOMETRY, t.VECTOR, t.JSON, t.BLOB_COMPRESSED})
_FRACTION = {0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3}  # digits → bytes


class ColumnReader(NamedTuple):
    """How to read one column; `skip` columns are stepped over."""

    read: Read
    finish: Finish
    skip: bool = False


def column_reader(log: LogColumn, column: Column | None, options: ReadOptions) -> ColumnReader:
    """`column` None: the column is left out.  UnsupportedType, UnsupportedCharset where it cannot be read exactly."""
    if column is None:
        return ColumnReader(_raw(log, lambda data: None), lambda values: pa.nulls(len(values)), skip=True)
    finish = _finisher(column.type)
    if log.type in _TEMPORAL:
        return ColumnReader(_temporal(log, column, options), finish)
    if log.type in _INTEGERS or log.type == t.INT24:
        return ColumnReader(_integer(log, column), finish)
    if log.type in (t.FLOAT, t.DOUBLE):
        return ColumnReader(_fixed("<f" if log.type == t.FLOAT else "<d"), finish)
    if log.type == t.YEAR:
        return ColumnReader(_year, finish)
    return ColumnReader(_raw(log, _converter(log, column)), finish)


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
        return _prefixed(2 if log.metadata > 255 else 1, convert)
    size = fixed_size(log)

    def read(body: bytes, at: int, append: Append) -> int:
        append(convert(body[at : at + size]))
        return at + size

    return read


def _prefixed(width: int, convert: Convert) -> Read:
    if width == 1:

        def read_short(body: bytes, at: int, append: Append) -> int:
            end = at + 1 + body[at]
            append(convert(body[at + 1 : end]))
            return end

        return read_short

    def read(body: bytes, at: int, append: Append) -> int:
        start = at + width
        end = start + int.from_bytes(body[at:start], "little")
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
    if log.type in _TEMPORAL_BASE:
        return _TEMPORAL_BASE[log.type] + _FRACTION.get(log.metadata, 0)
    sizes = {t.TINY: 1, t.YEAR: 1, t.SHORT: 2, t.INT24: 3, t.LONG: 4, t.FLOAT: 4, t.DOUBLE: 8, t.LONGLONG: 8, t.NULL: 0}
    sizes |= {t.DATE: 3, t.NEWDATE: 3, t.TIME: 3, t.DATETIME: 8, t.TIMESTAMP: 4}
    if log.type in sizes:
        return sizes[log.type]
    message = f"Column {log.name!r} has type {log.type} in the log, which is unknown here."
    raise UnsupportedType(message)


_TEMPORAL_BASE = {t.TIME2: 3, t.DATETIME2: 5, t.TIMESTAMP2: 4}


def _converter(log: LogColumn, column: Column) -> Convert:
    if log.type == t.NEWDECIMAL:
        return _decimal(log, column)
    if log.type == t.BIT:
        return (lambda data: data[0] != 0) if column.type.kind is Kind.BOOLEAN else (lambda data: int.from_bytes(data, "big"))
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
    if column.type.kind is Kind.DECIMAL:
        return read

    def text(data: bytes) -> bytes:
        value = read(data)
        digits = str(abs(value)).rjust(scale + 1, "0")
        body = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
        return (f"-{body}" if value < 0 else body).encode()

    return text


def _labels(log: LogColumn, column: Column) -> Convert:
    if not log.labels:
        return lambda data: int.from_bytes(data, "little")
    decode = decoder(charset_name(log.charset)) if log.charset not in (None, t.BINARY_CHARSET) else decoder("utf8mb4")
    labels = [decode(label) for label in log.labels]
    if log.type == t.ENUM:
        values = ["", *labels]
        return lambda data: values[int.from_bytes(data, "little")]
    known: dict[bytes, str] = {}

    def members(data: bytes) -> str:
        text = known.get(data)
        if text is None:
            bits = int.from_bytes(data, "little")
            text = known[data] = ",".join(label for place, label in enumerate(labels) if bits >> place & 1)
            if bits >> len(labels) or len(known) > 10_000:
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
    size = int.from_bytes(data[1 : 1 + width], "big")
    result = zlib.decompress(data[1 + width :], wbits=-15 if data[0] & 0x08 else 15, bufsize=max(size, 1))
    if method != 8 or len(result) != size:  # noqa: PLR2004 - zlib is the one method that exists
        message = "compressed column"
        raise IndexError(message)
    return result


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
    if start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):  # noqa: PLR2004
        return (b"::" if length == 6 else b"::ffff:") + _inet4_text(data[12:])  # noqa: PLR2004
    if length == 0:
        return ":".join(f"{word:x}" for word in words).encode()
    head = ":".join(f"{word:x}" for word in words[:start])
    return f"{head}::{':'.join(f'{word:x}' for word in words[start + length :])}".encode()


_SPECIAL: dict[str, Convert] = {"uuid": _uuid_text, "inet4": _inet4_text, "inet6": inet6_text}


_Moment = Callable[[str], Any]


def _zero_policy(column: Column, options: ReadOptions) -> _Moment:
    """What a date that does not exist becomes."""
    if column.type.kind is Kind.STRING:
        return lambda text: text
    if options.zero_dates == "fail" or not column.nullable:

        def fail(text: str) -> None:
            message = f"Column {column.name!r} holds {text!r}, which is no date."
            raise ValueDoesNotFit(message, remedy="Choose another policy for zero dates, or correct the rows.")

        return fail
    return lambda text: None


def _temporal(log: LogColumn, column: Column, options: ReadOptions) -> Read:
    digits = log.metadata if log.type in _TEMPORAL_BASE else 0
    size = fixed_size(log)
    convert = _TEMPORAL[log.type](digits, column.type.kind is Kind.STRING, _zero_policy(column, options))
    order = "big" if log.type in _TEMPORAL_BASE else "little"

    def read(body: bytes, at: int, append: Append) -> int:
        end = at + size
        append(convert(int.from_bytes(body[at:end], order)))  # type: ignore[arg-type]
        return end

    return read


def _fraction_text(micros: int, digits: int) -> str:
    return f".{micros:06}"[: digits + 1] if digits else ""


def _scale(digits: int) -> int:
    """Microseconds that one unit of the stored fraction is."""
    return int(10 ** (6 - 2 * _FRACTION[digits]))


_days: dict[tuple[int, int, int], int | None] = {}


def _day_number(year: int, month: int, day: int) -> int | None:
    """Days since 1970; None for a date that does not exist."""
    key = (year, month, day)
    if key not in _days:
        if len(_days) > 100_000:  # noqa: PLR2004 - some centuries
            _days.clear()
        try:
            _days[key] = date(year, month, day).toordinal() - _EPOCH
        except ValueError:
            _days[key] = None
    return _days[key]


_Temporal = Callable[[int], Any]


def _date(_digits: int, as_text: bool, zero: _Moment) -> _Temporal:
    def convert(packed: int) -> Any:  # noqa: ANN401
        year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
        number = _day_number(year, month, day)
        if number is None or as_text:
            text = f"{year:04}-{month:02}-{day:02}"
            return text if as_text else zero(text)
        return number

    return convert


def _moment(digits: int, as_text: bool, zero: _Moment) -> Callable[..., Any]:
    def build(year: int, month: int, day: int, hour: int, minute: int, second: int, micros: int) -> Any:  # noqa: ANN401
        number = _day_number(year, month, day)
        if number is None or as_text:
            clock = f"{hour:02}:{minute:02}:{second:02}{_fraction_text(micros, digits)}"
            text = f"{year:04}-{month:02}-{day:02} {clock}"
            return text if as_text else zero(text)
        return number * _DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + micros

    return build


def _datetime(digits: int, as_text: bool, zero: _Moment) -> _Temporal:
    build = _moment(digits, as_text, zero)

    def convert(packed: int) -> Any:  # noqa: ANN401
        days, clock = divmod(packed, 1_000_000)
        return build(days // 10000, days // 100 % 100, days % 100, clock // 10000, clock // 100 % 100, clock % 100, 0)

    return convert


def _datetime2(digits: int, as_text: bool, zero: _Moment) -> _Temporal:
    build, bits, scale = _moment(digits, as_text, zero), 8 * _FRACTION[digits], _scale(digits)
    offset, mask = 0x8000000000 << bits, (1 << bits) - 1

    def convert(packed: int) -> Any:  # noqa: ANN401
        packed -= offset
        whole, micros = packed >> bits, (packed & mask) * scale
        year, month = divmod(whole >> 22, 13)
        return build(year, month, whole >> 17 & 31, whole >> 12 & 31, whole >> 6 & 63, whole & 63, micros)

    return convert


def _timestamp(digits: int, as_text: bool, zero: _Moment) -> _Temporal:
    bits, scale = 8 * _FRACTION[digits], _scale(digits)
    mask = (1 << bits) - 1

    def convert(packed: int) -> Any:  # noqa: ANN401
        seconds, micros = packed >> bits, (packed & mask) * scale
        if packed == 0:
            return zero(f"0000-00-00 00:00:00{_fraction_text(0, digits)}")
        if as_text:
            day, clock = date.fromordinal(_EPOCH + seconds // 86400), seconds % 86400
            hms = f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
            return f"{day.isoformat()} {hms}{_fraction_text(micros, digits)}"
        return seconds * 1_000_000 + micros

    return convert


def _time(_digits: int, _as_text: bool, _zero: _Moment) -> _Temporal:
    def convert(packed: int) -> str:
        value = packed - (1 << 24) if packed >= 1 << 23 else packed
        clock = abs(value)
        return f"{'-' if value < 0 else ''}{clock // 10000:02}:{clock // 100 % 100:02}:{clock % 100:02}"

    return convert


def _time2(digits: int, _as_text: bool, _zero: _Moment) -> _Temporal:
    bits, scale = 8 * _FRACTION[digits], _scale(digits)
    offset, mask = 0x800000 << bits, (1 << bits) - 1

    def convert(packed: int) -> str:
        value = packed - offset
        sign, value = ("-", -value) if value < 0 else ("", value)
        whole, micros = value >> bits, (value & mask) * scale
        clock = f"{whole >> 12 & 1023:02}:{whole >> 6 & 63:02}:{whole & 63:02}"
        return f"{sign}{clock}{_fraction_text(micros, digits)}"

    return convert


_TEMPORAL: dict[int, Callable[[int, bool, _Moment], _Temporal]] = {
    t.DATE: _date, t.NEWDATE: _date, t.TIME: _time, t.TIME2: _time2, t.DATETIME: _datetime, t.DATETIME2: _datetime2,
    t.TIMESTAMP: _timestamp, t.TIMESTAMP2: _timestamp,
}  # fmt: skip


def _finisher(kind: DataType) -> Finish:
    arrow = kind.arrow
    if kind.kind is Kind.DECIMAL:
        return lambda values: decimal_array(values, arrow)
    if kind.kind is Kind.DATE:
        return lambda values: pa.array(values, pa.int32()).view(arrow)
    if kind.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        return lambda values: pa.array(values, pa.int64()).view(arrow)
    return lambda values: pa.array(values, arrow)


def decimal_array(values: list[int | None], arrow: pa.DataType) -> pa.Array:
    """Unscaled integers as a decimal128 array."""
    data = b"".join([(value or 0).to_bytes(16, "little", signed=True) for value in values])
    validity = None
    if None in values:
        validity = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(arrow, len(values), [validity, pa.py_buffer(data)])
