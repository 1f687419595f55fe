"""From the first packet to a session: connect, protocol, data types, and the two phases of O5LOGON with a 12c verifier.

Source: the thin driver's connect.pyx, protocol.pyx, data_types.pyx, auth.pyx and crypto.pyx.  The oldest forms that the
driver takes are chosen: no fast authentication, no end-of-response flags, no out-of-band breaks.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from testing.servers.oracle.engine.errors import OracleError
from testing.servers.oracle.wire.packets import (
    ACCEPT,
    CONNECT,
    DATA,
    REFUSE,
    SDU,
    Channel,
    Gone,
    Packet,
    Reader,
    Writer,
)

VERSION = 317  # of TNS: from 318 on, clients check out-of-band breaks
FIELDS = 12  # of TTC: as Oracle 19.1
UTF8, UTF16 = 873, 2000
NATIONAL = {"AL16UTF16": UTF16, "UTF8": 871}
RELEASE = (19, 3, 0, 0, 0)
PROTOCOL, TYPES, FUNCTION, ERROR, PARAMETER, STATUS = 1, 2, 3, 4, 8, 9
PHASE_ONE, PHASE_TWO = 118, 115
VERIFIER_12C = 0x4815
ROUNDS, KEY_ROUNDS = 4096, 3  # of PBKDF2
NO_SERVICE = 12514
_SERVICE = re.compile(r"SERVICE_NAME\s*=\s*([^)\s]+)", re.IGNORECASE)
_SID = re.compile(r"\bSID\s*=\s*([^)\s]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Login:
    """user: in upper case; time_zone: the session's, as ALTER SESSION has it."""

    user: str
    time_zone: str
    program: str


def accept(channel: Channel, services: Mapping[str, str]) -> str:
    """Answer the connect packet; returns the service's name as `services` spells it (keys: lower case).  Raises Gone
    for one that is not served.
    """
    first = channel.receive()
    if first.kind != CONNECT:
        raise Gone
    size, at = struct.unpack(">HH", first.body[16:20])
    words = first.body[at - 8 : at - 8 + size] or channel.receive().body
    match = _SERVICE.search(words.decode()) or _SID.search(words.decode())
    if match is None or match[1].lower() not in services:
        text = f"(DESCRIPTION=(TMP=)(VSNNUM=0)(ERR={NO_SERVICE})(ERROR_STACK=(ERROR=(CODE={NO_SERVICE})(EMFI=4))))"
        channel.send(REFUSE, b"\x22\0" + struct.pack(">H", len(text)) + text.encode())
        raise Gone
    channel.send(ACCEPT, struct.pack(">HH", VERSION, 0) + bytes(10) + bytes(1) + bytes(9) + struct.pack(">I", SDU))
    channel.widen()
    return services[match[1].lower()]


def log_in(
    channel: Channel,
    passwords: Mapping[str, str],
    facts: Mapping[str, str],
    check: Callable[[str], None],
    national: str,
) -> Login:
    """Negotiate and authenticate.

    facts: of the session, for the client; check: raises OracleError for a user who may not log in; national: the
    database's national character set.  Raises Gone; OracleError, which the caller sends.
    """
    _negotiate(channel, NATIONAL[national])
    call, given = _auth_call(channel.receive())
    user = call.upper()
    password = passwords.get(user, secrets.token_hex(16)).encode()
    salt, mine, key_salt = secrets.token_bytes(16), secrets.token_bytes(32), secrets.token_bytes(16)
    stretched = hashlib.pbkdf2_hmac("sha512", password, salt + b"AUTH_PBKDF2_SPEEDY_KEY", ROUNDS, 64)
    verifier = hashlib.sha512(stretched + salt).digest()[:32]
    _answer(channel, {
        "AUTH_SESSKEY": _encrypt(verifier, mine).hex().upper(), "AUTH_VFR_DATA": salt.hex().upper(),
        "AUTH_PBKDF2_CSK_SALT": key_salt.hex().upper(), "AUTH_PBKDF2_VGEN_COUNT": str(ROUNDS),
        "AUTH_PBKDF2_SDER_COUNT": str(KEY_ROUNDS),
    })  # fmt: skip
    program = given.get("AUTH_PROGRAM_NM", "")
    _, given = _auth_call(channel.receive())
    theirs = _decrypt(verifier, bytes.fromhex(given["AUTH_SESSKEY"]))[:32]
    both = (theirs + mine).hex().upper().encode()
    key = hashlib.pbkdf2_hmac("sha512", both, key_salt, KEY_ROUNDS, 32)
    said = _decrypt(key, bytes.fromhex(given["AUTH_PASSWORD"]))
    if user not in passwords or said[16 : len(said) - said[-1]] != password:
        raise OracleError(1017)
    check(user)
    proof = _encrypt(key, secrets.token_bytes(16) + b"SERVER_TO_CLIENT")
    release = RELEASE[0] << 24 | RELEASE[1] << 16 | RELEASE[2] << 12 | RELEASE[3] << 4 | RELEASE[4]
    _answer(channel, {"AUTH_SVR_RESPONSE": proof.hex().upper(), "AUTH_VERSION_NO": str(release), **facts})
    zone = re.search(r"TIME_ZONE\s*=\s*'([^']+)'", given.get("AUTH_ALTER_SESSION", ""))
    return Login(user, zone[1] if zone else "+00:00", program)


def _negotiate(channel: Channel, character_set: int) -> None:
    compiled = bytearray(55)
    compiled[7] = FIELDS
    runtime = bytearray(13)
    runtime[0] = 2
    national = bytes(9) + struct.pack(">H", character_set)
    channel.receive()
    answer = Writer().u8(PROTOCOL, 6, 0)
    answer += b"x86_64/Linux 2.4.xx\0" + struct.pack("<H", UTF8) + b"\1" + struct.pack("<H", 0)
    answer += struct.pack(">H", len(national)) + national
    channel.send(DATA, answer.sized(bytes(compiled)).sized(bytes(runtime)))
    types = channel.receive()
    while not types.body.endswith(b"\0\0"):  # the list ends with a zero, and may take several packets
        types = channel.receive()
    channel.send(DATA, Writer().u8(TYPES).u16(0))


def _auth_call(packet: Packet) -> tuple[str, dict[str, str]]:
    """User and keyword pairs of either phase."""
    message = Reader(packet.body)
    if message.u8() != FUNCTION or message.u8() not in (PHASE_ONE, PHASE_TWO):
        raise Gone
    message.skip("uu")
    message.skip("ii")
    message.skip("u")
    count = message.integer()
    message.skip("uu")
    user = (message.sized() or b"").decode()
    found = {}
    for _ in range(count):
        name, value = message.twice_sized(), message.twice_sized()
        found[name.decode().rstrip("\0")] = value.decode()
        message.integer()
    return user, found


def _answer(channel: Channel, pairs: Mapping[str, str]) -> None:
    answer = Writer().u8(PARAMETER).integer(len(pairs))
    for name, value in pairs.items():
        answer.twice_sized(name).twice_sized(value).integer(VERIFIER_12C if name == "AUTH_VFR_DATA" else 0)
    channel.send(DATA, answer.u8(STATUS).integer(0, 0))


def _encrypt(key: bytes, text: bytes) -> bytes:
    encryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    return encryptor.update(text) + encryptor.finalize()


def _decrypt(key: bytes, data: bytes) -> bytes:
    decryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).decryptor()
    return decryptor.update(data) + decryptor.finalize()
