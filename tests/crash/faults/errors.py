"""What a proxy answers in a server's place: an error of any class, to any statement, done or not.

An error instead of a statement is made by the server itself, of which another statement is asked: one that raises it.
So the session and its transaction are what they would be.  One after a statement that was done takes the place of the
rest of its answer.
"""

from __future__ import annotations

import random
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from testing.servers.sqlserver.wire import packets, tokens

# One or more of each class of https://www.postgresql.org/docs/current/errcodes-appendix.html that is an error.
STATES = (
    "03000", "08000", "08003", "08006", "09000", "0A000", "0B000", "0F000", "0L000", "0P000", "0Z000", "20000", "21000",
    "22000", "22003",
    "22012", "22021", "22P02", "23000", "23505", "24000", "25000", "25001", "25P02", "26000", "27000", "28000", "2B000",
    "2D000", "2F000",
    "34000", "38000", "39000", "3B000", "3D000", "3F000", "40000", "40001", "40P01", "42000", "42501", "42601", "42704",
    "42804", "42P01",
    "42P17", "44000", "53000", "53100", "53200", "53300", "53400", "54000", "54001", "55000", "55006", "55P03", "57000",
    "57014", "57P03",
    "58000", "58030", "58P01", "72000", "F0000", "HV000", "P0000", "P0001", "P0004", "XX000", "XX001", "XX002",
)  # fmt: skip
# The servers' own, of all kinds: locks, resources, limits, broken tables and engines, rights, syntax, shutdown.
NUMBERS = (
    1020, 1021, 1026, 1030, 1033, 1034, 1037, 1040, 1041, 1044, 1053, 1054, 1064, 1105, 1114, 1142, 1143, 1146, 1194,
    1195, 1205, 1206,
    1213, 1226, 1227, 1290, 1317, 1412, 1429, 1436, 1459, 1615, 1637, 1712, 1812, 1814, 1815, 1836, 1932, 1969, 3024,
    4031, 65000,
)  # fmt: skip
# SQL Server's own, with their severity and the English text that identifies them ("Database Engine errors"):
# locks, memory, limits, space, rights, syntax, objects that are gone, conflicts, availability.
SQLSERVER = {
    102: (15, "Incorrect syntax near 'x'."), 207: (16, "Invalid column name 'x'."),
    208: (16, "Invalid object name 'x'."),
    229: (14, "The SELECT permission was denied on the object 'x', database 'x', schema 'dbo'."),
    313: (16, "An insufficient number of arguments were supplied for the procedure or function x."),
    601: (12, "Could not continue scan with NOLOCK due to data movement."),
    701: (17, "There is insufficient system memory in resource pool 'default' to run this query."),
    845: (17, "Time-out occurred while waiting for buffer latch type 2."),
    976: (14, "The target database, 'x', is participating in an availability group and is currently not accessible."),
    1105: (17, "Could not allocate space for object 'x' in database 'x' because the 'PRIMARY' filegroup is full."),
    1204: (19, "The instance of the SQL Server Database Engine cannot obtain a LOCK resource at this time."),
    1205: (13, "Transaction (Process ID 60) was deadlocked on lock resources with another process. Rerun it."),
    1222: (16, "Lock request time out period exceeded."), 2812: (16, "Could not find stored procedure 'x'."),
    3960: (16, "Snapshot isolation transaction aborted due to update conflict."),
    3961: (16, "Snapshot isolation transaction failed in database 'x' because of a concurrent DDL statement."),
    8114: (16, "Error converting data type nvarchar to bigint."), 8134: (16, "Divide by zero error encountered."),
    8152: (16, "String or binary data would be truncated."),
    8645: (17, "A timeout occurred while waiting for memory resources to execute the query."),
    9002: (17, "The transaction log for database 'x' is full due to 'LOG_BACKUP'."),
    10928: (16, "Resource ID: 1. The request limit for the database is 30 and has been reached."),
    22105: (16, "Change tracking is not enabled on table 'x'."), 40501: (16, "The service is currently busy."),
    40613: (17, "Database 'x' on server 'x' is not currently available. Please retry the connection later."),
}  # fmt: skip
DONE = (None, None, 0, 1, 3)
TEXT = "the proxy answers an error"
QUERY, READY, ERROR = b"Q", b"Z", b"E"
_STARTUP = 3 << 16
_OK, _EOF, _ERR, _EOF_SIZE = 0x00, 0xFE, 0xFF, 13  # a packet's size, with its head
_DONE_SIZE = 13  # of TDS, at the end of every answer
_COM_QUERY, _COM_DUMPS = 0x03, (0x12, 0x1E)


