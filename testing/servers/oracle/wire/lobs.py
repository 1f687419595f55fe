"""Large objects of a session: locators that a result gives, and what a client asks of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import Kind
from testing.servers.oracle.wire import values
from testing.servers.oracle.wire.handshake import PARAMETER
from testing.servers.oracle.wire.packets import Reader, Writer

LENGTH, READ, WRITE, MAKE, CHUNK = 1, 2, 0x40, 0x110, 0x4000
DATA = 14  # kind of a message
WIDE = 0x80  # of a locator: the text is UTF-16
CHUNK_SIZE = 8132
NATIONAL_FORM, BLOB_NUMBER = 2, 113
MOST = 100_000  # the oldest go


class Lobs:
    """By number: kind and bytes, text as UTF-16."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._held: dict[int, tuple[Kind, bytes]] = {}

    def bound(self, locator: bytes) -> str | bytes | None:
        """What a bound locator stands for."""
        if not locator:
            return None
        kind, data = self._held[_number(locator)]
        return data if kind.name == "BLOB" else data.decode("utf-16-be")

    def answer(self, answer: Writer, kind: Kind, value: bytes | None) -> None:
        """A value of a row.  value: Postgres' text."""
        if value is None:
            answer.integer(0)
            return
        data = values.unhexed(value) if kind.name == "BLOB" else value.decode().encode("utf-16-be")
        locator = self._keep(kind, data)
        answer.integer(len(locator), len(data) // _unit(kind), CHUNK_SIZE).sized(locator)

    def _keep(self, kind: Kind, data: bytes, number: int = 0) -> bytes:
        """Returns the locator."""
        number = number or next(self._numbers)
        self._held[number] = kind, data
        if len(self._held) > MOST:
            del self._held[next(iter(self._held))]
        wide = 0 if kind.name == "BLOB" else WIDE
        return bytes((0, 38, 0, 4, 0, 8, wide, 0)) + number.to_bytes(8, "big") + bytes(24)

    def call(self, message: Reader) -> Callable[[], Writer]:
        """Read a call; what is returned does it, and gives the answer up to the call's end."""
        message.u8()
        size = message.integer()
        message.skip("uiiiuuu")
        operation = message.integer()
        message.skip("uu")
        offset, form = message.integer(), message.integer()
        with_amount = message.u8()
        message.raw(6)
        locator = message.raw(size)
        if operation == MAKE:
            message.integer()
        data = b""
        if operation == WRITE:
            message.u8()
            data = message.sized() or b""
        amount = message.integer() if with_amount else 0

        def done() -> Writer:
            if operation == MAKE:
                national = offset == NATIONAL_FORM
                name = "BLOB" if form == BLOB_NUMBER else "NCLOB" if national else "CLOB"
                answer = Writer().u8(PARAMETER)
                answer += self._keep(Kind(name), b"")
                return answer.integer(0).u8(0)
            answer = Writer()
            given = self._done(answer, operation, locator, (offset, amount), data)
            answer.u8(PARAMETER)
            answer += locator
            return answer.integer(given) if with_amount else answer

        return done

    def _done(self, answer: Writer, operation: int, locator: bytes, place: tuple[int, int], data: bytes) -> int:
        """place: offset from 1 and amount, in characters or bytes.  Returns the amount that is answered."""
        offset, amount = place
        number = _number(locator)
        if number not in self._held:
            raise OracleError(22288)
        kind, held = self._held[number]
        unit = _unit(kind)
        start = (offset - 1) * unit
        if operation == READ:
            piece = held[start : start + amount * unit]
            if piece:
                answer.u8(DATA).sized(piece)
            return len(piece) // unit
        if operation == WRITE:
            self._keep(kind, held[:start].ljust(start, b"\0") + data + held[start + len(data) :], number)
            return amount
        if operation not in (LENGTH, CHUNK):
            raise unsupported(f"LOB operation {operation:#x}")
        return len(held) // unit if operation == LENGTH else CHUNK_SIZE


def _number(locator: bytes) -> int:
    return int.from_bytes(locator[8:16], "big")


def _unit(kind: Kind) -> int:
    return 1 if kind.name == "BLOB" else 2
