"""TRANSACTION_PAYLOAD of MySQL 8.0.20 and later: the events of one transaction, compressed together.

Layout: MySQL's libs/mysql/binlog/event/codecs/binary.cpp.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa

from replicator.sources.mysql.wire.bounded_slices import part
from replicator.sources.mysql.wire.events import HEADER, HEADER_SIZE, BinlogEvent, length_encoded

_SIZE, _COMPRESSION, _WHOLE_SIZE = 1, 2, 3  # fields of its head
_NO_COMPRESSION = 255
_PIECE = 1 << 20


def open_payload(event: BinlogEvent) -> Iterator[BinlogEvent]:
    """The events in a TRANSACTION_PAYLOAD, one by one as they are decompressed; they carry the payload's own place."""
    body, at = event.body, 0
    fields = {}
    while (field := body[at]) != 0:
        width, at = length_encoded(body, at + 1)
        fields[field], _ = length_encoded(part(body, at, width), 0)
        at += width
    data = memoryview(body)[at + 1 :]
    if (size := fields.get(_SIZE, len(data))) != len(data):
        message = f"a payload of {size} bytes"
        raise IndexError(message)
    if (compression := fields.get(_COMPRESSION, _NO_COMPRESSION)) not in (0, _NO_COMPRESSION):
        message = f"compression {compression} of a transaction"
        raise IndexError(message)
    stream: io.BufferedIOBase | pa.NativeFile = io.BytesIO(data)
    if compression == 0:
        stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd")
    try:
        yield from _payload_events(stream, event, fields.get(_WHOLE_SIZE))
    except OSError as error:
        message = f"the compression of a transaction: {error}"
        raise IndexError(message) from error


def _payload_events(
    stream: io.BufferedIOBase | pa.NativeFile, event: BinlogEvent, whole: int | None
) -> Iterator[BinlogEvent]:
    """`whole`: bytes of all events together, where the payload says it."""
    read = 0
    while header := _read(stream, HEADER_SIZE):
        timestamp, kind, server_id, size, _, flags = HEADER.unpack(header)
        inner = _read(stream, size - HEADER_SIZE)
        read += len(header) + len(inner)
        if len(header) + len(inner) != size or (whole is not None and read > whole):
            message = "transaction payload"
            raise IndexError(message)
        yield BinlogEvent(kind, timestamp, server_id, flags, event.file, event.start, event.end, inner)
    if whole is not None and read != whole:
        message = "the end of a transaction payload"
        raise IndexError(message)


def _read(stream: io.BufferedIOBase | pa.NativeFile, size: int) -> bytes:
    """At most `size` bytes; room is made for what comes, not for what is said to come."""
    data = bytearray()
    while len(data) < size and (more := stream.read(min(size - len(data), _PIECE))):
        data += more
    return bytes(data)