class Errors:
    """Which statements are answered with an error; asked for each.

    One for all connections of a proxy; under its lock.
    """

    def __init__(self) -> None:
        self._chance = random.Random(0)
        self._left = 0
        self._share = 1.0
        self._done: Sequence[int | None] = DONE
        self._wanted: Callable[[bytes], bool] = lambda _: True
        self._codes: Sequence[str | int] = ()
        self.answered: list[str | int] = []

    def begin(
        self,
        statements: int,
        codes: Sequence[str | int],
        *,
        chance: random.Random | None = None,
        share: float = 1.0,
        wanted: Callable[[bytes], bool] = lambda _: True,
        done: Sequence[int | None] = DONE,
    ) -> None:
        """Of the next `statements` for which `wanted` is true, about such a `share`; `done`: see `done_before`."""
        self._done = done
        self._chance = chance or random.Random(0)
        self._left, self._codes, self._share, self._wanted = statements, codes, share, wanted

    def choose(self, statement: bytes) -> str | int | None:
        """The code of the error that this one is answered with; None: it is passed on."""
        if not self._left or not self._wanted(statement):
            return None
        self._left -= 1
        if self._chance.random() >= self._share:
            return None
        code = self._chance.choice(self._codes)
        self.answered.append(code)
        return code

    def done_before(self) -> int | None:
        """After how many messages of its answer the error comes; None: the statement is not even done."""
        return self._chance.choice(self._done)


class Messages(ABC):
    """What one client sends, cut into messages; and what its server answers while an error is to take the place of an
    answer.
    """

    def __init__(self, errors: Errors) -> None:
        self._errors = errors
        self._sent = bytearray()
        self._answered = bytearray()
        self._error: str | int | None = None
        self._passed = 0

    def of_client(self, block: memoryview) -> bytes:
        """What the server gets instead."""
        self._sent += block
        out = b""
        while (size := self._size(self._sent)) is not None and len(self._sent) >= size:
            message = bytes(self._sent[:size])
            del self._sent[:size]
            out += self._instead(message)
        return out

    def of_server(self, block: memoryview) -> bytes | memoryview:
        """What the client gets instead."""
        return block if self._error is None else self._cut_short(block)

    @abstractmethod
    def _size(self, sent: bytearray) -> int | None:
        """Of the message that begins there; None: its head is not whole."""

    @abstractmethod
    def _instead(self, message: bytes) -> bytes: ...

    def _cut_short(self, block: memoryview) -> bytes:
        raise NotImplementedError


class PostgresMessages(Messages):
    """Of the Postgres protocol, version 3, without TLS."""

    def __init__(self, errors: Errors) -> None:
        super().__init__(errors)
        self._begun = False

    def _size(self, sent: bytearray) -> int | None:
        """Until the session begins messages have no type."""
        head = 1 if self._begun else 0
        return head + int.from_bytes(sent[head : head + 4], "big") if len(sent) >= head + 4 else None

    def _instead(self, message: bytes) -> bytes:
        if not self._begun:
            self._begun = int.from_bytes(message[4:8], "big") == _STARTUP
            return message
        if message[:1] != QUERY or (code := self._errors.choose(message[5:-1])) is None:
            return message
        before = None if b"START_REPLICATION" in message else self._errors.done_before()
        if before is not None:
            self._error, self._passed = code, before
            return message
        raising = f"DO $tidemark$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = '{TEXT}'; END $tidemark$"
        return _framed(QUERY, raising.encode() + b"\0")

    def _cut_short(self, block: memoryview) -> bytes:
        """Pass on the first `_passed` messages of headers and rows, then the error, then ReadyForQuery."""
        self._answered += block
        out = b""
        while len(self._answered) >= 5 and len(self._answered) >= (
            size := 1 + int.from_bytes(self._answered[1:5], "big")
        ):
            message = bytes(self._answered[:size])
            del self._answered[:size]
            if message[:1] == READY:
                told = f"SERROR\0VERROR\0C{self._error}\0M{TEXT}\0\0"
                self._error = None
                rest, self._answered = bytes(self._answered), bytearray()
                return out + _framed(ERROR, told.encode()) + message + rest
            if self._passed and message[:1] in b"TDHd":
                self._passed -= 1
                out += message
        return out


