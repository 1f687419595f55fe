"""Servers that ask every client for the password itself, and record everything that they receive."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.integration.kafka.security import Authority
from webapp.embedded.ports import LOOPBACK

SALT = b"abcdefghijklmnopqrst"
TLS_FLAG, PLUGINS = 0x800, 0x80000
CAPABILITIES = (
    0x1 | 0x4 | 0x8 | 0x200 | 0x2000 | 0x8000 | PLUGINS | 0x200000
)  # … secure connection, plugins, lengths as such
REFUSED = b"SFATAL\x00C28P01\x00Mpassword authentication failed\x00\x00"
NEED_FULL, PUBLIC_KEY_ASKED = b"\x01\x04", b"\x02"


class Rogue:
    """One server; `met`: how many clients came; `heard`: every packet of them, decrypted where TLS or its own RSA key
    hid it.
    """

    def __init__(self, folder: Path, *, tls: bool) -> None:
        self.authority = Authority("rogue")
        self.heard: list[bytes] = []
        self.met = 0
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._context: ssl.SSLContext | None = None
        if tls:
            pem = folder / "rogue.pem"
            pem.write_text(self.authority.issued(x509_address()))
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(pem)
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @contextmanager
    def running(self) -> Iterator[Rogue]:
        self._thread.start()
        try:
            yield self
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._thread.join()

    def told(self, password: str) -> bool:
        """Has any client said it?"""
        return any(password.encode() in packet for packet in self.heard)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.met += 1
            client.settimeout(20)
            with client, suppress(OSError, EOFError):
                self.talk(client)

    def talk(self, client: socket.socket) -> None:
        raise NotImplementedError

    def wrapped(self, client: socket.socket) -> socket.socket:
        assert self._context is not None
        return self._context.wrap_socket(client, server_side=True)

    @property
    def tls(self) -> bool:
        return self._context is not None

    def public_key(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_key().public_bytes(serialization.Encoding.PEM, form)

    def remember(self, packet: bytes) -> None:
        self.heard.append(packet)
        if len(packet) == 256:
            way = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
            secret = self._key.decrypt(packet, way)
            self.heard.append(bytes(byte ^ SALT[i % len(SALT)] for i, byte in enumerate(secret)))


def x509_address() -> x509.IPAddress:
    return x509.IPAddress(ip_address(LOOPBACK))


def exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := client.recv(size - len(data))):
            raise EOFError
        data += more
    return data


class RogueMySQL(Rogue):
    """`first`: the plugin that it greets with; `then`: the one it switches to."""

    def __init__(self, folder: Path, *, tls: bool, first: str, then: str = "") -> None:
        super().__init__(folder, tls=tls)
        self._first, self._then = first, then

    def talk(self, client: socket.socket) -> None:
        flags = CAPABILITIES | (TLS_FLAG if self.tls else 0)
        greeting = (
            b"\x0a8.4.0\x00"
            + struct.pack("<I", 7)
            + SALT[:8]
            + b"\x00"
            + struct.pack("<HBHH", flags & 0xFFFF, 45, 2, flags >> 16)
        )
        greeting += bytes([21]) + bytes(10) + SALT[8:] + b"\x00" + self._first.encode() + b"\x00"
        number = self._say(client, 0, greeting)
        number, answer = self._hear(client)
        if self.tls and len(answer) == 32:
            client = self.wrapped(client)
            number, answer = self._hear(client)
        if self._then:
            said = b"\xfe" + self._then.encode() + b"\x00" + (b"" if self._then == "dialog" else SALT + b"\x00")
            self._say(client, number + 1, said + (b"\x04Password: " if self._then == "dialog" else b""))
            number, answer = self._hear(client)
        if "caching_sha2_password" in (self._then or self._first):
            self._say(client, number + 1, NEED_FULL)
            number, answer = self._hear(client)
        if answer[:1] in (PUBLIC_KEY_ASKED, b"\x01") and len(answer) == 1:
            self._say(client, number + 1, b"\x01" + self.public_key())
            number, answer = self._hear(client)
        self._say(client, number + 1, b"\xff" + struct.pack("<H", 1045) + b"#28000Thanks")

    @staticmethod
    def _say(client: socket.socket, number: int, payload: bytes) -> int:
        client.sendall(struct.pack("<I", len(payload))[:3] + bytes([number & 0xFF]) + payload)
        return number

    def _hear(self, client: socket.socket) -> tuple[int, bytes]:
        head = exactly(client, 4)
        payload = exactly(client, int.from_bytes(head[:3], "little"))
        self.remember(payload)
        return head[3], payload


class RoguePostgres(Rogue):
    """Asks for AuthenticationCleartextPassword."""

    def talk(self, client: socket.socket) -> None:
        while True:
            size, code = struct.unpack(">II", exactly(client, 8))
            body = exactly(client, size - 8)
            if code == 80877103:
                client.sendall(b"S" if self.tls else b"N")
                client = self.wrapped(client) if self.tls else client
                continue
            self.remember(body)
            break
        client.sendall(b"R" + struct.pack(">II", 8, 3))
        kind = exactly(client, 1)
        self.remember(kind + exactly(client, struct.unpack(">I", exactly(client, 4))[0] - 4))
        client.sendall(b"E" + struct.pack(">I", 4 + len(REFUSED)) + REFUSED)
