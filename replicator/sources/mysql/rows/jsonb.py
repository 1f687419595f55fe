"""MySQL's binary JSON, and the text that the server prints for it.

Sources: MySQL's sql-common/json_binary.h (format), json_dom.cc (text), my_gcvt in strings/dtoa.cc (doubles),
json_diff.h (partial updates).
"""

# ruff: noqa: PLR2004 - sizes of the format, which the sources above define

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from replicator.sources.mysql.rows.incomplete import incomplete
from replicator.sources.mysql.wire.bounded_slices import part
from replicator.sources.mysql.wire.events import length_encoded

# Value types.
_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = (*range(5, 13), 15)
_LITERALS = {0: None, 1: True, 2: False}
_NUMBERS = {_INT16: "<h", _UINT16: "<H", _INT32: "<i", _UINT32: "<I", _INT64: "<q", _UINT64: "<Q", _DOUBLE: "<d"}
_REPLACE, _INSERT, _REMOVE = range(3)
_MYSQL_DATE, _MYSQL_TIME, _MYSQL_DATETIME, _MYSQL_TIMESTAMP, _MYSQL_DECIMAL, _MYSQL_VAR_STRING = 10, 11, 12, 7, 246, 253
_BASE64_LINE = 76
_DEEPEST = 100  # JSON_DOCUMENT_MAX_DEPTH
_MAX_DIGITS = 65

# A decoded document: dict, list, str, bool, int, float, None, Decimal, and `Scalar` for text that is final already.


class Scalar(str):
    """JSON text of a value that JSON itself does not know (a date, bytes)."""

    __slots__ = ()


def to_text(data: bytes) -> str:
    """The text of a JSON column's value as SELECT gives it."""
    return render(parse(data))


def parse(data: bytes) -> Any:
    """A document; LookupError, ValueError or struct.error where the bytes are none.

    No bytes mean `null`, as in the server.
    """
    return _Document(data).value(data[0], 1) if data else None