class MySQLMessages(Messages):
    """Of the MySQL protocol without TLS: a command begins with packet 0 of a count."""

    def __init__(self, errors: Errors) -> None:
        super().__init__(errors)
        self._heads: int | None = None  # packets before the rows that are still to come; None: not known
        self._told = False

    def _size(self, sent: bytearray) -> int | None:
        return 4 + int.from_bytes(sent[:3], "little") if len(sent) >= 4 else None

    def _instead(self, message: bytes) -> bytes:
        command = message[4:5]
        if message[3] or not command or command[0] not in (_COM_QUERY, *_COM_DUMPS):
            return message
        if (code := self._errors.choose(message[5:])) is None:
            return message
        before = self._errors.done_before() if command[0] == _COM_QUERY else None
        if before is not None:
            self._error, self._passed, self._heads = code, before, None
            return message
        signal = f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = '{TEXT}'".encode()
        return struct.pack("<I", len(signal) + 1)[:3] + b"\0" + bytes([_COM_QUERY]) + signal

    def _cut_short(self, block: memoryview) -> bytes:
        """Pass on the columns of a result and `_passed` rows, then the error, and drop the rest; an OK is replaced."""
        self._answered += block
        out = b""
        while self._error is not None and len(self._answered) >= 4:
            size = 4 + int.from_bytes(self._answered[:3], "little")
            if len(self._answered) < size:
                break
            packet = bytes(self._answered[:size])
            del self._answered[:size]
            out += self._of_answer(packet)
        if self._error is None:
            out, self._answered = out + bytes(self._answered), bytearray()
        return out

    def _of_answer(self, packet: bytes) -> bytes:
        first = packet[4]
        if self._heads is None:
            if first == _ERR:
                self._error = None
                return packet
            if first == _OK:
                return self._end(self._told_at(packet))
            self._heads = first + 1  # definitions of columns, and EOF
            return packet
        if self._heads:
            self._heads -= 1
            return packet
        ended = first == _ERR or (first == _EOF and len(packet) < _EOF_SIZE)
        if self._passed and not ended:
            self._passed -= 1
            return packet
        out = b"" if self._told else self._told_at(packet)
        self._told = True
        return self._end(out) if ended else out

    def _end(self, out: bytes) -> bytes:
        self._error, self._told = None, False
        return out

    def _told_at(self, packet: bytes) -> bytes:
        """In place of this packet."""
        assert self._error is not None
        body = bytes([_ERR]) + struct.pack("<H", int(self._error)) + b"#HY000" + TEXT.encode()
        return struct.pack("<I", len(body))[:3] + packet[3:4] + body


class SqlServerMessages(Messages):
    """Of TDS without TLS ([MS-TDS] 2.2): batches of text that fit a packet."""

    def __init__(self, errors: Errors) -> None:
        super().__init__(errors)
        self._between = True  # messages: the next packet begins one

    def _size(self, sent: bytearray) -> int | None:
        return int.from_bytes(sent[2:4], "big") if len(sent) >= packets.HEAD else None

    def _instead(self, message: bytes) -> bytes:
        first, self._between = self._between, bool(message[1] & packets.LAST)
        if message[0] != packets.BATCH or not first or not self._between:
            return message
        begin = packets.HEAD + int.from_bytes(message[packets.HEAD : packets.HEAD + 4], "little")  # ALL_HEADERS
        text = message[begin:].decode("utf-16-le")
        if (code := self._errors.choose(text.encode())) is None:
            return message
        done = self._errors.done_before() is not None
        if done and "TRANSACTION" not in text:  # whose answer says what the session is in
            self._error = code
            return message
        text = _said(code).replace("'", "''")
        raising = f"EXEC sp_emulator @name = 'error', @value = N'{text}', @on = {code}".encode("utf-16-le")
        size = begin + len(raising)
        return message[:2] + size.to_bytes(2, "big") + message[4:begin] + raising

    def _cut_short(self, block: memoryview) -> bytes:
        """The error in the place of all of the answer; an answer to a cancel stays one."""
        self._answered += block
        out = b""
        while (size := self._size(self._answered)) is not None and len(self._answered) >= size:
            packet = bytes(self._answered[:size])
            del self._answered[:size]
            if self._error is None:
                out += packet
            elif packet[1] & packets.LAST:
                out += self._told(packet[-_DONE_SIZE + 1] & tokens.CANCELLED)
                self._error = None
        if self._error is None:
            out, self._answered = out + bytes(self._answered), bytearray()
        return out

    def _told(self, cancelled: int) -> bytes:
        assert isinstance(self._error, int)
        level, _ = SQLSERVER[self._error]
        body = tokens.message(self._error, _said(self._error), level=level)
        body += tokens.done(tokens.FAILED | cancelled)
        return struct.pack(">BBHHBB", packets.REPLY, packets.LAST, packets.HEAD + len(body), 0, 1, 0) + body


def _said(code: str | int) -> str:
    return f"{SQLSERVER[int(code)][1]} ({TEXT})"


def _framed(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


MESSAGES: dict[str, type[Messages]] = {
    "postgres": PostgresMessages, "mysql": MySQLMessages, "sqlserver": SqlServerMessages,
}  # fmt: skip
CODES: dict[str, Sequence[str | int]] = {"postgres": STATES, "mysql": NUMBERS, "sqlserver": tuple(SQLSERVER)}
