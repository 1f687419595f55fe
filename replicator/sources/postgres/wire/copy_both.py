"""The copy-both stream of a replication connection, below psycopg2: whole messages, and feedback that says no more than we mean.

psycopg2's own `read_message` confirms by itself what a keepalive names once all before it was confirmed: then the slot
is ahead of our checkpoint, and one that somebody else has moved on could not be told from ours.  Here a place is
confirmed when the journal has it, and only then (invariant 1).  https://www.postgresql.org/docs/current/libpq-copy.html
"""

from __future__ import annotations

import ctypes
import select
import struct
from typing import Any

import psycopg2

from replicator.errors import SourceUnreachable
from replicator.sources.postgres.wire.message_buffer import COPY_DATA, HEAD, MessageBuffer

_HEAD = struct.Struct(">Bi")
_SQLSTATE = ord("C")  # PG_DIAG_SQLSTATE
_MAX_BYTES = 1 << 20  # bytes that are taken at once, but for a message that is larger


class CopyStream(MessageBuffer):
    """Of a psycopg2 connection on which START_REPLICATION was executed: what libpq gives by message goes into one buffer."""

    def __init__(self, connection: Any) -> None:
        super().__init__()
        self._connection = connection
        self._conn = ctypes.c_void_p(connection.pgconn_ptr)
        self._lib = _library()
        self._buffer = ctypes.c_void_p()
        self._pointer = ctypes.byref(self._buffer)
        self._last = 0

    def fill(self, seconds: float) -> bool:
        """As `MessageBuffer` says."""
        if self._take():
            return True
        readable, _, _ = select.select([self._connection.fileno()], [], [], seconds)
        if not readable:
            return False
        if not self._lib.PQconsumeInput(self._conn):
            raise self._lost()
        self._take()
        return True

    def close(self) -> None:
        """The connection has all."""

    def _take(self) -> bool:
        """What libpq has; False if that is nothing."""
        if self._last < 0:
            raise EOFError(*self._ended()) if self._last == -1 else self._lost()
        taken = 0
        self._make_room()
        while taken < _MAX_BYTES:
            size = self._last = self._lib.PQgetCopyData(self._conn, self._pointer, 1)
            if size <= 0:
                break
            if len(self.data) - self.end < HEAD + size:
                self._make_room(HEAD + size)
            _HEAD.pack_into(self._view, self.end, COPY_DATA, 4 + size)
            ctypes.memmove(self.data.ctypes.data + self.end + HEAD, self._buffer, size)
            self._lib.PQfreemem(self._buffer)
            self.end += HEAD + size
            taken += HEAD + size
        return taken > 0 or self._last < 0

    def _send(self, message: bytes) -> None:
        if self._lib.PQputCopyData(self._conn, message, len(message)) != 1 or self._lib.PQflush(self._conn) < 0:
            raise self._lost()

    def _ended(self) -> tuple[str, str]:
        """What the server said at the stream's end, and its SQLSTATE."""
        text, state = b"", b""
        if result := self._lib.PQgetResult(self._conn):
            text = ctypes.string_at(self._lib.PQresultErrorMessage(result))
            state = self._lib.PQresultErrorField(result, _SQLSTATE) or b""
            self._lib.PQclear(result)
        return text.decode("utf-8", "replace").strip() or "the server ended the stream", state.decode()

    def _lost(self) -> SourceUnreachable:
        text = ctypes.string_at(self._lib.PQerrorMessage(self._conn)).decode("utf-8", "replace").strip()
        return SourceUnreachable(f"The connection for the source's log was lost: {text}")


def send_query(connection: Any, text: str) -> bool:
    """To the server of a psycopg2 connection that has nothing under way; the answer is not read.

    False where it cannot be sent.
    """
    return bool(_library().PQsendQuery(ctypes.c_void_p(connection.pgconn_ptr), text.encode()))


def _library() -> Any:
    """The libpq that psycopg2 itself has loaded: the symbols of what its module depends on are found through it."""
    library = ctypes.CDLL(psycopg2._psycopg.__file__)  # noqa: SLF001 - where it is, is said nowhere else
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    signatures: dict[str, tuple[list[Any], Any]] = {
        "PQsendQuery": ([pointer, text], ctypes.c_int),
        "PQconsumeInput": ([pointer], ctypes.c_int),
        "PQgetCopyData": ([pointer, ctypes.POINTER(pointer), ctypes.c_int], ctypes.c_int),
        "PQputCopyData": ([pointer, text, ctypes.c_int], ctypes.c_int),
        "PQflush": ([pointer], ctypes.c_int),
        "PQfreemem": ([pointer], None),
        "PQgetResult": ([pointer], pointer),
        "PQresultErrorMessage": ([pointer], pointer),
        "PQresultErrorField": ([pointer, ctypes.c_int], text),
        "PQerrorMessage": ([pointer], pointer),
        "PQclear": ([pointer], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library
