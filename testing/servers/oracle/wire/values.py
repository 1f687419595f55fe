"""Values as the protocol has them, from and to the text that Postgres keeps of them (`engine.kinds` has the forms).

Source: the thin driver's encoders.pyx and decoders.pyx; Call Interface Programmer's Guide, "Data Types".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

from testing.servers.oracle.engine.kinds import LOCAL, MONTHS, NATIONAL, SECONDS, ZONED, Kind

DIGITS = Context(prec=40, rounding=ROUND_HALF_UP)
MIDDLE, OFFSET = 0x80000000, 60
ZERO, END, HUNDREDS = b"\x80", 102, 20  # of a NUMBER: nought, the last byte of a negative one, pairs of digits
EXPONENT = 193
ZONED_BYTES = 13
DAY = 86_400_000_000_000  # nanoseconds
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
ROWID_PARTS = ((0, 6), (6, 9), (9, 15), (15, 18))  # object, file, block, row
REGION = 0x80
NUMBERS = {
    "VARCHAR2": 1, "NVARCHAR2": 1, "NUMBER": 2, "FLOAT": 2, "LONG": 8, "ROWID": 11, "DATE": 12, "RAW": 23,
    "LONG RAW": 24, "CHAR": 96, "NCHAR": 96, "BINARY_FLOAT": 100, "BINARY_DOUBLE": 101, "XMLTYPE": 109, "CLOB": 112,
    "NCLOB": 112, "BLOB": 113, "TIMESTAMP": 180, ZONED: 181, MONTHS: 182, SECONDS: 183, "UROWID": 208, LOCAL: 231,
}  # fmt: skip
NAMES = {number: name for name, number in reversed(NUMBERS.items())} | {3: "NUMBER"}
SIZES = {"NUMBER": 22, "FLOAT": 22, "ROWID": 18, "DATE": 7, "BINARY_FLOAT": 4, "BINARY_DOUBLE": 8, "TIMESTAMP": 11,
         ZONED: 13, LOCAL: 11, MONTHS: 5, SECONDS: 11, "UROWID": 4000, "CLOB": 4000, "NCLOB": 4000, "BLOB": 4000,
         "XMLTYPE": 2000}  # fmt: skip
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")


def encode_number(text: str) -> bytes:
    """Base 100, an exponent byte first; of a negative number all bytes inverted."""
    value = DIGITS.create_decimal(text)
    if not value:
        return ZERO
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    pairs = list(digits)
    if exponent % 2:
        pairs.append(0)
        exponent -= 1
    if len(pairs) % 2:
        pairs.insert(0, 0)
    hundreds = [pairs[at] * 10 + pairs[at + 1] for at in range(0, len(pairs), 2)]
    place = len(hundreds) + exponent // 2 - 1
    while hundreds[-1] == 0:
        hundreds.pop()
    while hundreds[0] == 0:
        hundreds.pop(0)
        place -= 1
    if sign:
        tail = [] if len(hundreds) >= HUNDREDS else [END]
        return bytes([~(place + EXPONENT) & 0xFF, *(101 - one for one in hundreds), *tail])
    return bytes([(place + EXPONENT) & 0xFF, *(one + 1 for one in hundreds)])


def decode_number(data: bytes) -> str:
    if data == ZERO:
        return "0"
    positive = bool(data[0] & 0x80)
    place = (data[0] if positive else ~data[0] & 0xFF) - EXPONENT
    rest = data[1:-1] if not positive and data[-1] == END else data[1:]
    hundreds = [one - 1 if positive else 101 - one for one in rest]
    digits = int("".join(f"{one:02}" for one in hundreds))
    value = Decimal(digits).scaleb(2 * (place - len(hundreds) + 1), DIGITS)
    return format(value if positive else -value, "f")


def encode_time(text: str, *, nanoseconds: bool = True) -> bytes:
    match = _TIME.match(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    head = bytes((year // 100 + 100, year % 100 + 100, month, day, hour + 1, minute + 1, second + 1))
    return head + struct.pack(">I", int((match[7] or "").ljust(9, "0"))) if nanoseconds else head


def decode_time(data: bytes) -> str:
    year = (data[0] - 100) * 100 + data[1] - 100
    head = f"{year:04}-{data[2]:02}-{data[3]:02} {data[4] - 1:02}:{data[5] - 1:02}:{data[6] - 1:02}"
    return head + f".{int.from_bytes(data[7:11], 'big'):09}"


def encode_zoned(text: str) -> bytes:
    time, _, zone = text.partition("|")
    if match := _OFFSET.fullmatch(zone):
        minutes = (int(match[2]) * 60 + int(match[3])) * (-1 if match[1] == "-" else 1)
        hours = int(minutes / 60)
        return encode_time(time) + bytes((hours + 20, minutes - hours * 60 + 60))
    return encode_time(time) + bytes((REGION | 1, 4))


def decode_zoned(data: bytes) -> str:
    minutes = (data[11] - 20) * 60 + data[12] - 60 if len(data) == ZONED_BYTES else 0
    sign, minutes = "-" if minutes < 0 else "+", abs(minutes)
    return f"{decode_time(data)}|{sign}{minutes // 60:02}:{minutes % 60:02}"


def encode_seconds(text: str) -> bytes:
    """Nanoseconds; each field has the sign."""
    value = int(Decimal(text))
    sign, rest = (-1 if value < 0 else 1), abs(value)
    days, rest = divmod(rest, DAY)
    seconds, fraction = divmod(rest, 1_000_000_000)
    fields = (seconds // 3600, seconds // 60 % 60, seconds % 60)
    return (struct.pack(">I", MIDDLE + sign * days) + bytes(OFFSET + sign * one for one in fields)
            + struct.pack(">I", MIDDLE + sign * fraction))  # fmt: skip


def decode_seconds(data: bytes) -> str:
    days, fraction = (int.from_bytes(data[at : at + 4], "big") - MIDDLE for at in (0, 7))
    hours, minutes, seconds = (one - OFFSET for one in data[4:7])
    return str(days * DAY + (hours * 3600 + minutes * 60 + seconds) * 1_000_000_000 + fraction)


def encode_months(text: str) -> bytes:
    value = int(Decimal(text))
    sign, value = (-1 if value < 0 else 1), abs(value)
    return struct.pack(">I", MIDDLE + sign * (value // 12)) + bytes((OFFSET + sign * (value % 12),))


def decode_months(data: bytes) -> str:
    return str((int.from_bytes(data[:4], "big") - MIDDLE) * 12 + data[4] - OFFSET)


def encode_binary(text: str, form: str) -> bytes:
    """Of a float; ordered as its bytes are."""
    data = struct.pack(form, float(text))
    return bytes((data[0] | 0x80,)) + data[1:] if not data[0] & 0x80 else bytes(~one & 0xFF for one in data)


def decode_binary(data: bytes, form: str) -> str:
    raw = bytes((data[0] & 0x7F,)) + data[1:] if data[0] & 0x80 else bytes(~one & 0xFF for one in data)
    return repr(float(struct.unpack(form, raw)[0]))


def rowid_parts(text: str) -> tuple[int, ...]:
    """object, file, block, row of a ROWID's 18 characters."""
    found = []
    for start, end in ROWID_PARTS:
        value = 0
        for letter in text[start:end]:
            value = value * 64 + ALPHABET.index(letter)
        found.append(value)
    return tuple(found)


