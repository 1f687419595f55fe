"""What a client says when it comes: PRELOGIN and LOGIN7 ([MS-TDS] 2.2.6.4, 2.2.6.5)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from testing.servers.sqlserver.wire.packets import Gone

VERSION, ENCRYPTION, TERMINATOR = 0, 1, 0xFF
PRODUCT = (16, 0, 4135)
_FIELDS = (
    "host", "user", "password", "application", "server", "extension", "library", "language", "database",
)  # fmt: skip
_FIRST = 36  # where LOGIN7 says where its texts are
_EXTENSION = 0x10
_READ_ONLY = 0x20


@dataclass(frozen=True)
class Login:
    """`read_only`: ApplicationIntent=ReadOnly.  `federated`: with a token, which is refused."""

    user: str
    password: str
    database: str
    application: str
    packet_size: int
    read_only: bool
    integrated: bool


def wants_encryption(payload: bytes) -> int:
    """The client's ENCRYPTION option."""
    at = 0
    while payload[at] != TERMINATOR:
        token, offset, length = struct.unpack_from(">BHH", payload, at)
        if token == ENCRYPTION and length:
            return int(payload[offset])
        at += 5
    return 2


def prelogin(encryption: int) -> bytes:
    """The answer."""
    head = struct.pack(">BHHBHHB", VERSION, 11, 6, ENCRYPTION, 17, 1, TERMINATOR)
    return head + struct.pack(">BBHH", PRODUCT[0], PRODUCT[1], PRODUCT[2], 0) + bytes([encryption])


def parsed(payload: bytes) -> Login:
    """LOGIN7."""
    if len(payload) < _FIRST + 58:
        raise Gone("LOGIN7 is too short")
    (size,) = struct.unpack_from("<I", payload, 8)
    flags2, kinds = payload[25], payload[26]
    texts = {}
    for at, name in enumerate(_FIELDS):
        offset, length = struct.unpack_from("<HH", payload, _FIRST + at * 4)
        raw = payload[offset : offset + length * 2]
        if name == "password":
            raw = bytes(((byte ^ 0xA5) << 4 & 0xF0) | ((byte ^ 0xA5) >> 4) for byte in raw)
        texts[name] = "" if name == "extension" else raw.decode("utf-16-le")
    return Login(
        texts["user"], texts["password"], texts["database"], texts["application"], max(512, min(size, 32767)),
        bool(kinds & _READ_ONLY), bool(flags2 & 0x80),
    )  # fmt: skip