class _Document:
    """The bytes of one.

    Values refer to places: made to share one, or to hold itself, a document would grow without end.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = len(data)

    def value(self, kind: int, at: int, depth: int = 1) -> Any:
        """The value of type `kind` at `at`."""
        data = self._data
        if kind <= _LARGE_ARRAY:
            return self._container(kind, at, depth)
        self._spend(1)
        if kind == _LITERAL:
            return _LITERALS[data[at]]
        if kind in _NUMBERS:
            return struct.unpack_from(_NUMBERS[kind], data, at)[0]
        if kind == _STRING:
            size, at = _variable_length(data, at)
            return self._text(at, size)
        if kind == _OPAQUE:
            size, start = _variable_length(data, at + 1)
            self._spend(size)
            return _opaque(data[at], part(data, start, size))
        message = f"JSON value of type {kind}"
        raise IndexError(message)

    def _text(self, at: int, size: int) -> str:
        self._spend(size)
        return part(self._data, at, size).decode("utf-8")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            message = "JSON values that share bytes"
            raise IndexError(message)

    def _container(self, kind: int, start: int, depth: int) -> Any:
        data, width = self._data, 4 if kind in (_LARGE_OBJECT, _LARGE_ARRAY) else 2
        count = int.from_bytes(part(data, start, width), "little")
        self._spend(count + 1)
        if depth > _DEEPEST:
            message = "a JSON document's depth"
            raise IndexError(message)
        part(data, start, int.from_bytes(part(data, start + width, width), "little"))
        at, keys = start + 2 * width, []
        if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
            for place in range(at, at + count * (width + 2), width + 2):
                offset = start + int.from_bytes(part(data, place, width), "little")
                keys.append(self._text(offset, int.from_bytes(part(data, place + width, 2), "little")))
            at += count * (width + 2)
            if len(set(keys)) != count:
                message = "a JSON key that comes twice"
                raise IndexError(message)
        values = []
        for place in range(at, at + count * (1 + width), 1 + width):
            inner = data[place]
            inlined = inner in (_LITERAL, _INT16, _UINT16) or (width == 4 and inner in (_INT32, _UINT32))
            offset = place + 1 if inlined else start + int.from_bytes(part(data, place + 1, width), "little")
            values.append(self.value(inner, offset, depth + 1))
        return dict(zip(keys, values, strict=True)) if kind in (_SMALL_OBJECT, _LARGE_OBJECT) else values


def _variable_length(data: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        octet = data[at]
        size |= (octet & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not octet & 0x80:
            return size, at


def _opaque(kind: int, data: bytes) -> Any:
    if kind == _MYSQL_DECIMAL:
        return decimal_from(data[2:], data[0], data[1])
    if kind in (_MYSQL_DATE, _MYSQL_DATETIME, _MYSQL_TIMESTAMP, _MYSQL_TIME) and len(data) == 8:
        return Scalar(f'"{_temporal(kind, int.from_bytes(data, "little", signed=True))}"')
    if kind == _MYSQL_VAR_STRING:
        return data.decode("utf-8")
    encoded = base64.b64encode(data).decode("ascii")
    lines = "\n".join(encoded[i : i + _BASE64_LINE] for i in range(0, len(encoded), _BASE64_LINE))
    return Scalar(_quote(f"base64:type{kind}:{lines}"))


def _temporal(kind: int, packed: int) -> str:
    sign, packed = ("-" if packed < 0 else ""), abs(packed)
    micros, whole = packed & 0xFFFFFF, packed >> 24
    hour, minute, second = (whole >> 12) & (1023 if kind == _MYSQL_TIME else 31), (whole >> 6) & 63, whole & 63
    if micros > 999_999 or second > 59 or minute > 59 or hour > (838 if kind == _MYSQL_TIME else 23):
        message = "a time in a JSON document"
        raise ValueError(message)
    clock = f"{minute:02}:{second:02}.{micros:06}"
    if kind == _MYSQL_TIME:
        return f"{sign}{hour:02}:{clock}"
    month = (whole >> 22) % 13
    date = f"{(whole >> 22) // 13:04}-{month:02}-{(whole >> 17) & 31:02}"
    return date if kind == _MYSQL_DATE else f"{date} {hour:02}:{clock}"


def decimal_from(data: bytes, precision: int, scale: int) -> Decimal:
    """A decimal in MySQL's binary form; keeps its scale."""
    reader, size = decimal_reader(precision, scale)
    if len(data) != size:
        message = "the size of a decimal"
        raise ValueError(message)
    sign, digits = (1 if (value := reader(data)) < 0 else 0), str(abs(value))
    return Decimal((sign, tuple(map(int, digits)), -scale))


