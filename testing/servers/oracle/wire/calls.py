"""A session's calls: execute, fetch, LOB reads, commit, cancel; how they are asked and answered.

Source: the thin driver's messages/*.pyx.
"""

from __future__ import annotations

import itertools
import queue
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import LOBS, Kind
from testing.servers.oracle.wire import values
from testing.servers.oracle.wire.handshake import ERROR, FUNCTION, STATUS
from testing.servers.oracle.wire.lobs import Lobs
from testing.servers.oracle.wire.packets import (
    BREAK,
    DATA,
    INTERRUPT,
    MARKER,
    RESET,
    Body,
    Channel,
    Gone,
    Reader,
    Writer,
)
from testing.servers.oracle.wire.rows import NATIONAL_FORM, Column, described, put

HEADER, ROW, OUTPUTS, PIGGYBACK = 6, 7, 11, 17
EXECUTE, FETCH, REEXECUTE, REEXECUTE_FETCH, LOB, PING, LOGOFF, COMMIT, ROLLBACK = 94, 5, 4, 78, 96, 147, 9, 14, 15
CLOSE_CURSORS, ATTRIBUTES, SCHEMA = 105, 135, 152
PARSE, DEFINE, RUN, FETCHES, COMMITS, DESCRIBES, BATCH_ERRORS = 1, 0x10, 0x20, 0x40, 0x100, 0x20000, 0x80000
COMMITS_AGAIN = 1
NO_DATA = 1403
LONG_LIMIT = 4000  # bytes of a bound value that stands among the others
IN, OUT = 32, 16
RETURNING = re.compile(r"\bRETURNING\b[^']*\bINTO\s*:", re.IGNORECASE)


@dataclass(frozen=True)
class Bind:
    """A bound value; value: text in Postgres' form, bytes of a RAW or BLOB, None for NULL."""

    kind: Kind
    value: str | bytes | None


@dataclass
class Outcome:
    """Of a statement.  rows: Postgres' texts; count: of rows changed; outputs: of a block's out binds, by place."""

    columns: tuple[Column, ...] | None = None
    rows: Iterator[Sequence[bytes | None]] = field(default_factory=lambda: iter(()))
    count: int = 0
    outputs: dict[int, Bind] = field(default_factory=dict)


class Session(Protocol):
    """The engine's interface for calls.  Every refusal is an OracleError."""

    @property
    def in_transaction(self) -> bool: ...
    def describe(self, sql: str) -> tuple[Column, ...] | None: ...
    def answered_error(self) -> tuple[OracleError, bool] | None: ...
    def execute(self, sql: str, binds: Sequence[Bind]) -> Outcome: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def cancel(self) -> None: ...
    def set_schema(self, name: str) -> None: ...


@dataclass
class _Cursor:
    sql: str
    binds: list[_Place] = field(default_factory=list)
    defines: list[_Place] = field(default_factory=list)
    outcome: Outcome | None = None
    described: tuple[Column, ...] | None = None
    fetched: int = 0


@dataclass(frozen=True)
class _Place:
    """Of a bind or a define: the type's number, its character set form, bytes."""

    number: int
    form: int
    size: int

    @property
    def kind(self) -> Kind:
        name = values.NAMES.get(self.number)
        if name is None:
            raise unsupported(f"a bound value of type {self.number}")
        national = {"VARCHAR2": "NVARCHAR2", "CHAR": "NCHAR", "CLOB": "NCLOB"}
        return Kind(national[name] if self.form == NATIONAL_FORM else name)


