"""Damage to a binary log: bytes, lengths, whole events; with or without a checksum that holds again."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from replicator.sources.mysql.wire import events as e

EXTREMES = (0, 1, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)


class Mutant(NamedTuple):
    """`events`: raw; None where the file was damaged as a whole.  `repaired`: the checksums hold again."""

    data: bytes
    events: tuple[bytes, ...] | None
    repaired: bool
    what: str


@dataclass(frozen=True)
class Log:
    """A whole log file; `events` are its raw events."""

    data: bytes
    checksum: bool

    @cached_property
    def events(self) -> list[bytes]:
        """Its raw events; the file must be whole."""
        found, at = [], len(e.MAGIC)
        while at < len(self.data):
            size = int.from_bytes(self.data[at + 9 : at + 13], "little")
            found.append(self.data[at : at + size])
            at += size
        return found


def open_log(data: bytes) -> Log:
    """Whether it has checksums stands at the end of its first event."""
    first = int.from_bytes(data[13:17], "little")
    return Log(data, data[4 + first - 5] == 1)


def mutate(log: Log, rng: random.Random) -> Mutant:
    """One damage out of all kinds; in half of the cases the checksums are made right again."""
    repaired = rng.random() < 0.5
    how = rng.choice(_WHOLE if rng.random() < 0.25 else _INSIDE)
    if how in _WHOLE:
        changed = list(log.events)
        what = how(changed, rng)
        # MariaDB 11.4 does not say where an event inside a transaction stands: nothing tells that two have changed
        # places.
        moved = [raw for raw, before in zip(changed, log.events, strict=False) if raw is not before]
        silent = how is _swap_events and any(raw[13:17] == bytes(4) for raw in moved)
        return _mutant(changed, what, repaired=silent)
    if not repaired and rng.random() < 0.3:
        data = bytearray(log.data)
        what = how(data, 0, rng)
        return Mutant(bytes(data), None, repaired=False, what=f"file: {what}")
    changed = list(log.events)
    place = rng.randrange(len(changed))
    raw = bytearray(changed[place])
    start = 0 if rng.random() < 0.2 else min(e.HEADER_SIZE, len(raw) - 1)
    tail = bytes(raw[-4:]) if log.checksum or place == 0 else b""
    raw = raw[: len(raw) - len(tail)]
    what = how(raw, start, rng)
    kind = raw[4] if len(raw) > 4 else -1
    if repaired:
        raw = _repaired(raw, checksum=bool(tail))
    else:
        raw += tail
    changed[place] = bytes(raw)
    return _mutant(changed, f"event {place} of type {kind}: {what}", repaired=repaired)


def _mutant(events: list[bytes], what: str, *, repaired: bool) -> Mutant:
    return Mutant(e.MAGIC + b"".join(events), tuple(events), repaired, what)


def _repaired(raw: bytearray, *, checksum: bool) -> bytearray:
    """Length and checksum as a server would write them."""
    if len(raw) >= 13:
        raw[9:13] = (len(raw) + 4 * checksum).to_bytes(4, "little")
    if checksum:
        raw += zlib.crc32(raw).to_bytes(4, "little")
    return raw


def _flip(data: bytearray, start: int, rng: random.Random) -> str:
    at = rng.randrange(start, len(data))
    bit = 1 << rng.randrange(8)
    data[at] ^= bit
    return f"bit {bit:#x} at {at} flipped"


def _extreme(data: bytearray, start: int, rng: random.Random) -> str:
    at = rng.randrange(start, len(data))
    data[at] = rng.choice(EXTREMES)
    return f"{data[at]:#x} put at {at}"


def _huge(data: bytearray, start: int, rng: random.Random) -> str:
    width = rng.choice((2, 3, 4, 8))
    at = rng.randrange(start, len(data))
    data[at : at + width] = rng.choice((b"\xff" * width, b"\xff" * (width - 1) + b"\x7f", bytes(width)))
    return f"a number of {width} bytes at {at} made extreme"


def _insert(data: bytearray, start: int, rng: random.Random) -> str:
    at, size = rng.randrange(start, len(data) + 1), rng.randint(1, 8)
    data[at:at] = rng.randbytes(size)
    return f"{size} bytes put in at {at}"


def _delete(data: bytearray, start: int, rng: random.Random) -> str:
    at, size = rng.randrange(start, len(data)), rng.randint(1, 8)
    del data[at : at + size]
    return f"{size} bytes taken out at {at}"


def _double(data: bytearray, start: int, rng: random.Random) -> str:
    at, size = rng.randrange(start, len(data)), rng.randint(1, 40)
    data[at:at] = data[at : at + size]
    return f"{size} bytes doubled at {at}"


def _swap(data: bytearray, start: int, rng: random.Random) -> str:
    one, other = rng.randrange(start, len(data)), rng.randrange(start, len(data))
    data[one], data[other] = data[other], data[one]
    return f"bytes {one} and {other} swapped"


def _cut(data: bytearray, start: int, rng: random.Random) -> str:
    at = rng.randrange(start, len(data) + 1)
    del data[at:]
    return f"cut at {at}"


def _noise(data: bytearray, start: int, rng: random.Random) -> str:
    at, size = rng.randrange(start, len(data)), rng.randint(2, 16)
    data[at : at + size] = rng.randbytes(min(size, len(data) - at))
    return f"{size} bytes of noise at {at}"


def _drop_event(events: list[bytes], rng: random.Random) -> str:
    at = rng.randrange(len(events))
    del events[at]
    return f"event {at} left out"


def _repeat_event(events: list[bytes], rng: random.Random) -> str:
    at = rng.randrange(len(events))
    events.insert(rng.randrange(at, len(events)) + 1, events[at])
    return f"event {at} repeated"


def _swap_events(events: list[bytes], rng: random.Random) -> str:
    one, other = rng.randrange(len(events)), rng.randrange(len(events))
    events[one], events[other] = events[other], events[one]
    return f"events {one} and {other} swapped"


Inside = Callable[[bytearray, int, random.Random], str]
Whole = Callable[[list[bytes], random.Random], str]
_INSIDE: tuple[Inside, ...] = (_flip, _extreme, _huge, _insert, _delete, _double, _swap, _cut, _noise)
_WHOLE: tuple[Whole, ...] = (_drop_event, _repeat_event, _swap_events)
