"""Parameters of remote procedure calls: to a type of `ss` and Postgres' text ([MS-TDS] 2.2.6.6)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from testing.servers.sqlserver.wire.types import COLLATION, TICKS_PER_DAY

PROCEDURES = {
    1: "sp_cursor", 2: "sp_cursoropen", 3: "sp_cursorprepare", 4: "sp_cursorexecute", 5: "sp_cursorprepexec",
    6: "sp_cursorunprepare", 7: "sp_cursorfetch", 8: "sp_cursoroption", 9: "sp_cursorclose", 10: "sp_executesql",
    11: "sp_prepare", 12: "sp_execute", 13: "sp_prepexec", 14: "sp_prepexecrpc", 15: "sp_unprepare",
}  # fmt: skip
BY_REFERENCE = 1
_SEPARATORS = (0x80, 0xFF)


@dataclass(frozen=True)
class Value:
    """`type`: as Postgres spells it.  `text`: Postgres' text form, None for NULL."""

    type: str
    text: str | None


@dataclass(frozen=True)
class Parameter:
    name: str
    output: bool
    value: Value


@dataclass(frozen=True)
class Call:
    procedure: str
    parameters: tuple[Parameter, ...]


class UnknownType(ValueError):
    """A parameter's type that is not spoken here."""


def calls(payload: bytes) -> Iterator[Call]:
    """Of an RPC message, after its headers."""
    reader = _Reader(payload)
    while reader.at < len(payload):
        length = reader.number("<H")
        name = PROCEDURES[reader.number("<H")] if length == 0xFFFF else reader.text(length)
        reader.number("<H")
        found = []
        while reader.at < len(payload) and payload[reader.at] not in _SEPARATORS:
            parameter = reader.text(reader.number("<B"))
            flags = reader.number("<B")
            found.append(Parameter(parameter, bool(flags & BY_REFERENCE), reader.value()))
        reader.at += 1
        yield Call(name, tuple(found))


class _Reader:
    def __init__(self, payload: bytes) -> None:
        self.payload, self.at = payload, 0

    def number(self, form: str) -> int:
        (found,) = struct.unpack_from(form, self.payload, self.at)
        self.at += struct.calcsize(form)
        return int(found)

    def raw(self, size: int) -> bytes:
        found = self.payload[self.at : self.at + size]
        if len(found) != size:
            raise UnknownType("a parameter ends too early")
        self.at += size
        return found

    def text(self, characters: int) -> str:
        return self.raw(characters * 2).decode("utf-16-le")

    def value(self) -> Value:
        token = self.number("<B")
        if token in _FIXED:
            kind, size = _FIXED[token]
            return _number(kind, self.raw(size))
        if token in _BY_LENGTH:
            size, length = self.number("<B"), self.number("<B")
            return _number(_BY_LENGTH[token][size], self.raw(length))
        if token in (0x6A, 0x6C, 0x37, 0x3F):
            self.number("<B")
            precision, scale = self.number("<B"), self.number("<B")
            return _decimal(precision, scale, self.raw(self.number("<B")))
        if token in (0x28, 0x29, 0x2A, 0x2B):
            scale = 7 if token == 0x28 else self.number("<B")
            return _moment(token, scale, self.raw(self.number("<B")))
        if token in (0xA5, 0xAD, 0xA7, 0xAF, 0xE7, 0xEF):
            return self._characters(token)
        if token in (0x23, 0x63, 0x22):
            return self._old_lob(token)
        if token == 0xF1:
            if self.number("<B"):
                raise UnknownType("XML with a schema")
            found = self._pieces()
            return Value("ss.xml", None if found is None else found.decode("utf-16"))
        raise UnknownType(f"type 0x{token:02X}")

    def _characters(self, token: int) -> Value:
        size = self.number("<H")
        collation = b"" if token in (0xA5, 0xAD) else self.raw(5)
        raw: bytes | None
        if size == 0xFFFF:
            raw, declared = self._pieces(), ""
        else:
            length = self.number("<H")
            raw = None if length == 0xFFFF else self.raw(length)
            declared = f"({max(1, size // 2 if token in (0xE7, 0xEF) else size)})"
        kind = _CHARACTERS[token]
        return Value(f"ss.{kind}{declared}", None if raw is None else _decoded(token, raw, collation))

    def _old_lob(self, token: int) -> Value:
        self.number("<I")
        collation = b"" if token == 0x22 else self.raw(5)
        length = self.number("<i")
        kind, alike = {0x23: ("text", 0xA7), 0x63: ("ntext", 0xE7), 0x22: ("image", 0xA5)}[token]
        return Value(f"ss.{kind}", None if length < 0 else _decoded(alike, self.raw(length), collation))

    def _pieces(self) -> bytes | None:
        if self.number("<Q") == 0xFFFFFFFFFFFFFFFF:
            return None
        found = bytearray()
        while length := self.number("<I"):
            found += self.raw(length)
        return bytes(found)