class Calls:
    """Serves one connection until it ends."""

    def __init__(self, channel: Channel, session: Session) -> None:
        self._channel, self._session = channel, session
        self._cursors: dict[int, _Cursor] = {}
        self._numbers, self._lobs = itertools.count(1), Lobs()
        self._packets: queue.Queue[tuple[int, bytes] | None] = queue.Queue()
        self._broken = threading.Event()

    def serve(self) -> None:
        """Returns when the client is gone or logs off."""
        threading.Thread(target=self._receive, daemon=True).start()
        while (packet := self._packets.get()) is not None:
            kind, body = packet
            try:
                if kind == MARKER:
                    self._reset()
                elif kind == DATA and not self._message(body):
                    return
            except Gone:
                return

    def _receive(self) -> None:
        """A break cancels what runs."""
        try:
            while True:
                packet = self._channel.receive()
                if packet.kind == MARKER and packet.body[2] in (BREAK, INTERRUPT):
                    self._broken.set()
                    self._session.cancel()
                self._packets.put((packet.kind, packet.body))
        except Gone:
            self._session.cancel()
            self._packets.put(None)

    def _reset(self) -> None:
        """The dance after a break: marker, the client's reset, ours, an error."""
        self._channel.marker(BREAK)
        while True:
            packet = self._packets.get()
            if packet is None:
                raise Gone
            if packet[0] == MARKER and packet[1][2] == RESET:
                break
        self._broken.clear()
        self._channel.marker(RESET)
        self._channel.send(DATA, self._error(OracleError(1013)))

    def _message(self, body: bytes) -> bool:
        """Answer one; False after a logoff.  A message that goes on in another packet is put together first."""
        while True:
            try:
                answer = self._answered(Reader(body))
                break
            except EOFError:
                packet = self._packets.get()
                if packet is None or packet[0] != DATA:
                    raise Gone from None
                body += packet[1]
                while not self._packets.empty() and (more := self._packets.get()) and more[0] == DATA:
                    body += more[1]
            except OracleError as error:
                answer = self._error(error)
                break
            except Gone:
                raise
            except Exception as error:  # of the emulator itself: its log says where, and the session ends
                self._channel.send(DATA, self._error(OracleError(600, f"{type(error).__name__} {error}")))
                raise
        if answer is None:
            self._channel.send(DATA, self._status())
            return False
        if not self._broken.is_set():  # after a break, the only answer is the one of `_reset`
            self._channel.send(DATA, answer)
        return True

    def _answered(self, message: Reader) -> Body | None:
        done: list[Callable[[], object]] = []
        while (kind := message.u8()) == PIGGYBACK:
            done.append(self._piggyback(message))
        if kind != FUNCTION:
            raise Gone
        code = message.u8()
        message.u8()
        call = self._parsed(code, message)
        for one in done:
            one()
        answered = self._session.answered_error() if code in _ANSWERED else None
        if answered is None:
            return call()
        if answered[1]:
            call()
        raise answered[0]

    def _parsed(self, code: int, message: Reader) -> Callable[[], Body | None]:
        """Read all of a call before anything is done: what is missing may come in another packet."""
        if code in _SIMPLE:
            return lambda: self._simple(code)
        if code == EXECUTE:
            return self._execute_call(message)
        if code in (REEXECUTE, REEXECUTE_FETCH):
            return self._again_call(message, fetches=code == REEXECUTE_FETCH)
        if code == FETCH:
            number, count = message.integer(), message.integer()
            return lambda: self._fetched(number, count)
        if code == LOB:
            done = self._lobs.call(message)
            return lambda: done() + self._error(None)
        raise unsupported(f"call {code} of the protocol")

    def _simple(self, code: int) -> Body | None:
        if code == COMMIT:
            self._session.commit()
        elif code == ROLLBACK:
            self._session.rollback()
        return None if code == LOGOFF else self._status()

    def _status(self) -> Body:
        return Writer().u8(STATUS).integer(self._flags, 0)

    @property
    def _flags(self) -> int:
        return 2 if self._session.in_transaction else 0

    def _piggyback(self, message: Reader) -> Callable[[], object]:
        code = message.u8()
        message.u8()
        if code == CLOSE_CURSORS:
            message.u8()
            closed = [message.integer() for _ in range(message.integer())]
            return lambda: [self._cursors.pop(one, None) for one in closed]
        if code == SCHEMA:
            message.u8()
            name = message.twice_sized().decode()
            return lambda: self._session.set_schema(name)
        if code == LOB:
            message.u8()
            size = message.integer()
            message.skip("uiiiuuuiuiiiuuiuiui")
            message.raw(size)
            return lambda: None
        if code == ATTRIBUTES:
            message.skip("uu")
            message.integer()
            sizes = [(message.u8(), message.integer())[1] for _ in range(3)]
            message.skip("uiui")
            sizes += [(message.u8(), message.integer())[1]]
            message.skip("uiui")
            sizes += [(message.u8(), message.integer())[1]]
            for size in sizes:
                if size:
                    message.sized()
            return lambda: None
        raise unsupported(f"piggyback {code} of the protocol")

    def _execute_call(self, message: Reader) -> Callable[[], Body]:
        options, number = message.integer(), message.integer()
        message.u8()
        size = message.integer()
        message.skip("uiuui")
        iterations = message.integer()
        message.skip("iu")
        binds = message.integer()
        message.skip("uuuuuu")
        defines = message.integer()
        message.skip("iuuuiuiiuiuuiuiuui")
        sql = (message.sized() or b"").decode() if size else None
        if sql is not None and RETURNING.search(sql):
            raise unsupported("RETURNING INTO")
        numbers = [message.integer() for _ in range(13)]
        rows: list[list[Bind]] = []
        places: list[_Place] = []
        if defines:
            places = [self._place(message) for _ in range(defines)]
        elif binds:
            places = [self._place(message) for _ in range(binds)]
            while message.left:
                if message.u8() != ROW:
                    raise Gone
                rows.append(self._bound(message, places))
            if len(rows) < (1 if numbers[7] else numbers[1]):
                raise EOFError
        else:
            rows = [[] for _ in range(1 if numbers[7] else numbers[1])]

        def call() -> Body:
            nonlocal number
            if sql is not None:
                number = number or next(self._numbers)
                self._cursors[number] = _Cursor(sql)
            cursor = self._cursors.get(number)
            if cursor is None:
                raise OracleError(1003)
            if defines:
                cursor.defines = places
            else:
                cursor.binds = places
            return self._executed(number, cursor, options, rows, iterations)

        return call

    def _again_call(self, message: Reader, *, fetches: bool) -> Callable[[], Body]:
        number, count = message.integer(), message.integer()
        first, second = message.integer(), message.integer()
        del first
        cursor = self._cursors.get(number)
        if cursor is None:
            raise OracleError(1003)
        rows = []
        if cursor.binds:
            while message.left:
                message.u8()
                rows.append(self._bound(message, cursor.binds))
            if len(rows) < (1 if fetches else count):
                raise EOFError
        else:
            rows = [[] for _ in range(1 if fetches else count)]
        options = RUN | (FETCHES if fetches else 0) | (COMMITS if second & COMMITS_AGAIN else 0)
        return lambda: self._executed(number, cursor, options, rows, count)

    def _place(self, message: Reader) -> _Place:
        number = message.u8()
        flag = message.u8()
        message.skip("uu")
        size = message.integer()
        message.integer()
        message.integer()
        if message.twice_sized():
            raise unsupported("bound objects")
        message.skip("ii")
        form = message.u8()
        message.skip("ii")
        if flag & 0x40:
            raise unsupported("bound arrays")
        return _Place(number, form, size)

    def _bound(self, message: Reader, places: Sequence[_Place]) -> list[Bind]:
        """A row; long values stand after the others."""
        found: dict[int, Bind] = {}
        order = sorted(range(len(places)), key=lambda at: places[at].size > LONG_LIMIT)
        for at in order:
            place = places[at]
            kind = place.kind
            if kind.name in LOBS:
                locator = message.twice_sized()
                found[at] = Bind(kind, self._lobs.bound(locator))
                continue
            data = message.sized()
            found[at] = Bind(kind, None if data is None else values.decode(kind, data))
        return [found[at] for at in range(len(places))]

    def _executed(self, number: int, cursor: _Cursor, options: int, rows: list[list[Bind]], prefetch: int) -> Body:
        if options & DEFINE or not options & RUN:
            columns = self._session.describe(cursor.sql) if options & DESCRIBES else None
            return (described(columns) if columns else Writer()) + self._ended(number)
        if options & BATCH_ERRORS:
            raise unsupported("batch errors")
        count = 0
        try:
            for row in rows or [[]]:
                cursor.outcome = self._session.execute(cursor.sql, row)
                count += cursor.outcome.count
        except OracleError as error:
            return self._error(error, number, count)
        return self._outcome(number, cursor, options, prefetch, count)

    def _outcome(self, number: int, cursor: _Cursor, options: int, prefetch: int, count: int) -> Body:
        """Outputs, the description where it is another one, and the first rows."""
        outcome, cursor.fetched = cursor.outcome, 0
        assert outcome is not None
        answer = Writer()
        if outcome.outputs:
            answer += self._outputs(outcome, len(cursor.binds))
        if options & COMMITS:
            self._session.commit()
        if outcome.columns is None:
            return answer + self._ended(number, count)
        if outcome.columns != cursor.described:
            cursor.described = outcome.columns
            answer += described(outcome.columns)
            if any(one.kind.name in LOBS for one in outcome.columns):
                cursor.defines = []
                return answer + self._ended(number)
        if options & FETCHES:
            return answer + self._rows(number, cursor, prefetch)
        return answer + self._ended(number)

    def _fetched(self, number: int, count: int) -> Body:
        cursor = self._cursors.get(number)
        if cursor is None or cursor.outcome is None:
            raise OracleError(1003)
        return self._rows(number, cursor, count)

    def _rows(self, number: int, cursor: _Cursor, count: int) -> Body:
        """Return up to `count` rows, with NO_DATA behind the last row of the result."""
        assert cursor.outcome is not None
        assert cursor.outcome.columns is not None
        found = list(itertools.islice(cursor.outcome.rows, count))
        answer = Writer()
        if found:
            answer.u8(HEADER, 0).integer(0, 0, 0, 0, 0, 0)
        for row in found:
            answer.u8(ROW)
            for at, (column, value) in enumerate(zip(cursor.outcome.columns, row, strict=True)):
                define = cursor.defines[at].number if at < len(cursor.defines) else 0
                put(answer, self._lobs, column.kind, define, value)
        cursor.fetched += len(found)
        if len(found) < count:
            return answer + self._error(OracleError(NO_DATA), number, cursor.fetched)
        return answer + self._ended(number, cursor.fetched)

    def _outputs(self, outcome: Outcome, count: int) -> Body:
        answer = Writer().u8(OUTPUTS, 0).integer(count, 0, 0, 0, 0, 0)
        answer.u8(*(OUT if at in outcome.outputs else IN for at in range(count))).u8(ROW)
        for at in sorted(outcome.outputs):
            bind = outcome.outputs[at]
            text = bind.value.encode() if isinstance(bind.value, str) else bind.value
            answer.sized(None if text is None else values.encode(bind.kind, text)).integer(0)
        return answer

    def _ended(self, number: int, count: int = 0) -> Body:
        return self._error(None, number, count)

    def _error(self, error: OracleError | None, number: int = 0, count: int = 0) -> Body:
        """A call's end, with or without an error."""
        code = error.number if error else 0
        answer = Writer().u8(ERROR).integer(self._flags, 0, count & 0xFFFF, code & 0xFFFF, 0, 0, number)
        answer.integer(error.at if error else 0).u8(0, 0, 0, 0, 0, 0)
        answer.integer(0, 0).u8(0).integer(0, 0, 0).u8(0, 0).integer(0, 0, 0)
        answer.integer(0, 0, 0, code, count)
        return answer.sized(error.message.encode()) if error else answer


_SIMPLE = (PING, LOGOFF, COMMIT, ROLLBACK)
_ANSWERED = (EXECUTE, REEXECUTE, REEXECUTE_FETCH, FETCH, COMMIT)
