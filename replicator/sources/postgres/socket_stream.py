"""The copy-both stream of a replication connection, read straight from its socket: where libpq would take message by message.

libpq connects; the statement that begins the stream is sent through it, and what the server answers from then on is ours.
libpq must not have read any of it, so this works without TLS only; `libpq.CopyStream` does it with.
https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from typing import Any, Self

from replicator.errors import SourceUnreachable
from replicator.sources.postgres.arrived import HEAD, Arrived
from replicator.sources.postgres.libpq import send_query

_SIZE = struct.Struct(">i")
_MUCH = 256 * 1024  # bytes that are waited for while the stream is behind: each waking costs the server, too
_NAP = 10  # milliseconds that they are waited for at most
_SEND_SECONDS = 10.0
_PEEKED = 64 * 1024
_COPY_BOTH, _NOTICE, _PARAMETER, _ERROR = b"WNSE"


class SocketStream(Arrived):
    """See above."""

    def __init__(self, peer: socket.socket) -> None:
        super().__init__()
        self._peer = peer
        self._poll = select.poll()
        self._poll.register(peer, select.POLLIN)
        self._behind = False

    @classmethod
    def begin(cls, connection: Any, command: str) -> Self | None:
        """Of a psycopg2 connection that has nothing under way; None where the server refuses: it says why when asked again."""
        peer = socket.socket(fileno=os.dup(connection.fileno()))
        try:
            peer.settimeout(0)
            if send_query(connection, command) and _accepted(peer):
                return cls(peer)
        except OSError:
            pass
        peer.close()
        return None

    def fill(self, seconds: float) -> bool:
        """As `Arrived` says; while much comes, much is waited for, 10 ms at most."""
        self._make_room()
        if self._behind:
            self._poll.poll(_NAP)
        elif not self._poll.poll(seconds * 1000):
            return False
        try:
            received = self._peer.recv_into(self._view[self.end :])
        except BlockingIOError:
            received = -1
        except OSError as error:
            raise _lost(error.strerror) from None
        if not received:
            raise _lost("the server closed it")
        self._wait_for_more(much=received >= _MUCH // 4)
        self.end += max(received, 0)
        return True

    def close(self) -> None:
        self._peer.close()

    def _wait_for_more(self, *, much: bool) -> None:
        if much is not self._behind:
            self._behind = much
            self._peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _MUCH if much else 1)

    def _send(self, message: bytes) -> None:
        left = memoryview(b"d" + _SIZE.pack(4 + len(message)) + message)
        try:
            while left:
                _, writable, _ = select.select([], [self._peer], [], _SEND_SECONDS)
                if not writable:
                    raise _lost("the server takes nothing any more")
                left = left[self._peer.send(left) :]
        except OSError as error:
            raise _lost(error.strerror) from None

    def _other(self, kind: int, body: bytes) -> None:
        if kind == _ERROR:
            raise EOFError(_said(body))
        if kind not in (_COPY_BOTH, _NOTICE, _PARAMETER):
            raise EOFError("the server ended the stream")


def _accepted(peer: socket.socket) -> bool:
    """Does the stream begin?  Nothing is taken from the socket."""
    poll = select.poll()
    poll.register(peer, select.POLLIN)
    while True:
        poll.poll()
        there = peer.recv(_PEEKED, socket.MSG_PEEK)
        at = 0
        while len(there) - at >= HEAD and there[at] in (_NOTICE, _PARAMETER):
            at += 1 + _SIZE.unpack_from(there, at + 1)[0]
        if not there or at < len(there):
            return there[at : at + 1] == bytes([_COPY_BOTH])
        time.sleep(_NAP / 1000)


def _said(body: bytes) -> str:
    """An ErrorResponse as libpq words it."""
    fields = {part[:1]: part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part}
    detail = fields.get(b"D")
    return f"{fields.get(b'S', 'ERROR')}:  {fields.get(b'M', '')}" + (f"\nDETAIL:  {detail}" if detail else "")


def _lost(why: str | None) -> SourceUnreachable:
    return SourceUnreachable(f"The connection for the source's log was lost: {why or 'nobody says why'}")
