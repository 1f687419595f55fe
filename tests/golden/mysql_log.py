"""A log as MySQL 8 writes it, made by hand after the layouts of its sources: no such server can be had from the
registries.

GTIDs, a tagged one, full row metadata, JSON, a partial JSON update, a compressed transaction, a rotation.
"""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

from replicator.sources.mysql.rows import table_map as t
from replicator.sources.mysql.wire import events as e

UUID = bytes.fromhex("3e11fa4771ca11e19e33c80aa9429562")
WHEN = 1_700_000_000
JSON_A = bytes.fromhex("00010007000b000100050100 61")  # {"a": 1}
JSON_LIST = bytes.fromhex("0202000a00050100050200")  # [1, 2]


class LogFile:
    """Events one after the other, with places and checksums."""

    def __init__(self, *, checksum: bool = True) -> None:
        self.data = bytearray(e.MAGIC)
        self._checksum = checksum
        body = struct.pack("<H50sIB", 4, b"8.4.0", WHEN, 19) + bytes(42) + bytes([checksum])
        self._append(e.FORMAT_DESCRIPTION, body, checksum=True)

    def add(self, kind: int, body: bytes, flags: int = 0) -> None:
        self._append(kind, body, flags, checksum=self._checksum)

    def _append(self, kind: int, body: bytes, flags: int = 0, *, checksum: bool) -> None:
        size = e.HEADER_SIZE + len(body) + 4 * checksum
        data = e.HEADER.pack(WHEN, kind, 1, size, len(self.data) + size, flags) + body
        self.data += data + (zlib.crc32(data).to_bytes(4, "little") if checksum else b"")


def inner(kind: int, body: bytes) -> bytes:
    """An event inside a transaction payload: no checksum, no place."""
    return e.HEADER.pack(WHEN, kind, 1, e.HEADER_SIZE + len(body), 0, 0) + body


def varint(value: int) -> bytes:
    """MySQL's serialization library: the trailing ones of the first byte count the further bytes."""
    for size in range(1, 9):
        if value < 1 << 7 * size:
            return (value << size | (1 << size - 1) - 1).to_bytes(size, "little")
    return b"\xff" + value.to_bytes(8, "little")


def gtid(number: int) -> bytes:
    stamp = (WHEN * 1_000_000 + number).to_bytes(7, "little")
    return bytes([1]) + UUID + number.to_bytes(8, "little") + b"\x02" + bytes(16) + stamp


def tagged_gtid(number: int, tag: bytes) -> bytes:
    fields = varint(0) + varint(1) + varint(1) + b"".join(map(varint, UUID)) + varint(2) + varint(number << 1)
    fields += varint(3) + varint(len(tag)) + tag + varint(4) + varint(0) + varint(5) + varint(2)
    fields += varint(6) + varint(WHEN * 1_000_000 + number)
    return b"\x02" + varint(len(fields) + 4) + varint(8) + fields


def query(sql: bytes) -> bytes:
    status = b"\x00" + bytes(4) + b"\x01" + bytes(8) + b"\x06\x03std" + b"\x04" + struct.pack("<HHH", 45, 45, 255)
    return bytes(8) + struct.pack("<BHH", 4, 0, len(status)) + status + b"shop\0" + sql


def field(kind: int, data: bytes) -> bytes:
    return bytes([kind, len(data)]) + data


def table_map() -> bytes:
    """shop.docs (id int unsigned, doc json, label enum, tags set, note text, primary key (id))."""
    types = bytes([t.LONG, t.JSON, t.STRING, t.STRING, t.BLOB])
    metadata = bytes([4, t.ENUM, 1, t.SET, 1, 2])
    names = b"".join(bytes([len(name)]) + name for name in (b"id", b"doc", b"label", b"tags", b"note"))
    optional = field(1, b"\x80") + field(2, bytes([45])) + field(4, names) + field(5, b"\2\1x\1y")
    optional += field(6, b"\2\1a\2\xc3\xa9") + field(8, b"\0") + field(10, bytes([45])) + field(12, b"\xf8")
    head = (7).to_bytes(6, "little") + b"\1\0\4shop\0\4docs\0" + bytes([len(types)]) + types
    return head + bytes([len(metadata)]) + metadata + b"\x1e" + optional


def row(number: int, doc: bytes, label: int, tags: int, note: bytes) -> bytes:
    return (
        b"\0"
        + number.to_bytes(4, "little")
        + len(doc).to_bytes(4, "little")
        + doc
        + bytes([label, tags])
        + len(note).to_bytes(2, "little")
        + note
    )


def rows(*images: bytes, bitmaps: int = 1) -> bytes:
    return (7).to_bytes(6, "little") + b"\1\0\2\0\5" + b"\x1f" * bitmaps + b"".join(images)


def mysql_log(*, checksum: bool = True) -> bytes:
    """The whole file."""
    log = LogFile(checksum=checksum)
    interval = struct.pack("<QQQ", 1, 1, 6)
    log.add(e.PREVIOUS_GTIDS, struct.pack("<Q", 1) + UUID + interval)
    first, second = row(1, JSON_A, 1, 3, b"note"), row(2, JSON_LIST, 2, 0, "é😀".encode())
    log.add(e.GTID, gtid(6))
    log.add(e.QUERY, query(b"BEGIN"))
    log.add(e.TABLE_MAP, table_map())
    log.add(e.WRITE_V2, rows(first, second))
    log.add(e.XID, bytes(8))
    log.add(e.TAGGED_GTID, tagged_gtid(7, b"blue"))
    log.add(e.QUERY, query(b"BEGIN"))
    log.add(e.TABLE_MAP, table_map())
    log.add(e.UPDATE_V2, rows(first, row(1, JSON_LIST, 0, 2, b""), bitmaps=2))
    log.add(e.DELETE_V2, rows(second))
    log.add(e.XID, bytes(8))
    log.add(e.GTID, gtid(8))
    log.add(e.QUERY, query(b"BEGIN"))
    log.add(e.TABLE_MAP, table_map())
    change = b"\0\3$.a\3\x05\2\0"
    log.add(
        e.PARTIAL_UPDATE,
        rows(first, b"\1\1\0\1\0\0\0" + len(change).to_bytes(4, "little") + change + b"\1\3\4\0note", bitmaps=2),
    )
    log.add(e.XID, bytes(8))
    events = inner(e.QUERY, query(b"BEGIN")) + inner(e.TABLE_MAP, table_map())
    events += inner(e.WRITE_V2, rows(row(3, b"\x04\1", 1, 1, b"z" * 100))) + inner(e.XID, bytes(8))
    packed = pa.compress(events, codec="zstd", asbytes=True)
    log.add(e.GTID, gtid(9))
    head = b"\2\1\0" + b"\3\3\xfc" + len(events).to_bytes(2, "little") + b"\1\1" + bytes([len(packed)]) + b"\0"
    log.add(e.TRANSACTION_PAYLOAD, head + packed)
    log.add(e.GTID, gtid(10))
    log.add(e.QUERY, query(b"ALTER TABLE docs ADD more int"))
    log.add(e.ROTATE, (4).to_bytes(8, "little") + b"binlog.000002")
    return bytes(log.data)
