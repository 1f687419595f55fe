"""Packets of TDS on a socket, and TLS inside them ([MS-TDS] 2.2.3.1, 2.2.6.5)."""

from __future__ import annotations

import select
import socket
import ssl
import struct

BATCH, RPC, REPLY, ATTENTION, BULK, TRANSACTION, LOGIN, PRELOGIN = 1, 3, 4, 6, 7, 14, 16, 18
HEAD = 8
LAST, IGNORE, RESET = 1, 2, 8
ENCRYPT_OFF, ENCRYPT_ON, ENCRYPT_NOT_SUPPORTED, ENCRYPT_REQUIRED = range(4)


class Gone(OSError):
    """The client has gone, or does not speak TDS."""


class Channel:
    """One client.  `encrypted`: the session is in TLS."""

    def __init__(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.size = 4096
        self._client = client
        self._waiting = bytearray()
        self._tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._reply = bytearray()
        self._number = 1

    @property
    def encrypted(self) -> bool:
        return self._tls is not None

    # In

    def message(self) -> tuple[int, int, bytes]:
        """Kind, status of its first packet and payload of the next one; Gone."""
        found, first = bytearray(), None
        while True:
            kind, status, payload = self._packet()
            first = status if first is None else first
            found += payload
            if status & LAST:
                return kind, first, b"" if status & IGNORE else bytes(found)

    def attention(self, also: int, seconds: float) -> bool:
        """Wait for a cancel of the client, or that the file `also` can be read; True for the cancel."""
        if not self._waiting and not (self._tls is not None and self._incoming.pending):
            ready, _, _ = select.select([self._client.fileno(), also], [], [], seconds)
            if self._client.fileno() not in ready:
                return False
        kind, _, _ = self.message()
        return kind == ATTENTION

    def _packet(self) -> tuple[int, int, bytes]:
        kind, status, length = struct.unpack(">BBH", self._exactly(HEAD)[:4])
        if length < HEAD:
            raise Gone("a packet shorter than its head")
        return kind, status, self._exactly(length - HEAD)

    def _exactly(self, size: int) -> bytes:
        while len(self._waiting) < size:
            self._waiting += self._received()
        found = bytes(self._waiting[:size])
        del self._waiting[:size]
        return found

    def _received(self) -> bytes:
        while True:
            if self._tls is not None:
                try:
                    return self._tls.read(1 << 16)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError as error:
                    raise Gone(str(error)) from error
            if not (chunk := self._client.recv(1 << 16)):
                raise Gone("the client has gone")
            if self._tls is None:
                return chunk
            self._incoming.write(chunk)

    # TLS

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Do the TLS handshake, in packets of the kind PRELOGIN; Gone if the client refuses."""
        tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flight()
                kind, _, payload = self._packet()
                if kind != PRELOGIN:
                    raise Gone("no TLS handshake") from None
                self._incoming.write(payload)
            except ssl.SSLError as error:
                raise Gone(str(error)) from error
        self._flight()
        self._tls = tls

    def decrypt(self) -> None:
        """From here on nothing is in TLS."""
        self._tls = None

    def _flight(self) -> None:
        if flight := self._outgoing.read():
            self._client.sendall(struct.pack(">BBHHBB", PRELOGIN, LAST, len(flight) + HEAD, 0, 0, 0) + flight)

    # Out

    def add(self, tokens: bytes | bytearray) -> None:
        """To the reply; what fills packets is sent."""
        self._reply += tokens
        room = self.size - HEAD
        if len(self._reply) > room * 8:
            whole = (len(self._reply) - 1) // room * room
            self._sent(whole, last=False)

    def end(self) -> None:
        """Of the reply."""
        self._sent(len(self._reply), last=True)
        self._number = 1

    def _sent(self, size: int, *, last: bool) -> None:
        room, made = self.size - HEAD, bytearray()
        for at in range(0, max(size, 1), room):
            part = self._reply[at : min(at + room, size)]
            status = LAST if last and at + room >= size else 0
            made += struct.pack(">BBHHBB", REPLY, status, len(part) + HEAD, 0, self._number & 255, 0) + part
            self._number += 1
        del self._reply[:size]
        if self._tls is not None:
            view = memoryview(made)
            while view:
                view = view[self._tls.write(view) :]
            made = bytearray(self._outgoing.read())
        self._client.sendall(made)
