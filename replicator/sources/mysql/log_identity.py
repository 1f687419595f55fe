"""What tells one past of a server from another: a copy restored, a log reset or cut short gives the same names, numbers
and places again.

A file of the log says when it was begun, and a server never goes on with a file that it finds when it starts: it begins
the next one. So a file's name and the second of its beginning are one past's, up to its end.  Only a machine that is
set back while the server runs (a snapshot with its memory) goes on in the same file: there the event that closed the
last transaction is another.
"""

from __future__ import annotations

import struct
from zlib import crc32

from replicator.sources.mysql.offset import Past
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import BinlogEvent

_HEAD = struct.Struct("<IBI")  # time, type, server id
_XID_BODY = 8


def closed_by(past: Past, event: BinlogEvent) -> Past:
    """After a transaction in the same file that this event closed; without it where it cannot be asked for again."""
    if not event.start < event.end or event.start >= e.WRAP:
        return past._replace(start=0, digest=0)
    head = _HEAD.pack(event.timestamp, event.type, event.server_id)
    return past._replace(start=event.start, digest=crc32(event.body, crc32(head)))


def closed_by_xid(past: Past, tail: bytes, end: int, *, checksum: bool) -> Past:
    """The same of an XID event: the last bytes of `tail` are its, its `end` is in the file."""
    size = e.HEADER_SIZE + _XID_BODY + (e.CHECKSUM_SIZE if checksum else 0)
    raw = tail[-size:]
    if len(raw) < size or raw[4] != e.XID or int.from_bytes(raw[9:13], "little") != size or end - size >= e.WRAP:
        return past._replace(start=0, digest=0)
    body = raw[e.HEADER_SIZE : e.HEADER_SIZE + _XID_BODY]
    return past._replace(start=end - size, digest=crc32(body, crc32(raw[: _HEAD.size])))
