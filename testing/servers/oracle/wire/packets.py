"""Packets (TNS) and what is in them (TTC): integers and bytes with their lengths.

Source: the thin driver's packet.pyx and buffer.pyx.
"""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass

CONNECT, ACCEPT, REFUSE, DATA, MARKER = 1, 2, 4, 6, 12
BREAK, RESET, INTERRUPT = 1, 2, 3
HEADER = 8  # bytes
SDU = 8192  # bytes of a packet
LONG, NULL = 254, 255  # in a length's place
SHORT = 252  # bytes at most that one length byte says
CHUNK = 32767
Body = bytes | bytearray


@dataclass(frozen=True)
class Packet:
    """kind: CONNECT … MARKER; body: without header and, of DATA, without flags."""

    kind: int
    body: bytes


class Gone(Exception):
    """The client has closed the connection, or was cut off."""


class Reader:
    """Of a message."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    @property
    def left(self) -> int:
        return len(self.body) - self.at

    def raw(self, size: int) -> bytes:
        found = self.body[self.at : self.at + size]
        if len(found) < size:
            raise EOFError
        self.at += size
        return found

    def u8(self) -> int:
        return self.raw(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.raw(2), "big")

    def integer(self) -> int:
        """Of any size: a length byte, and the value's bytes."""
        length = self.u8()
        value = int.from_bytes(self.raw(length & 0x7F), "big")
        return -value if length & 0x80 else value

    def sized(self) -> bytes | None:
        """Bytes after their length; None for none."""
        length = self.u8()
        if length in (0, NULL):
            return None
        if length != LONG:
            return self.raw(length)
        found = bytearray()
        while size := self.integer():
            found += self.raw(size)
        return bytes(found)

    def twice_sized(self) -> bytes:
        """Bytes after an integer that tells whether there are some."""
        return (self.sized() or b"") if self.integer() else b""

    def skip(self, kinds: str) -> None:
        """Of fields: u (one byte), i (an integer)."""
        for kind in kinds:
            self.u8() if kind == "u" else self.integer()


class Writer(bytearray):
    """Of a message."""

    def u8(self, *values: int) -> Writer:
        self.extend(values)
        return self

    def u16(self, value: int) -> Writer:
        self += value.to_bytes(2, "big")
        return self

    def integer(self, *values: int) -> Writer:
        for value in values:
            size = (abs(value).bit_length() + 7) // 8
            self.append(size | 0x80 if value < 0 else size)
            self += abs(value).to_bytes(size, "big")
        return self

    def sized(self, value: bytes | None) -> Writer:
        if not value:
            self.append(0)
        elif len(value) <= SHORT:
            self.append(len(value))
            self += value
        else:
            self.append(LONG)
            for at in range(0, len(value), CHUNK):
                piece = value[at : at + CHUNK]
                self.integer(len(piece))
                self += piece
            self.append(0)
        return self

    def twice_sized(self, value: bytes | str | None) -> Writer:
        data = value.encode() if isinstance(value, str) else value
        self.integer(len(data or b""))
        return self.sized(data) if data else self


class Channel:
    """One connection's packets.  Only one thread sends, only one receives."""

    def __init__(self, client: socket.socket) -> None:
        self._client, self._wide = client, False
        self._sending = threading.Lock()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def widen(self) -> None:
        """After the handshake's first answer, lengths have four bytes."""
        self._wide = True

    def receive(self) -> Packet:
        """Raises Gone."""
        head = self._exactly(HEADER)
        size = struct.unpack(">I", head[:4])[0] if self._wide else struct.unpack(">H", head[:2])[0]
        body = self._exactly(size - HEADER)
        return Packet(head[4], body[2:] if head[4] == DATA else body)

    def send(self, kind: int, body: Body) -> None:
        """In as many packets as it takes; raises Gone."""
        room = SDU - HEADER - 2
        pieces = [body[at : at + room] for at in range(0, len(body), room)] if kind == DATA else [body]
        whole = bytearray()
        for piece in pieces:
            content = b"\0\0" + piece if kind == DATA else piece
            size = HEADER + len(content)
            whole += struct.pack(">I", size) if self._wide else struct.pack(">HH", size, 0)
            whole += bytes((kind, 0, 0, 0)) + content
        try:
            with self._sending:
                self._client.sendall(whole)
        except OSError as error:
            raise Gone from error

    def marker(self, kind: int) -> None:
        self.send(MARKER, bytes((1, 0, kind)))

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            try:
                chunk = self._client.recv(size - len(found))
            except OSError as error:
                raise Gone from error
            if not chunk:
                raise Gone
            found += chunk
        return bytes(found)
