"""TYPE_INFO and values of result columns, from Postgres' binary form ([MS-TDS] 2.2.5.4, 2.2.5.5)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

Encode = Callable[[bytes | None], bytes]
UTF8 = b"\x09\x04\xd0\x04\x34"  # with fUTF8
COLLATION = b"\x09\x04\xd0\x00\x34"  # SQL_Latin1_General_CP1_CI_AS
CODE_PAGES = {"utf-8": UTF8, "cp1252": COLLATION, "cp1251": b"\x19\x04\xd0\x00\x00", "cp932": b"\x11\x04\xd0\x00\x00"}
MAX_CHARS, MAX_BYTES = 4000, 8000
TICKS_PER_DAY = 864_000_000_000
_NULL_SHORT, _NULL_LONG = b"\xff\xff", b"\xff" * 8
_UDT = {"hierarchyid": ("hierarchyid", 892), "geography": ("geography", -1), "geometry": ("geometry", -1)}
_UDT_CLASS = {
    "hierarchyid": "Microsoft.SqlServer.Types.SqlHierarchyId", "geography": "Microsoft.SqlServer.Types.SqlGeography",
    "geometry": "Microsoft.SqlServer.Types.SqlGeometry",
}  # fmt: skip
_ASSEMBLY = (
    "Microsoft.SqlServer.Types, Version=11.0.0.0, Culture=neutral, PublicKeyToken=89845dcd8080cc91"
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """`encode`: a value of Postgres, binary, as TDS has it after the token's head."""

    name: str
    kind: str
    info: bytes
    encode: Encode
    nullable: bool = True
    user_type: int = 0
    table_name: str = ""


def column(name: str, kind: str, modifier: int, *, code_page: str = "cp1252", database: str = "") -> Column:
    """kind: SQL Server's type.  modifier: Postgres', -1 for none."""
    if kind in _FIXED:
        info, encode = _FIXED[kind]
        return Column(name, kind, info, encode)
    if kind == "decimal":
        precision, scale = ((modifier - 4) >> 16, (modifier - 4) & 0xFFFF) if modifier >= 0 else (38, 10)
        return Column(name, kind, bytes((0x6C, 17, precision, scale)), _decimal(scale))
    if kind in _SCALED:
        return _scaled(name, kind, modifier - 5 if modifier >= 0 else 7)
    if kind in ("nvarchar", "nchar"):
        return _wide(name, kind, modifier - 4)
    if kind in ("varchar", "char"):
        return _narrow(name, kind, modifier - 4, code_page)
    if kind in ("varbinary", "binary"):
        return _binary(name, kind, modifier - 4)
    if kind in ("text", "ntext", "image"):
        return _old_lob(name, kind, code_page)
    if kind in _UDT:
        return _clr(name, kind, database)
    return _special(name, kind)


# Numbers


def _turned(size: int) -> Encode:
    head = bytes([size])
    return lambda value: b"\0" if value is None else head + value[::-1]


def _bit(value: bytes | None) -> bytes:
    return b"\0" if value is None else b"\x01\x01" if value[-1] else b"\x01\0"


def _tiny(value: bytes | None) -> bytes:
    return b"\0" if value is None else b"\x01" + value[1:]


def digits(value: bytes, scale: int) -> int:
    """Return Postgres' numeric times ten to the power of the scale; ValueError for NaN and Infinity."""
    count, weight, sign, _ = struct.unpack_from(">hhHh", value)
    if sign & 0xC000 == 0xC000:
        raise ValueError("NaN or Infinity")
    made = 0
    for part in struct.unpack_from(f">{count}h", value, 8):
        made = made * 10000 + part
    power = (weight - count + 1) * 4 + scale
    made = made * 10**power if power >= 0 else _halved(made, 10**-power)
    return -made if sign else made


