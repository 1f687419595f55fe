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
from testing.servers.oracle.engine.kinds import LOBS, NATIONAL, Kind
from testing.servers.oracle.wire import values
from testing.servers.oracle.wire.handshake import ERROR, FUNCTION, PARAMETER, STATUS, UTF8, UTF16
from testing.servers.oracle.wire.packets import BREAK, DATA, INTERRUPT, MARKER, RESET, Channel, Gone, Reader, Writer

HEADER, ROW, OUTPUTS, LOB_DATA, DESCRIPTION, PIGGYBACK = 6, 7, 11, 14, 16, 17
EXECUTE, FETCH, REEXECUTE, REEXECUTE_FETCH, LOB, PING, LOGOFF, COMMIT, ROLLBACK = 94, 5, 4, 78, 96, 147, 9, 14, 15
CLOSE_CURSORS, ATTRIBUTES, SCHEMA = 105, 135, 152
PARSE, DEFINE, RUN, FETCHES, COMMITS, DESCRIBES, BATCH_ERRORS = 1, 0x10, 0x20, 0x40, 0x100, 0x20000, 0x80000
COMMITS_AGAIN = 1
NO_DATA = 1403
LONG_LIMIT = 4000  # bytes of a bound value that stands among the others
IN, OUT = 32, 16
LOB_LENGTH, LOB_READ, LOB_WRITE, LOB_MAKE, LOB_CHUNK = 1, 2, 0x40, 0x110, 0x4000
LOB_FREE = 0x80111
WIDE = 0x80  # of a locator: the text is UTF-16
CHUNK_SIZE = 8132
RETURNING = re.compile(r"\bRETURNING\b[^']*\bINTO\s*:", re.IGNORECASE)
LONG_TYPES = {8: "LONG", 24: "LONG RAW"}


@dataclass(frozen=True)
class Column:
    """Of a result."""

    name: str
    kind: Kind
    nullable: bool = True


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
    """What a call asks of the engine.  Whatever is refused is an OracleError."""

    @property
    def in_transaction(self) -> bool: ...
    def describe(self, sql: str) -> tuple[Column, ...] | None: ...
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
    ahead: list[Sequence[bytes | None]] = field(default_factory=list)


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
        return Kind({"VARCHAR2": "NVARCHAR2", "CHAR": "NCHAR", "CLOB": "NCLOB"}[name] if self.form == 2 else name)


