"""What a server sends in the place of its log."""

from __future__ import annotations

import pymysql

from replicator.errors import LogPurged, SourceError, SourceReplaced, SourceUnreachable
from replicator.sources.mysql.connection import tidemark_error

OK = b"\0"
_ERROR, _EOF = 0xFF, 0xFE
_EOF_SIZE = 9
_LOG_ERROR = 1236
_DIVERGED = ("diverged", "more gtids than", "not in the master's binlog", "impossible position", "position > file size",
             "> file size", "bogus data", "strict mode")  # fmt: skip


def stream_error(packet: bytes) -> SourceError:
    """Return the error for a packet that is not an event (its first byte is not `OK`)."""
    packet = packet or b"\1"
    if packet[0] == _EOF and len(packet) < _EOF_SIZE:
        return SourceUnreachable(
            "The source ended the stream of its log: it is shutting down, or another reader uses our server id."
        )
    if packet[0] != _ERROR:
        return SourceUnreachable(f"The source sent an unexpected packet instead of its log ({packet[0]:#x}).")
    number = int.from_bytes(packet[1:3], "little")
    text = packet[9:].decode("utf-8", "replace") if packet[3:4] == b"#" else packet[3:].decode("utf-8", "replace")
    if number != _LOG_ERROR:
        error = tidemark_error(pymysql.err.OperationalError(number, text), "The log of the source")
        return error if isinstance(error, SourceError) else SourceUnreachable(error.message)
    lowered = text.lower()
    if any(sign in lowered for sign in _DIVERGED):
        return SourceReplaced(f"The source does not know the log position to resume from: {text}")
    if "purged" in lowered or "could not find" in lowered:
        return LogPurged(f"The source no longer has the log to resume from: {text}")
    return SourceUnreachable(f"The source cannot send its log: {text}")
