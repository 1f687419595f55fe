"""A result's columns and values as messages have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testing.servers.oracle.engine.errors import OracleError
from testing.servers.oracle.engine.kinds import LOBS, LONGS, NATIONAL, Kind
from testing.servers.oracle.wire import values
from testing.servers.oracle.wire.handshake import UTF8, UTF16
from testing.servers.oracle.wire.lobs import Lobs
from testing.servers.oracle.wire.packets import Writer

DESCRIPTION = 16
LONG_TYPES = (8, 24)
SIZED = ("VARCHAR2", "CHAR", "NVARCHAR2", "NCHAR", "RAW")
TEXT_FORM, NATIONAL_FORM = 1, 2
NO_SCALE = -127


@dataclass(frozen=True)
class Column:
    """Of a result."""

    name: str
    kind: Kind
    nullable: bool = True


def described(columns: Sequence[Column]) -> Writer:
    """ORA-00932 for an object type, which is not sent."""
    answer = Writer().u8(DESCRIPTION, 0).integer(0, len(columns))
    if columns:
        answer.u8(0)
    for at, column in enumerate(columns):
        kind = column.kind
        if not kind.known:
            raise OracleError(932, f"expected - got {kind.owner}.{kind.name}")
        size = kind.bytes if kind.name in SIZED else values.SIZES.get(kind.name, 4000)
        national = kind.name in NATIONAL
        form = NATIONAL_FORM if national else TEXT_FORM if kind.name in ("VARCHAR2", "CHAR", "CLOB", "LONG") else 0
        charset = UTF16 if national else UTF8 if form else 0
        answer.u8(values.NUMBERS[kind.name], 0, (kind.precision or 0) & 0xFF, _scale(kind) & 0xFF)
        answer.integer(size, 0, 0, 0, 0, charset).u8(form)
        answer.integer(kind.length, 0).u8(int(column.nullable), len(column.name.encode()) & 0xFF)
        answer.twice_sized(column.name)
        xml = kind.name == "XMLTYPE"
        answer.twice_sized("SYS" if xml else None).twice_sized("XMLTYPE" if xml else None).integer(at + 1, 0)
    return answer.integer(0, 0, 0, 0, 0, 0)


def _scale(kind: Kind) -> int:
    if kind.scale is not None:
        return kind.scale
    return NO_SCALE if kind.name == "FLOAT" or (kind.name == "NUMBER" and not kind.precision) else 0


def put(answer: Writer, lobs: Lobs, kind: Kind, define: int, value: bytes | None) -> None:
    """A value.  define: the type's number that the client wants instead, or 0; value: Postgres' text."""
    if define in LONG_TYPES or kind.name in LONGS:
        name = "RAW" if kind.name in ("BLOB", "LONG RAW") else "NVARCHAR2" if kind.name in NATIONAL else "VARCHAR2"
        answer.sized(None if value is None else values.encode(Kind(name), value)).integer(0 if value else -1, 0)
    elif kind.name in LOBS:
        lobs.answer(answer, kind, value)
    elif kind.name == "ROWID" and value is not None:
        item, file, block, row = values.rowid_parts(value.decode())
        answer.u8(13).integer(item, file).u8(0).integer(block, row)
    elif kind.name == "XMLTYPE":
        _put_xml(answer, value)
    else:
        answer.sized(None if value is None else values.encode(kind, value))


def _put_xml(answer: Writer, value: bytes | None) -> None:
    answer.integer(0, 0, 0, 0)
    if value is None:
        answer.integer(0, 0)
        return
    size = len(value) + 7 + 5
    image = bytes((0x84, 1, 254)) + size.to_bytes(4, "big") + bytes((1,)) + (4).to_bytes(4, "big") + value
    answer.integer(len(image), 0).sized(image)