def rowid_text(parts: tuple[int, ...]) -> str:
    """The opposite of `rowid_parts`."""
    return "".join(_digits(value, end - start) for value, (start, end) in zip(parts, ROWID_PARTS, strict=True))


@lru_cache(maxsize=10_000)
def _digits(value: int, count: int) -> str:
    return "".join(ALPHABET[(value >> 6 * at) & 63] for at in reversed(range(count)))


def unhexed(data: bytes) -> bytes:
    """Of Postgres' text of bytea."""
    return bytes.fromhex(data[2:].decode())


def encode(kind: Kind, data: bytes) -> bytes:
    """A value, not of a LOB or ROWID.  data: Postgres' text."""
    if kind.name in NATIONAL:
        return data.decode().encode("utf-16-be")
    return _ENCODERS[kind.name](data) if kind.name in _ENCODERS else data


def decode(kind: Kind, data: bytes) -> str | bytes:
    """A bound value: text as Postgres is to get it, or the bytes of a RAW."""
    if kind.name in _DECODERS:
        return _DECODERS[kind.name](data)
    return data.decode("utf-16-be" if kind.name in NATIONAL else "utf-8")


_ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "NUMBER": lambda data: encode_number(data.decode()),
    "FLOAT": lambda data: encode_number(data.decode()),
    "DATE": lambda data: encode_time(data.decode(), nanoseconds=False),
    "TIMESTAMP": lambda data: encode_time(data.decode()),
    LOCAL: lambda data: encode_time(data.decode()),
    ZONED: lambda data: encode_zoned(data.decode()),
    MONTHS: lambda data: encode_months(data.decode()),
    SECONDS: lambda data: encode_seconds(data.decode()),
    "BINARY_FLOAT": lambda data: encode_binary(data.decode(), ">f"),
    "BINARY_DOUBLE": lambda data: encode_binary(data.decode(), ">d"),
    "RAW": unhexed,
    "LONG RAW": unhexed,
}
_DECODERS: dict[str, Callable[[bytes], str | bytes]] = {
    "NUMBER": decode_number,
    "DATE": lambda data: decode_time(data)[:19],
    "TIMESTAMP": decode_time,
    LOCAL: decode_time,
    ZONED: decode_zoned,
    MONTHS: decode_months,
    SECONDS: decode_seconds,
    "BINARY_FLOAT": lambda data: decode_binary(data, ">f"),
    "BINARY_DOUBLE": lambda data: decode_binary(data, ">d"),
    "RAW": bytes,
    "LONG RAW": bytes,
}
