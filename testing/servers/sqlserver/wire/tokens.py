"""Tokens of a reply ([MS-TDS] 2.2.7)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from testing.servers.sqlserver.wire.login import PRODUCT
from testing.servers.sqlserver.wire.types import COLLATION, Column

MORE, FAILED, COUNTED, CANCELLED = 1, 2, 0x10, 0x20
DONE, DONE_PROC, DONE_IN_PROC = 0xFD, 0xFE, 0xFF
DATABASE, PACKET_SIZE, SQL_COLLATION, BEGIN, COMMIT, ROLLBACK, ROUTING = 1, 4, 7, 8, 9, 10, 20
SERVER = "EMULATOR"


def short(text: str) -> bytes:
    """B_VARCHAR."""
    return bytes([len(text)]) + text.encode("utf-16-le")


def long(text: str) -> bytes:
    """US_VARCHAR."""
    raw = text.encode("utf-16-le")
    return struct.pack("<H", len(raw) // 2) + raw


def message(number: int, text: str, *, level: int, state: int = 1, line: int = 1) -> bytes:
    """ERROR, or INFO where the level is below 11."""
    body = struct.pack("<IBB", number, state, level) + long(text) + short(SERVER) + short("") + struct.pack("<I", line)
    return struct.pack("<BH", 0xAA if level > 10 else 0xAB, len(body)) + body


def changed(kind: int, new: str | bytes, old: str | bytes = "") -> bytes:
    """ENVCHANGE."""
    values = b"".join(short(one) if isinstance(one, str) else bytes([len(one)]) + one for one in (new, old))
    return struct.pack("<BHB", 0xE3, len(values) + 1, kind) + values


def acknowledged(size: int, database: str) -> bytes:
    """The answer to an accepted login."""
    name = "Microsoft SQL Server".encode("utf-16-le") + b"\0\0\0\0"
    body = b"\x01" + struct.pack(">I", 0x74000004) + bytes([len(name) // 2]) + name
    version = struct.pack(">BBH", *PRODUCT)
    return (
        changed(DATABASE, database, "master")
        + message(5701, f"Changed database context to '{database}'.", level=0, state=2)
        + changed(SQL_COLLATION, COLLATION, b"")
        + struct.pack("<BH", 0xAD, len(body) + 4)
        + body
        + version
        + changed(PACKET_SIZE, str(size), "4096")
    )


def routed(host: str, port: int) -> bytes:
    """ENVCHANGE: the client is to log in there ([MS-TDS] 2.2.7.9, type 20)."""
    place = struct.pack("<BH", 0, port) + long(host)
    body = bytes([ROUTING]) + struct.pack("<H", len(place)) + place + b"\0\0"
    return struct.pack("<BH", 0xE3, len(body)) + body


def features() -> bytes:
    """FEATUREEXTACK of nothing."""
    return b"\xae\xff"


def done(status: int, count: int | None = None, kind: int = DONE, command: int = 0) -> bytes:
    """The end of a statement, a procedure or a batch; count: of rows."""
    if count is not None:
        status |= COUNTED
    return struct.pack("<BHHQ", kind, status, command, count or 0)


def described(columns: Sequence[Column]) -> bytes:
    """COLMETADATA."""
    made = bytearray(struct.pack("<BH", 0x81, len(columns)))
    for column in columns:
        made += struct.pack("<IH", column.user_type, 0x09 if column.nullable else 0x08) + column.info
        if column.table_name:
            made += b"\x01" + long(column.table_name)
        made += short(column.name)
    return bytes(made)


def returned(number: int) -> bytes:
    """RETURNSTATUS."""
    return struct.pack("<Bi", 0x79, number)


def output(ordinal: int, name: str, column: Column, value: bytes | None) -> bytes:
    """RETURNVALUE."""
    head = struct.pack("<BH", 0xAC, ordinal) + short(name) + b"\x01" + struct.pack("<IH", 0, 0)
    return head + column.info + column.encode(value)