def _halved(number: int, by: int) -> int:
    """Divided, half up."""
    return (number + by // 2) // by


def _decimal(scale: int) -> Encode:
    def encode(value: bytes | None) -> bytes:
        if value is None:
            return b"\0"
        number = digits(value, scale)
        whole = abs(number)
        size = 4 if whole < 1 << 32 else 8 if whole < 1 << 64 else 12 if whole < 1 << 96 else 16
        return bytes((size + 1, number >= 0)) + whole.to_bytes(size, "little")

    return encode


def _money(value: bytes | None) -> bytes:
    if value is None:
        return b"\0"
    raw = digits(value, 4).to_bytes(8, "big", signed=True)
    return b"\x08" + raw[3::-1] + raw[:3:-1]


def _small_money(value: bytes | None) -> bytes:
    return b"\0" if value is None else b"\x04" + digits(value, 4).to_bytes(4, "little", signed=True)


# Moments


def _date(value: bytes | None) -> bytes:
    if value is None:
        return b"\0"
    days = int.from_bytes(value, "big", signed=True) + 730_119  # from 2000-01-01 to 0001-01-01
    return b"\x03" + days.to_bytes(3, "little")


def _datetime(value: bytes | None) -> bytes:
    if value is None:
        return b"\0"
    days, rest = divmod(int.from_bytes(value, "big", signed=True), 25_920_000)
    return b"\x08" + struct.pack("<iI", days, rest)


def _small_datetime(value: bytes | None) -> bytes:
    if value is None:
        return b"\0"
    days, rest = divmod(int.from_bytes(value, "big", signed=True), 1440)
    return b"\x04" + struct.pack("<HH", days, rest)


def _size(scale: int) -> int:
    return 3 if scale < 3 else 4 if scale < 5 else 5


def _scaled(name: str, kind: str, scale: int) -> Column:
    unit, size = int(10 ** (7 - scale)), _size(scale)

    def clock(value: bytes | None) -> bytes:
        if value is None:
            return b"\0"
        return bytes([size]) + (int.from_bytes(value, "big") // unit).to_bytes(size, "little")

    def moment(value: bytes | None) -> bytes:
        if value is None:
            return b"\0"
        days, rest = divmod(int.from_bytes(value, "big"), TICKS_PER_DAY)
        return bytes([size + 3]) + (rest // unit).to_bytes(size, "little") + days.to_bytes(3, "little")

    def zoned(value: bytes | None) -> bytes:
        if value is None:
            return b"\0"
        days, rest = divmod(int.from_bytes(value[:8], "big"), TICKS_PER_DAY)
        return b"".join((
            bytes([size + 5]), (rest // unit).to_bytes(size, "little"), days.to_bytes(3, "little"), value[9:7:-1],
        ))  # fmt: skip

    encode = {"time": clock, "datetime2": moment, "datetimeoffset": zoned}[kind]
    return Column(name, kind, bytes((_SCALED[kind], scale)), encode)


# Characters and bytes


def _pieces(raw: bytes) -> bytes:
    """A partially length-prefixed value."""
    return struct.pack("<QI", len(raw), len(raw)) + raw + b"\0\0\0\0" if raw else bytes(12)


def _wide(name: str, kind: str, size: int) -> Column:
    token = b"\xef" if kind == "nchar" else b"\xe7"
    if 0 < size <= MAX_CHARS:

        def encode(value: bytes | None) -> bytes:
            if value is None:
                return _NULL_SHORT
            raw = value.decode().encode("utf-16-le")[: size * 2]  # Postgres pads by characters, not by units
            return struct.pack("<H", len(raw)) + raw

        return Column(name, kind, token + struct.pack("<H", size * 2) + COLLATION, encode)

    def large(value: bytes | None) -> bytes:
        return _NULL_LONG if value is None else _pieces(value.decode().encode("utf-16-le"))

    return Column(name, "nvarchar", b"\xe7\xff\xff" + COLLATION, large)


def _narrow(name: str, kind: str, size: int, code_page: str) -> Column:
    token, collation = b"\xaf" if kind == "char" else b"\xa7", CODE_PAGES[code_page]
    if 0 < size <= MAX_BYTES:

        def encode(value: bytes | None) -> bytes:
            if value is None:
                return _NULL_SHORT
            raw = value if code_page == "utf-8" else value.decode().encode(code_page, "replace")
            return struct.pack("<H", min(len(raw), size)) + raw[:size]  # as above

        return Column(name, kind, token + struct.pack("<H", size) + collation, encode)

    def large(value: bytes | None) -> bytes:
        if value is None:
            return _NULL_LONG
        return _pieces(value if code_page == "utf-8" else value.decode().encode(code_page, "replace"))

    return Column(name, "varchar", b"\xa7\xff\xff" + collation, large)


def _binary(name: str, kind: str, size: int) -> Column:
    token = b"\xad" if kind == "binary" else b"\xa5"
    if 0 < size <= MAX_BYTES:
        return Column(name, kind, token + struct.pack("<H", size), _sized)
    return Column(name, "varbinary", b"\xa5\xff\xff", lambda value: _NULL_LONG if value is None else _pieces(value))


def _sized(value: bytes | None) -> bytes:
    return _NULL_SHORT if value is None else struct.pack("<H", len(value)) + value


def _old_lob(name: str, kind: str, code_page: str) -> Column:
    def encode(value: bytes | None) -> bytes:
        if value is None:
            return b"\0"
        raw = value
        if kind == "ntext":
            raw = value.decode().encode("utf-16-le")
        elif kind == "text":
            raw = value.decode().encode(code_page, "replace")
        return b"\x10" + bytes(16) + bytes(8) + struct.pack("<i", len(raw)) + raw

    token = {"text": b"\x23", "ntext": b"\x63", "image": b"\x22"}[kind]
    collation = b"" if kind == "image" else CODE_PAGES[code_page]
    return Column(name, kind, token + struct.pack("<I", 0x7FFFFFFF) + collation, encode, table_name="t")


def _clr(name: str, kind: str, database: str) -> Column:
    type_name, size = _UDT[kind]
    texts = b"".join(bytes([len(one)]) + one.encode("utf-16-le") for one in (database, "sys", type_name))
    assembly = f"{_UDT_CLASS[kind]}, {_ASSEMBLY}".encode("utf-16-le")
    info = b"\xf0" + struct.pack("<H", size & 0xFFFF) + texts + struct.pack("<H", len(assembly) // 2) + assembly
    return Column(name, kind, info, lambda value: _NULL_LONG if value is None else _pieces(value))


def _variant(value: bytes | None) -> bytes:
    return b"\0\0\0\0" if value is None else struct.pack("<I", len(value)) + value


def _guid(value: bytes | None) -> bytes:
    """Its bytes are stored in the order in which they compare."""
    if value is None:
        return b"\0"
    return b"\x10" + value[12:16] + value[10:12] + value[8:10] + value[6:8] + value[0:6]


def _special(name: str, kind: str) -> Column:
    if kind == "uniqueidentifier":
        return Column(name, kind, b"\x24\x10", _guid)
    if kind == "rowversion":
        return Column(name, kind, b"\xad\x08\x00", _sized, user_type=0x50)
    if kind == "sql_variant":
        return Column(name, kind, b"\x62" + struct.pack("<I", 8009), _variant)
    if kind == "xml":
        return Column(
            name, kind, b"\xf1\0",
            lambda value: _NULL_LONG if value is None else _pieces(value.decode().encode("utf-16-le")),
        )  # fmt: skip
    raise KeyError(kind)


_SCALED = {"time": 0x29, "datetime2": 0x2A, "datetimeoffset": 0x2B}
_FIXED: dict[str, tuple[bytes, Encode]] = {
    "tinyint": (b"\x26\x01", _tiny), "smallint": (b"\x26\x02", _turned(2)), "int": (b"\x26\x04", _turned(4)),
    "bigint": (b"\x26\x08", _turned(8)), "bit": (b"\x68\x01", _bit), "real": (b"\x6d\x04", _turned(4)),
    "float": (b"\x6d\x08", _turned(8)), "money": (b"\x6e\x08", _money), "smallmoney": (b"\x6e\x04", _small_money),
    "date": (b"\x28", _date), "datetime": (b"\x6f\x08", _datetime), "smalldatetime": (b"\x6f\x04", _small_datetime),
}  # fmt: skip