class Calls:
    """Serves one connection until it ends."""

    def __init__(self, channel: Channel, session: Session) -> None:
        self._channel, self._session = channel, session
        self._cursors: dict[int, _Cursor] = {}
        self._numbers, self._lob_numbers = itertools.count(1), itertools.count(1)
        self._lobs: dict[int, tuple[Kind, bytes]] = {}
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
        if not self._broken.is_set():  # whoever breaks off hears of that, and nothing else
            self._channel.send(DATA, answer)
        return True

    def _answered(self, message: Reader) -> bytes | None:
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
        return call()

    def _parsed(self, code: int, message: Reader) -> Callable[[], bytes | None]:
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
            return self._lob_call(message)
        raise unsupported(f"call {code} of the protocol")

    def _simple(self, code: int) -> bytes | None:
        if code == COMMIT:
            self._session.commit()
        elif code == ROLLBACK:
            self._session.rollback()
        return None if code == LOGOFF else self._status()

    def _status(self) -> bytes:
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

    def _execute_call(self, message: Reader) -> Callable[[], bytes]:
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

        def call() -> bytes:
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

    def _again_call(self, message: Reader, *, fetches: bool) -> Callable[[], bytes]:
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
                lob = self._lobs[int.from_bytes(locator[8:16], "big")] if locator else None
                found[at] = Bind(kind, self._text_of(lob) if lob else None)
                continue
            data = message.sized()
            found[at] = Bind(kind, None if data is None else values.decode(kind, data))
        return [found[at] for at in range(len(places))]

    @staticmethod
    def _text_of(lob: tuple[Kind, bytes]) -> str | bytes:
        return lob[1] if lob[0].name == "BLOB" else lob[1].decode("utf-16-be")

    def _executed(self, number: int, cursor: _Cursor, options: int, rows: list[list[Bind]], prefetch: int) -> bytes:
        if options & DEFINE:
            return self._ended(number, cursor)
        if not options & RUN:
            columns = self._session.describe(cursor.sql) if options & DESCRIBES else None
            return (self._described(columns) if columns else Writer()) + self._ended(number, cursor)
        if options & BATCH_ERRORS:
            raise unsupported("batch errors")
        count = 0
        try:
            for row in rows or [[]]:
                cursor.outcome = self._session.execute(cursor.sql, row)
                count += cursor.outcome.count
        except OracleError as error:
            return self._error(error, number, count)
        outcome = cursor.outcome
        assert outcome is not None
        answer = Writer()
        cursor.fetched, cursor.ahead = 0, []
        if outcome.outputs:
            answer += self._outputs(outcome, len(cursor.binds))
        if options & COMMITS:
            self._session.commit()
        if outcome.columns is None:
            return answer + self._ended(number, cursor, count)
        if outcome.columns != cursor.described:
            cursor.described = outcome.columns
            answer += self._described(outcome.columns)
            if any(one.kind.name in LOBS for one in outcome.columns):
                cursor.defines = []
                return answer + self._ended(number, cursor)
        if options & FETCHES:
            return answer + self._rows(number, cursor, prefetch)
        return answer + self._ended(number, cursor)

    def _fetched(self, number: int, count: int) -> bytes:
        cursor = self._cursors.get(number)
        if cursor is None or cursor.outcome is None:
            raise OracleError(1003)
        return self._rows(number, cursor, count)

    def _rows(self, number: int, cursor: _Cursor, count: int) -> bytes:
        """So many, and the end's sign where there are no more."""
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
                self._value(answer, column.kind, define, value)
        cursor.fetched += len(found)
        if len(found) < count:
            return answer + self._error(OracleError(NO_DATA), number, cursor.fetched)
        return answer + self._ended(number, cursor, cursor.fetched)

    def _value(self, answer: Writer, kind: Kind, define: int, value: bytes | None) -> None:
        """define: the type's number that the client wants instead, or 0."""
        if define in LONG_TYPES or kind.name.startswith("LONG"):
            form = Kind("RAW") if kind.name in ("BLOB", "LONG RAW") else Kind("VARCHAR2")
            if kind.name in NATIONAL:
                form = Kind("NVARCHAR2")
            answer.sized(None if value is None else values.encode(form, value)).integer(0 if value else -1, 0)
        elif kind.name in LOBS:
            self._locator(answer, kind, value)
        elif kind.name == "ROWID":
            if value is None:
                answer.u8(0)
                return
            item, file, block, row = values.rowid_parts(value.decode())
            answer.u8(13).integer(item, file).u8(0).integer(block, row)
        elif kind.name == "XMLTYPE":
            self._xml(answer, value)
        else:
            answer.sized(None if value is None else values.encode(kind, value))

    def _locator(self, answer: Writer, kind: Kind, value: bytes | None) -> None:
        if value is None:
            answer.integer(0)
            return
        data = values.unhexed(value) if kind.name == "BLOB" else value.decode().encode("utf-16-be")
        locator = self._keep(kind, data)
        answer.integer(len(locator), len(data) // (1 if kind.name == "BLOB" else 2), CHUNK_SIZE).sized(locator)

    def _keep(self, kind: Kind, data: bytes, number: int = 0) -> bytes:
        """As a LOB of the session; returns its locator."""
        number = number or next(self._lob_numbers)
        self._lobs[number] = kind, data
        if len(self._lobs) > 100_000:
            del self._lobs[next(iter(self._lobs))]
        wide = 0 if kind.name == "BLOB" else WIDE
        return bytes((0, 38, 0, 4, 0, 8, wide, 0)) + number.to_bytes(8, "big") + bytes(24)

    @staticmethod
    def _xml(answer: Writer, value: bytes | None) -> None:
        answer.integer(0, 0, 0, 0)
        if value is None:
            answer.integer(0, 0)
            return
        size = len(value) + 7 + 5
        image = bytes((0x84, 1, 254)) + size.to_bytes(4, "big") + bytes((1,)) + (4).to_bytes(4, "big") + value
        answer.integer(len(image), 0).sized(image)

    def _outputs(self, outcome: Outcome, count: int) -> bytes:
        answer = Writer().u8(OUTPUTS, 0).integer(count, 0, 0, 0, 0, 0)
        answer.u8(*(OUT if at in outcome.outputs else IN for at in range(count))).u8(ROW)
        for at in sorted(outcome.outputs):
            bind = outcome.outputs[at]
            text = bind.value.encode() if isinstance(bind.value, str) else bind.value
            answer.sized(None if text is None else values.encode(bind.kind, text)).integer(0)
        return answer

    def _described(self, columns: Sequence[Column]) -> bytes:
        answer = Writer().u8(DESCRIPTION, 0).integer(0, len(columns))
        if columns:
            answer.u8(0)
        for at, column in enumerate(columns):
            kind = column.kind
            if not kind.known:
                raise OracleError(932, f"expected - got {kind.owner}.{kind.name}")
            size = kind.bytes if kind.name in ("VARCHAR2", "CHAR", "NVARCHAR2", "NCHAR", "RAW") else 0
            size = size or values.SIZES.get(kind.name, 4000)
            form = 2 if kind.name in NATIONAL else 1 if kind.name in ("VARCHAR2", "CHAR", "CLOB", "LONG") else 0
            scale = kind.scale if kind.scale is not None else -127 if kind.name in ("NUMBER", "FLOAT") else 0
            if kind.name == "NUMBER" and kind.precision and kind.scale is None:
                scale = 0
            answer.u8(values.NUMBERS[kind.name], 0, (kind.precision or 0) & 0xFF, scale & 0xFF)
            answer.integer(size, 0, 0)
            answer.integer(0, 0, UTF16 if form == 2 else UTF8 if form else 0).u8(form)
            answer.integer(kind.length, 0).u8(int(column.nullable), len(column.name.encode()) & 0xFF)
            answer.twice_sized(column.name)
            xml = kind.name == "XMLTYPE"
            answer.twice_sized("SYS" if xml else None).twice_sized("XMLTYPE" if xml else None).integer(at + 1, 0)
        return answer.integer(0, 0, 0, 0, 0, 0)

    def _ended(self, number: int, cursor: _Cursor, count: int = 0) -> bytes:
        del cursor
        return self._error(None, number, count)

    def _error(self, error: OracleError | None, number: int = 0, count: int = 0) -> bytes:
        """A call's end, with or without an error."""
        code = error.number if error else 0
        answer = Writer().u8(ERROR).integer(self._flags, 0, count & 0xFFFF, code & 0xFFFF, 0, 0, number)
        answer.integer(error.at if error else 0).u8(0, 0, 0, 0, 0, 0)
        answer.integer(0, 0).u8(0).integer(0, 0, 0).u8(0, 0).integer(0, 0, 0)
        answer.integer(0, 0, 0, code, count)
        return answer.sized(error.message.encode()) if error else answer

    def _lob_call(self, message: Reader) -> Callable[[], bytes]:
        message.u8()
        size = message.integer()
        message.skip("uiiiuuu")
        operation = message.integer()
        message.skip("uu")
        offset, form = message.integer(), message.integer()
        with_amount = message.u8()
        message.raw(6)
        locator = message.raw(size)
        if operation == LOB_MAKE:
            message.integer()
        data = b""
        if operation == LOB_WRITE:
            message.u8()
            data = message.sized() or b""
        amount = message.integer() if with_amount else 0

        def call() -> bytes:
            where = locator
            answer, given = Writer(), amount
            if operation == LOB_MAKE:
                where = self._keep(Kind({113: "BLOB"}.get(form, "NCLOB" if offset == 2 else "CLOB")), b"")
            else:
                number = int.from_bytes(locator[8:16], "big")
                if number not in self._lobs:
                    raise OracleError(22288)
                kind, held = self._lobs[number]
                unit = 1 if kind.name == "BLOB" else 2
                start = (offset - 1) * unit
                if operation == LOB_READ:
                    piece = held[start : start + given * unit]
                    given = len(piece) // unit
                    if piece:
                        answer.u8(LOB_DATA).sized(piece)
                elif operation == LOB_LENGTH:
                    given = len(held) // unit
                elif operation == LOB_CHUNK:
                    given = CHUNK_SIZE
                elif operation == LOB_WRITE:
                    self._keep(kind, held[:start].ljust(start, b"\0") + data + held[start + len(data) :], number)
                else:
                    raise unsupported(f"LOB operation {operation:#x}")
            answer.u8(PARAMETER)
            answer += where
            if operation == LOB_MAKE:
                answer.integer(0).u8(0)
            elif with_amount:
                answer.integer(given)
            return answer + self._error(None)

        return call


_SIMPLE = (PING, LOGOFF, COMMIT, ROLLBACK)