def _decoded(token: int, raw: bytes, collation: bytes) -> str:
    if token in (0xA5, 0xAD):
        return "\\x" + raw.hex()
    if token in (0xE7, 0xEF):
        return raw.decode("utf-16-le")
    return raw.decode(
        "cp1252" if not collation or not collation[3] & 0x04 or collation == COLLATION else "utf-8", "replace"
    )


def _number(kind: str, raw: bytes) -> Value:
    if not raw:
        return Value(kind, None)
    if kind in ("float4", "float8"):
        (number,) = struct.unpack("<f" if kind == "float4" else "<d", raw)
        return Value(kind, repr(number))
    if kind == "ss.money":
        return Value(
            kind, str(Decimal((struct.unpack("<i", raw[:4])[0] << 32) | struct.unpack("<I", raw[4:])[0]) / 10000)
        )
    if kind == "ss.smallmoney":
        return Value(kind, str(Decimal(struct.unpack("<i", raw)[0]) / 10000))
    if kind == "ss.datetime":
        days, rest = struct.unpack("<iI", raw)
        return Value(kind, str(days * 25_920_000 + rest))
    if kind == "ss.smalldatetime":
        days, rest = struct.unpack("<HH", raw)
        return Value(kind, str(days * 1440 + rest))
    if kind == "ss.uniqueidentifier":
        return Value(kind, (raw[10:16] + raw[8:10] + raw[6:8] + raw[4:6] + raw[0:4]).hex())
    if kind == "ss.tinyint":
        return Value(kind, str(raw[0]))
    return Value(kind, str(int.from_bytes(raw, "little", signed=True) if kind != "ss.bit" else int(raw[0] != 0)))


def _decimal(precision: int, scale: int, raw: bytes) -> Value:
    kind = f"numeric({precision},{scale})"
    if not raw:
        return Value(kind, None)
    number = int.from_bytes(raw[1:], "little") * (1 if raw[0] else -1)
    return Value(kind, str(Decimal(number).scaleb(-scale, None)) if abs(number) < 10**27 else _spelled(number, scale))


def _spelled(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    return (
        ("-" if number < 0 else "")
        + digits[: len(digits) - scale]
        + ("." + digits[len(digits) - scale :] if scale else "")
    )


def _moment(token: int, scale: int, raw: bytes) -> Value:
    kind = {0x28: "date", 0x29: "ss.time", 0x2A: "ss.datetime2", 0x2B: "ss.datetimeoffset"}[token]
    declared = kind if token == 0x28 else f"{kind}({scale + 1})"
    if not raw:
        return Value(declared, None)
    if token == 0x28:
        return Value("ss.datetime2", str(int.from_bytes(raw, "little") * TICKS_PER_DAY))
    unit = 10 ** (7 - scale)
    if token == 0x29:
        return Value(declared, str(int.from_bytes(raw, "little") * unit))
    end = len(raw) - (3 if token == 0x2A else 5)
    ticks = int.from_bytes(raw[end : end + 3], "little") * TICKS_PER_DAY + int.from_bytes(raw[:end], "little") * unit
    if token == 0x2A:
        return Value(declared, str(ticks))
    return Value(declared, "\\x" + ticks.to_bytes(8, "big").hex() + raw[end + 3 : end + 5][::-1].hex())


_FIXED = {
    0x30: ("ss.tinyint", 1), 0x32: ("ss.bit", 1), 0x34: ("int2", 2), 0x38: ("int4", 4), 0x7F: ("int8", 8),
    0x3A: ("ss.smalldatetime", 4), 0x3B: ("float4", 4), 0x3C: ("ss.money", 8), 0x3D: ("ss.datetime", 8),
    0x3E: ("float8", 8), 0x7A: ("ss.smallmoney", 4),
}  # fmt: skip
_BY_LENGTH = {
    0x26: {1: "ss.tinyint", 2: "int2", 4: "int4", 8: "int8"}, 0x68: {1: "ss.bit"}, 0x6D: {4: "float4", 8: "float8"},
    0x6E: {4: "ss.smallmoney", 8: "ss.money"}, 0x6F: {4: "ss.smalldatetime", 8: "ss.datetime"},
    0x24: {16: "ss.uniqueidentifier"},
}  # fmt: skip
_CHARACTERS = {0xA5: "varbinary", 0xAD: "binary", 0xA7: "varchar", 0xAF: '"char"', 0xE7: "nvarchar", 0xEF: "nchar"}