_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_reader(precision: int, scale: int) -> tuple[Callable[[bytes], int], int]:
    """Return a function from a decimal's bytes to its unscaled value, and their number (MySQL's strings/decimal.c).

    The function raises ValueError for bytes that are not a decimal: a group whose value has more digits than the group.
    """
    if not (0 < precision <= _MAX_DIGITS and scale <= precision):
        message = f"decimal({precision},{scale})"
        raise ValueError(message)
    whole, sizes = precision - scale, []
    if whole % 9:
        sizes.append((_DIGIT_BYTES[whole % 9], whole % 9))
    sizes += [(4, 9)] * (whole // 9 + scale // 9)
    if scale % 9:
        sizes.append((_DIGIT_BYTES[scale % 9], scale % 9))
    total = sum(size for size, _ in sizes)
    groups, bits, digits = [], total * 8, precision
    for size, width in sizes:
        bits, digits = bits - size * 8, digits - width
        groups.append((bits, (1 << size * 8) - 1, 10**digits, 10**width))
    top, ones = 1 << (total * 8 - 1), (1 << total * 8) - 1

    def read(data: bytes) -> int:
        packed = int.from_bytes(data, "big") ^ top
        negative = packed & top
        if negative:
            packed ^= ones
        value = 0
        for shift, mask, weight, limit in groups:
            group = packed >> shift & mask
            if group >= limit:
                raise ValueError
            value += group * weight
        return -value if negative else value

    return read, total


_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)} | {
    ord("\b"): "\\b", ord("\t"): "\\t", ord("\n"): "\\n", ord("\f"): "\\f", ord("\r"): "\\r", ord('"'): '\\"',
    ord("\\"): "\\\\",
}  # fmt: skip


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def render(value: Any) -> str:  # noqa: PLR0911 - one for each kind of value
    """A parsed document as text."""
    if isinstance(value, Scalar):
        return str(value)
    if isinstance(value, str):
        return _quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return double_text(value, document=True)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quote(key)}: {render(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(render, value)) + "]"
    if isinstance(value, Decimal):
        return f"{value:f}" if value else f"{abs(value):f}"
    return str(value)


_MAX_POINT = 15  # DBL_DIG: beyond it the server writes an exponent


def double_text(value: float, *, document: bool = False) -> str:
    """A double as the server prints it; `document`: inside JSON, where a whole number gets `.0`.

    ValueError for no number.
    """
    if not math.isfinite(value):
        message = f"{value} in a JSON document"
        raise ValueError(message)
    _, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + int(exponent) if any(digits) else 1
    sign = "-" if str(value).startswith("-") else ""
    if point < -_MAX_POINT + 1 or (point > _MAX_POINT and len(text) <= point):
        mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
        return f"{sign}{mantissa}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{text}"
    if len(text) > point:
        return f"{sign}{text[:point]}.{text[point:]}"
    return f"{sign}{text}{'0' * (point - len(text))}{'.0' if document else ''}"


def apply_diffs(before: bytes, diffs: bytes) -> str:
    """The text of the document that a partial update makes of `before`; RowImageIncomplete where a path does not
    fit.
    """
    document, at = parse(before), 0
    while at < len(diffs):
        operation = diffs[at]
        size, at = length_encoded(diffs, at + 1)
        path, at = part(diffs, at, size).decode("utf-8"), at + size
        value = None
        if operation != _REMOVE:
            size, at = length_encoded(diffs, at)
            value, at = parse(part(diffs, at, size)), at + size
        document = _apply(document, operation, _legs(path), value)
    return render(document)


_LEG = re.compile(r'\[(\d+)\]|\.("(?:[^"\\]|\\.)*"|[^.\[\s"]+)')


def _legs(path: str) -> list[str | int]:
    legs: list[str | int] = []
    at = 1
    while at < len(path) or not path:
        match = _LEG.match(path, at)
        try:
            if not match or path[0] != "$":
                raise ValueError  # noqa: TRY301 - the same answer as for a key that is not JSON
            text = match[2]
            legs.append(int(match[1]) if text is None else json.loads(text, strict=False) if text[0] == '"' else text)
        except ValueError:
            message = f"A partial JSON update has the path {path!r}, which cannot be applied."
            raise incomplete(message) from None
        at = match.end()
    return legs


def _apply(document: Any, operation: int, legs: list[str | int], value: Any) -> Any:
    if not legs:
        return value
    try:
        parent = document
        for leg in legs[:-1]:
            parent = parent[leg]
        last = legs[-1]
        if isinstance(parent, list) and isinstance(last, int):
            _change_list(parent, operation, last, value)
        elif not isinstance(parent, dict) or not isinstance(last, str) or operation > _REMOVE:
            raise TypeError  # noqa: TRY301 - as where Python finds it itself
        elif operation == _REMOVE:
            del parent[last]
        else:
            if operation == _REPLACE:
                parent[last]
            parent[last] = value
            ordered = sorted(parent.items(), key=lambda item: (len(item[0].encode()), item[0].encode()))
            parent.clear()
            parent.update(ordered)
    except (KeyError, IndexError, TypeError) as error:
        message = "A partial JSON update does not fit the row's earlier value."
        raise incomplete(message) from error
    return document


def _change_list(items: list[Any], operation: int, index: int, value: Any) -> None:
    if operation == _REMOVE:
        del items[index]
    elif operation == _INSERT and index <= len(items):
        items.insert(index, value)
    elif operation == _REPLACE:
        items[index] = value
    else:
        raise IndexError
