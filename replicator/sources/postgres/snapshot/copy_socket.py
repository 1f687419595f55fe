"""The bytes of one COPY … TO STDOUT in blocks, straight from the socket of a connection without TLS.

libpq has connected, has nothing under way, and is none the wiser: the statement is sent and its answer read here up to
ReadyForQuery, so that the connection is to it what it was before.
https://www.postgresql.org/docs/current/protocol-flow.html, "Simple Query" and "COPY Operations".
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

import numpy as np
import psycopg2

from replicator.errors import SourceUnreachable
from replicator.model.identifiers import TableId
from replicator.sources.postgres.connection import Connection, server_error
from replicator.sources.postgres.rows.tuples import Bytes
from replicator.sources.postgres.snapshot.copy_kernel import MORE, OTHER, unframe
from replicator.sources.postgres.snapshot.copy_libpq import CopyBlocks
from replicator.sources.postgres.wire.message_buffer import COPY_DATA, HEAD
from replicator.sources.postgres.wire.socket_stream import ERROR, NOTICE, PARAMETER, SocketState, fields

_QUERY, _READY = b"QZ"
_PASSED_OVER = frozenset(
    {NOTICE, PARAMETER, *b"AHcC"}
)  # NotificationResponse, CopyOutResponse, CopyDone, CommandComplete
_SIZE = struct.Struct(">i")
_RECEIVED = 512 * 1024  # bytes at once: what stays in the processor's cache
_FIRST = 1024 * 1024
_QUIET_SECONDS = 3600.0


class SocketBlocks(CopyBlocks):
    """See above.  One thread."""

    def __init__(
        self, connection: Connection, sql: str, where: str | TableId, *, batch_rows: int, batch_bytes: int
    ) -> None:
        """As `CopyRows`."""
        self._connection, self._sql, self._where = connection, sql, where
        self._batch_rows, self._batch_bytes = batch_rows, batch_bytes
        self._room = min(_FIRST, batch_bytes)
        self._buffer: Bytes = np.empty(_RECEIVED, np.uint8)
        self._at = self._end = self._left = 0  # what was received and not taken; of a message whose head was taken
        self._line: SocketState | None = None
        self._over = False

    def begin(self) -> None:
        try:
            self._line = SocketState(self._connection, f"{self._where} could not be read")
        except (OSError, psycopg2.Error) as error:
            raise self._lost(str(error)) from None
        self._line.send(_QUERY, self._sql.encode() + b"\0")

    def take(self) -> memoryview | None:
        """As many bytes as `batch_rows` messages have: the server gives each row one, on which nothing here relies."""
        block: Bytes = np.empty(self._room, np.uint8)
        filled, messages = 0, self._batch_rows
        while not self._over:
            self._at, self._left, filled, messages, why = unframe(
                self._buffer, self._at, self._end, self._left, block, filled, messages
            )
            if why == MORE:
                self._receive(HEAD)
            elif why == OTHER and self._buffer[self._at] != COPY_DATA:
                self._other()
            elif not filled:
                block = np.empty(max(self._room, self._size() + 1 - HEAD), np.uint8)
                messages = self._batch_rows
            else:
                break
        self._room = max(self._room, min(self._batch_bytes, 2 * self._room if messages else filled + filled // 4))
        return block[:filled].data if filled else None

    def end(self) -> None:
        assert self._line is not None
        self._line.close()

    def cut(self) -> None:
        if self._line is not None:
            with suppress(OSError):
                self._line.peer.shutdown(socket.SHUT_RDWR)
            self._line.close()

    def _receive(self, needed: int) -> None:
        """Receive what has arrived, into a buffer that has room for `needed` bytes."""
        there = self._end - self._at
        if needed > len(self._buffer):
            wider: Bytes = np.empty(needed, np.uint8)
            wider[:there] = self._buffer[self._at : self._end]
            self._buffer = wider
        elif self._at:
            self._buffer[:there] = self._buffer[self._at : self._end].copy()
        self._at, self._end = 0, there
        assert self._line is not None
        self._end += self._line.receive(self._buffer.data[there:], _QUIET_SECONDS) or 0

    def _other(self) -> None:
        """A message that brings no rows."""
        size = 1 + self._size()
        while self._end - self._at < size:
            self._receive(size)
        kind, body = int(self._buffer[self._at]), bytes(self._buffer[self._at + HEAD : self._at + size])
        self._at += size
        if kind == ERROR:
            answer = fields(body)
            raise server_error(answer.get("C", ""), answer.get("M", ""), self._where, answer.get("V", ""))
        if kind == _READY:
            self._over = True
        elif kind not in _PASSED_OVER:
            raise self._lost(f"the server sent a message of kind {chr(kind)!r} among the rows")

    def _size(self) -> int:
        """Of the message that begins, its type not counted."""
        size: int = _SIZE.unpack_from(self._buffer.data, self._at + 1)[0]
        if size < HEAD - 1:
            raise self._lost(f"the server sent a message whose size is {size}")
        return size

    def _lost(self, why: str) -> SourceUnreachable:
        return SourceUnreachable(f"{self._where} could not be read: {why}")
