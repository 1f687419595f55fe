"""The server's messages, read straight from the socket of a connection: where libpq would take message by message.

libpq connects, and must not have read any of what comes: so this works without TLS only; `copy_both.CopyStream` does it
with. https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from contextlib import suppress
from typing import Any, Self

import psycopg

from replicator.errors import SourceUnreachable
from replicator.sources.postgres.wire.message_buffer import COPY_DATA, HEAD, SEND_SECONDS, MessageBuffer

_SIZE = struct.Struct(">i")
_MUCH = (
    2 << 20
    # bytes that are waited for while we are behind: each waking costs the server, too, and each run a tenth of a
    # millisecond
)
_NAP = 100  # milliseconds that they are waited for at most
_PEEKED = 64 * 1024
COPY_BOTH, NOTICE, PARAMETER, ERROR = b"WNSE"


class SocketState:
    """The socket of a connection of psycopg2 or psycopg 3; libpq keeps its own hold of it."""

    def __init__(self, connection: Any, lost: str = "The connection for the source's log was lost") -> None:
        """`lost`: how an error begins."""
        self._lost_how = lost
        self.peer = socket.socket(fileno=os.dup(connection.fileno()))
        self.peer.settimeout(0)
        self._poll = select.poll()
        self._poll.register(self.peer, select.POLLIN)
        self._writable = select.poll()
        self._writable.register(self.peer, select.POLLOUT)
        self._behind = False

    def receive(self, room: memoryview, seconds: float) -> int | None:
        """Wait for something, and take it; None where nothing comes.

        While much comes much is waited for, `_NAP` at most.
        """
        if self._behind:
            self._poll.poll(_NAP)
        elif not self._poll.poll(seconds * 1000):
            return None
        try:
            received = self.peer.recv_into(room)
        except BlockingIOError:
            self._wait_for_more(much=False)
            return 0
        except OSError as error:
            raise self._lost(error.strerror) from None
        if not received:
            raise self._lost("the server closed the connection")
        self._wait_for_more(much=received >= _MUCH // 4)
        return received

    def send(self, kind: int, body: bytes) -> None:
        """A message.  SourceUnreachable."""
        left = memoryview(bytes([kind]) + _SIZE.pack(4 + len(body)) + body)
        try:
            while left:
                if not self._writable.poll(SEND_SECONDS * 1000):
                    raise self._lost("the server no longer accepts data")
                left = left[self.peer.send(left) :]
        except OSError as error:
            raise self._lost(error.strerror) from None

    def close(self) -> None:
        """The socket is as libpq had it."""
        with suppress(OSError):
            self._wait_for_more(much=False)
        self.peer.close()

    def _lost(self, why: str | None) -> SourceUnreachable:
        return SourceUnreachable(f"{self._lost_how}: {why or 'unknown reason'}")

    def _wait_for_more(self, *, much: bool) -> None:
        if much is not self._behind:
            self._behind = much
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _MUCH if much else 1)


class SocketStream(MessageBuffer):
    """The copy-both stream of a replication connection."""

    def __init__(self, line: SocketState) -> None:
        super().__init__()
        self._line = line

    @classmethod
    def begin(cls, connection: Any, command: str) -> Self | None:
        """Of a psycopg 3 connection that has nothing under way; None where the server refuses: it says why when asked
        again.
        """
        line = SocketState(connection)
        try:
            connection.pgconn.send_query(command.encode())
            if _accepted(line.peer):
                return cls(line)
        except (OSError, psycopg.Error):
            pass
        line.close()
        return None

    def fill(self, seconds: float) -> bool:
        """As `MessageBuffer` says."""
        self._make_room()
        received = self._line.receive(self._view[self.end :], seconds)
        self.end += received or 0
        return received is not None

    def close(self) -> None:
        self._line.close()

    def _send(self, message: bytes) -> None:
        self._line.send(COPY_DATA, message)

    def _other(self, kind: int, body: bytes) -> None:
        if kind == ERROR:
            raise EOFError(said(body), fields(body).get("C", ""))
        if kind not in (COPY_BOTH, NOTICE, PARAMETER):
            raise EOFError("the server ended the stream")


def _accepted(peer: socket.socket) -> bool:
    """Does the stream begin?  Nothing is taken from the socket."""
    poll = select.poll()
    poll.register(peer, select.POLLIN)
    while True:
        poll.poll()
        there = peer.recv(_PEEKED, socket.MSG_PEEK)
        at = 0
        while len(there) - at >= HEAD and there[at] in (NOTICE, PARAMETER):
            at += 1 + _SIZE.unpack_from(there, at + 1)[0]
        if not there or at < len(there):
            return there[at : at + 1] == bytes([COPY_BOTH])
        time.sleep(_NAP / 1000)


def said(body: bytes) -> str:
    """An ErrorResponse as libpq words it."""
    answer = fields(body)
    detail = answer.get("D")
    return f"{answer.get('S', 'ERROR')}:  {answer.get('M', '')}" + (f"\nDETAIL:  {detail}" if detail else "")


def fields(body: bytes) -> dict[str, str]:
    """Of an ErrorResponse, by their codes: C is the SQLSTATE, M the message."""
    parts = [part.decode("utf-8", "replace") for part in body.split(b"\0") if part]
    return {part[0]: part[1:] for part in parts}
