"""Packets of the replication stream, straight from the socket of a pymysql connection.

pymysql's own reader closes the connection at a timeout; here a timeout is the normal way to notice that nothing
happens.
"""

# ruff: noqa: PLR2004 - sizes and codes of the wire format, which the sources above define

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from replicator.errors import SourceUnreachable

_ROOM = 1 << 20
_FULL = 0xFFFFFF  # a packet of this size goes on in the next one
_RECORD = 1 << 14  # bytes of TLS that a call gives at most; a server that has more to send fills them
_NAP = 0.005  # seconds that more of them is waited for


class PacketStream:
    """What has arrived is data[at:end], whole packets and the beginning of one; who has read it moves `at` on."""

    def __init__(self, connection: Any) -> None:
        """`connection`: a pymysql connection to which a dump command was sent."""
        self._socket: socket.socket = connection._sock  # noqa: SLF001 - pymysql has no other way in
        self.at = self.end = 0
        self._room(bytearray(_ROOM))
        self._large: bytearray | None = None

    def fill(self, timeout: float, *, more: bool = False) -> bool:
        """Wait until a whole packet is there, but not for more than `timeout` seconds; `more`: until anything new is.

        False where nothing came.  SourceUnreachable.
        """
        came = False
        while not came if more else not self._whole():
            self._make_room()
            try:
                self._socket.settimeout(timeout)
                received = self._socket.recv_into(self._view[self.end :])
            except TimeoutError:
                return came
            except OSError as error:
                message = f"The connection to the source broke while its log was read: {error}"
                raise SourceUnreachable(message) from error
            if not received:
                message = "The source closed the connection over which its log was read."
                raise SourceUnreachable(message)
            self.end += received
            came = True
            if received == _RECORD and isinstance(self._socket, ssl.SSLSocket):
                self._gather(self._socket)
        return came

    def _gather(self, peer: ssl.SSLSocket) -> None:
        """What comes at once behind a full record: rows are less work by the thousand."""
        peer.settimeout(0)
        poll, until = select.poll(), time.monotonic() + _NAP
        poll.register(peer, select.POLLIN)
        with suppress(OSError):  # a connection that broke says so again
            while len(self.data) - self.end >= _RECORD:
                try:
                    received = peer.recv_into(self._view[self.end :])
                except ssl.SSLWantReadError:
                    left = until - time.monotonic()
                    if left <= 0 or not poll.poll(1000 * left):
                        return
                    continue
                if not received:
                    return
                self.end += received

    @property
    def roomy(self) -> bool:
        """What is there is little beside what there is room for."""
        return 2 * (self.end - self.at) < len(self.data)

    def next(self) -> bytes | bytearray | None:
        """The next packet; None where it has not wholly arrived."""
        while self._whole():
            size = self._size()
            start = self.at + 4
            self.at = start + size
            if size < _FULL and self._large is None:
                return bytes(self._view[start : self.at])
            large = self._large = self._large or bytearray()  # grows in its place: a second copy of it would be dear
            large += self._view[start : self.at]
            if size < _FULL:
                self._large = None
                return large
        return None

    def kind(self) -> int:
        """The type of the next packet's event, if it is one; -1 where nothing is there."""
        return int(self._view[self.at + 9]) if self.end - self.at > 9 and self._large is None else -1

    def _room(self, buffer: bytearray) -> None:
        self._view = memoryview(buffer)
        self.data: npt.NDArray[np.uint8] = np.frombuffer(buffer, np.uint8)

    def _size(self) -> int:
        view, at = self._view, self.at
        return view[at] | view[at + 1] << 8 | view[at + 2] << 16

    def _whole(self) -> bool:
        there = self.end - self.at
        return there >= 4 and there >= 4 + self._size()

    def _make_room(self) -> None:
        """For the rest of the packet that has begun, at least."""
        there = self.end - self.at
        needed = 4 + self._size() if there >= 4 else 4
        if needed > len(self.data) or len(self.data) > max(_ROOM, 4 * needed):
            buffer = bytearray(max(_ROOM, needed))
            buffer[:there] = self._view[self.at : self.end]
            self._room(buffer)
        elif self.at:
            self.data[:there] = self.data[self.at : self.end].copy()
        else:
            return
        self.at, self.end = 0, there
