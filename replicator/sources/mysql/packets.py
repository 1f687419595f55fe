"""Packets of the replication stream, straight from the socket of a pymysql connection.

pymysql's own reader closes the connection at a timeout; here a timeout is the normal way to notice that nothing happens.
"""

# ruff: noqa: PLR2004 - sizes and codes of the wire format, which the sources above define

from __future__ import annotations

import socket
from typing import Any

from replicator.errors import SourceUnreachable

_RECEIVE = 1 << 18
_FULL = 0xFFFFFF  # a packet of this size goes on in the next one


class PacketStream:
    """Splits what arrives into packets."""

    def __init__(self, connection: Any) -> None:
        """`connection`: a pymysql connection to which a dump command was sent."""
        self._socket: socket.socket = connection._sock  # noqa: SLF001 - pymysql has no other way in
        self._buffer = bytearray()
        self._parts: list[bytes] = []

    def read(self, timeout: float) -> list[bytes]:
        """Whole packets that have arrived, at least one unless `timeout` seconds passed.  SourceUnreachable."""
        while True:
            packets = self._split()
            if packets:
                return packets
            try:
                self._socket.settimeout(timeout)
                data = self._socket.recv(_RECEIVE)
            except TimeoutError:
                return []
            except OSError as error:
                message = f"The connection to the source broke while its log was read: {error}"
                raise SourceUnreachable(message) from error
            if not data:
                message = "The source closed the connection over which its log was read."
                raise SourceUnreachable(message)
            self._buffer += data

    def _split(self) -> list[bytes]:
        buffer, at, packets = self._buffer, 0, []
        while len(buffer) - at >= 4:
            size = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            end = at + 4 + size
            if end > len(buffer):
                break
            part = bytes(memoryview(buffer)[at + 4 : end])
            at = end
            if size == _FULL or self._parts:
                self._parts.append(part)
                if size == _FULL:
                    continue
                part, self._parts = b"".join(self._parts), []
            packets.append(part)
        if at:
            del buffer[:at]
        return packets
