"""The copy-both stream of a replication connection, below psycopg2: whole messages, and feedback that says no more than we mean.

psycopg2's own `read_message` confirms by itself what a keepalive names once all before it was confirmed: then the slot is ahead of our
checkpoint, and one that somebody else has moved on could not be told from ours.  Here a place is confirmed when
the journal has it, and only then (invariant 1).  https://www.postgresql.org/docs/current/libpq-copy.html
"""

from __future__ import annotations

import ctypes
import select
import struct
import time
from typing import Any

import psycopg2

from replicator.errors import SourceUnreachable

_EPOCH = 946_684_800  # 2000-01-01
_FEEDBACK = struct.Struct(">cqqqqb")


class CopyStream:
    """Of a psycopg2 connection on which START_REPLICATION was executed.  One thread."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._conn = ctypes.c_void_p(connection.pgconn_ptr)
        self._lib = _library()
        self._buffer = ctypes.c_void_p()
        self._pointer = ctypes.byref(self._buffer)

    def wait(self, seconds: float) -> bool:
        """Until the server has sent something; False if it has not."""
        readable, _, _ = select.select([self._connection.fileno()], [], [], seconds)
        if readable and not self._lib.PQconsumeInput(self._conn):
            raise self._lost()
        return bool(readable)

    def next(self) -> bytes | None:
        """The next whole message that is here already; EOFError where the stream has ended."""
        size = self._lib.PQgetCopyData(self._conn, self._pointer, 1)
        if size > 0:
            message = ctypes.string_at(self._buffer, size)
            self._lib.PQfreemem(self._buffer)
            return message
        if size == 0:
            return None
        if size == -1:
            raise EOFError(self._ended())
        raise self._lost()

    def feedback(self, received: int, durable: int, *, reply: bool = False) -> None:
        """A standby status update; `reply`: the server answers with a keepalive at once."""
        now = int((time.time() - _EPOCH) * 1_000_000)
        message = _FEEDBACK.pack(b"r", max(received, durable), durable, durable, now, reply)
        if self._lib.PQputCopyData(self._conn, message, len(message)) != 1 or self._lib.PQflush(self._conn) < 0:
            raise self._lost()

    def _ended(self) -> str:
        """What the server said at the stream's end."""
        result = self._lib.PQgetResult(self._conn)
        text = ctypes.string_at(self._lib.PQresultErrorMessage(result)) if result else b""
        if result:
            self._lib.PQclear(result)
        return text.decode("utf-8", "replace").strip() or "the server ended the stream"

    def _lost(self) -> SourceUnreachable:
        text = ctypes.string_at(self._lib.PQerrorMessage(self._conn)).decode("utf-8", "replace").strip()
        return SourceUnreachable(f"The connection for the source's log was lost: {text}")


def _library() -> Any:
    """The libpq that psycopg2 itself has loaded: the symbols of what its module depends on are found through it."""
    library = ctypes.CDLL(psycopg2._psycopg.__file__)  # noqa: SLF001 - where it is, is said nowhere else
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    signatures: dict[str, tuple[list[Any], Any]] = {
        "PQconsumeInput": ([pointer], ctypes.c_int),
        "PQgetCopyData": ([pointer, ctypes.POINTER(pointer), ctypes.c_int], ctypes.c_int),
        "PQputCopyData": ([pointer, text, ctypes.c_int], ctypes.c_int),
        "PQflush": ([pointer], ctypes.c_int),
        "PQfreemem": ([pointer], None),
        "PQgetResult": ([pointer], pointer),
        "PQresultErrorMessage": ([pointer], pointer),
        "PQerrorMessage": ([pointer], pointer),
        "PQclear": ([pointer], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library
