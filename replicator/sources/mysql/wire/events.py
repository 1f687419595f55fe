"""Binary log events from their bytes: framing, header, checksum, and the events that carry no rows.

The same code reads packets of a live stream and log files.  Sources: MySQL's libs/mysql/binlog/event, MariaDB's
sql/log_event.h, and the replication protocol pages of MariaDB's knowledge base. Functions raise IndexError, ValueError
or struct.error for bytes that cannot be what they should be; `undecodable` makes an error of one table of these, and
`EventParser.guard` LogCorrupt of those that are of no one table.  A length is held against what there is before
anything of its size is made (invariant 9).
"""

# ruff: noqa: PLR2004 - sizes and codes of the wire format, which the sources above define

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from zlib import crc32

from replicator.errors import EventUndecodable, LogCorrupt
from replicator.model.identifiers import TableId
from replicator.sources.mysql.offset import GtidSet
from replicator.sources.mysql.wire.bounded_slices import inflate, part

QUERY, STOP, ROTATE, INTVAR, RAND, USER_VAR = 2, 3, 4, 5, 13, 14
FORMAT_DESCRIPTION, XID, BEGIN_LOAD_QUERY, EXECUTE_LOAD_QUERY, TABLE_MAP = 15, 16, 17, 18, 19
WRITE_V1, UPDATE_V1, DELETE_V1, INCIDENT, HEARTBEAT, IGNORABLE, ROWS_QUERY = 23, 24, 25, 26, 27, 28, 29
WRITE_V2, UPDATE_V2, DELETE_V2, GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS = 30, 31, 32, 33, 34, 35
XA_PREPARE, PARTIAL_UPDATE, TRANSACTION_PAYLOAD, HEARTBEAT_V2, TAGGED_GTID = 38, 39, 40, 41, 42
ANNOTATE_ROWS, BINLOG_CHECKPOINT, MARIADB_GTID, GTID_LIST, START_ENCRYPTION, QUERY_COMPRESSED = range(160, 166)
WRITE_Z1, UPDATE_Z1, DELETE_Z1, WRITE_Z2, UPDATE_Z2, DELETE_Z2 = range(166, 172)

WRITES = frozenset({WRITE_V1, WRITE_V2, WRITE_Z1, WRITE_Z2})
UPDATES = frozenset({UPDATE_V1, UPDATE_V2, UPDATE_Z1, UPDATE_Z2, PARTIAL_UPDATE})
DELETES = frozenset({DELETE_V1, DELETE_V2, DELETE_Z1, DELETE_Z2})
ROWS = WRITES | UPDATES | DELETES
ROWS_V2 = frozenset({WRITE_V2, UPDATE_V2, DELETE_V2, WRITE_Z2, UPDATE_Z2, DELETE_Z2, PARTIAL_UPDATE})
COMPRESSED_ROWS = frozenset({WRITE_Z1, UPDATE_Z1, DELETE_Z1, WRITE_Z2, UPDATE_Z2, DELETE_Z2})

THREAD_SPECIFIC, ARTIFICIAL, RELAYED, IGNORABLE_FLAG = 0x4, 0x20, 0x40, 0x80
HEADER = struct.Struct("<IBIIIH")
HEADER_SIZE = 19
CHECKSUM_SIZE = 4
MAGIC = b"\xfebin"
ENCRYPTED_MAGIC = b"\xfdbin"
WRAP = 1 << 32  # end positions in headers have 32 bits; one transaction may go past them
_MIN_DESCRIPTION = 57  # bytes of a format description before the sizes of the event types
_MAX_OLD_TYPES = 35  # servers before checksums knew fewer types of events
# Event types that stand between transactions or say nothing: their absence of a parser loses no row.
HARMLESS = frozenset({STOP, ANNOTATE_ROWS, BINLOG_CHECKPOINT, IGNORABLE, ROWS_QUERY, INTVAR, RAND, USER_VAR})


# What the decoders raise for bytes that cannot be what they should be.
UNDECODABLE = (LookupError, ValueError, ArithmeticError, RecursionError, struct.error, zlib.error)
_SPECIAL = frozenset({FORMAT_DESCRIPTION, ROTATE, HEARTBEAT, HEARTBEAT_V2})
# Parts of LOAD DATA as a statement (its EXECUTE_LOAD_QUERY names the table), and events that a server itself adds.
TOLERATED = frozenset({BEGIN_LOAD_QUERY, 9, 11, HEARTBEAT, HEARTBEAT_V2, START_ENCRYPTION})


class BinlogEvent(NamedTuple):
    """One event; `start` and `end` are its place in `file`, `body` is without header and checksum."""

    type: int
    timestamp: int
    server_id: int
    flags: int
    file: str
    start: int
    end: int
    body: bytes

    @property
    def artificial(self) -> bool:
        """True for what the sending server made up: it has no place in the file."""
        return bool(self.flags & ARTIFICIAL) or (self.type == ROTATE and self.timestamp == 0)


class EventParser:
    """Raw events in their order → `BinlogEvent`.  Keeps what the format description says, and the place in the file."""

    def __init__(self, file: str = "", position: int = 4, *, whole: bool = False) -> None:
        """`whole`: a file is read from its beginning, so that no event may be missing (a server may leave some out)."""
        self.file = file
        self.position = position
        self.checksum = False
        self.server_version = ""
        self._whole = whole
        self._described = False

    @property
    def plain(self) -> bool:
        """May the next event be read without `parse`, by its length alone?"""
        return self._described and not self._whole

    def parse(self, raw: bytes | memoryview) -> BinlogEvent:
        """One event; LogCorrupt where length or checksum do not hold."""
        if len(raw) < HEADER_SIZE:
            raise self.corrupt("An event is shorter than its header")
        timestamp, kind, server_id, size, end, flags = HEADER.unpack_from(raw)
        if size != len(raw):
            raise self.corrupt(f"An event of type {kind} says {size} bytes and has {len(raw)}")
        if kind in _SPECIAL:
            return self._parse_special(bytes(raw), timestamp, kind, server_id, end, flags)
        if not self._described:
            raise self.corrupt(f"An event of type {kind} comes before the format description")
        if self.checksum:
            if crc32(memoryview(raw)[:-4]) != int.from_bytes(raw[-4:], "little"):
                raise self.corrupt(f"The checksum of an event of type {kind} does not hold")
            body = bytes(raw[HEADER_SIZE:-4])
        else:
            body = bytes(raw[HEADER_SIZE:])
        start, end = self._place(len(raw), end, flags)
        return BinlogEvent(kind, timestamp, server_id, flags, self.file, start, end, body)

    def _place(self, size: int, end: int, flags: int) -> tuple[int, int]:
        """Where an event begins and ends in its file; the next one begins there.

        LogCorrupt where it cannot stand there.
        """
        at = self.position
        if flags & ARTIFICIAL and not self._whole:
            return at, at
        if end == 0:  # MariaDB 11.4 and later do not say it inside a transaction
            end = at + size
        else:
            end += at - at % WRAP
            wrapped = end - size < at
            end += WRAP if wrapped else 0
            if (wrapped and end - size - at >= WRAP // 2) or (self._whole and end - size != at):
                raise self.corrupt("An event is missing, duplicated or out of order")
        self.position = end
        return end - size, end

    def _parse_special(self, raw: bytes, when: int, kind: int, server_id: int, end: int, flags: int) -> BinlogEvent:
        if kind == FORMAT_DESCRIPTION:
            body = self._format_description(raw, flags)
            if self._whole:
                self._place(len(raw), end, flags)
            elif end and not flags & ARTIFICIAL:
                self.position = max(self.position, end)
            return BinlogEvent(kind, when, server_id, flags, self.file, self.position, self.position, body)
        # Before the first format description nothing says whether these have a checksum: a fitting one is one.
        fits = len(raw) >= HEADER_SIZE + CHECKSUM_SIZE and crc32(raw[:-4]) == int.from_bytes(raw[-4:], "little")
        if self.checksum and not fits:
            raise self.corrupt(f"The checksum of an event of type {kind} does not hold")
        body = raw[HEADER_SIZE:-4] if fits else raw[HEADER_SIZE:]
        if kind != ROTATE:  # its end is where the server's reading stands
            return BinlogEvent(kind, when, server_id, flags, self.file, self.position, end, body)
        if self._whole or (end and when and not flags & ARTIFICIAL):
            self._place(len(raw), end, flags)
        event = BinlogEvent(kind, when, server_id, flags, self.file, self.position, self.position, body)
        self.file, self.position = rotation(body)
        self._described = False
        return event

    def _format_description(self, raw: bytes, flags: int) -> bytes:
        types = len(raw) - HEADER_SIZE - _MIN_DESCRIPTION
        if self._described:
            raise self.corrupt("The file has a second format description")
        if types < 0 or raw[HEADER_SIZE : HEADER_SIZE + 2] != b"\4\0" or raw[HEADER_SIZE + 56] != HEADER_SIZE:
            raise self.corrupt("The format description is not of a supported log version (4)")
        self._described = True
        self._whole = self._whole and not flags & RELAYED  # there, places are those of another server's log
        self.server_version = raw[HEADER_SIZE + 2 : HEADER_SIZE + 52].rstrip(b"\0").decode("ascii", "replace")
        if types <= _MAX_OLD_TYPES and not _knows_checksums(self.server_version):
            self.checksum = False
            return raw[HEADER_SIZE:]
        algorithm = raw[-5]
        if algorithm not in (0, 1):
            raise self.corrupt(f"The log uses checksum algorithm {algorithm}, which is not supported")
        self.checksum = algorithm == 1
        # In a file it has a checksum regardless of the other events; a server that sends the event may change it and
        # keep the checksum.
        holds = crc32(_not_in_use(raw[:-4])) == int.from_bytes(raw[-4:], "little")
        if (self.checksum or self._whole) and not holds:
            raise self.corrupt("The checksum of the format description does not hold")
        return raw[HEADER_SIZE:-5]

    def corrupt(self, what: str) -> LogCorrupt:
        """The error for the present place."""
        return LogCorrupt(f"{what}, after {self.file}:{self.position}.")

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Turns what the decoders raise for malformed bytes into LogCorrupt."""
        try:
            yield
        except UNDECODABLE as error:
            # The error's own text may have a value in it, which may be one that is to be masked.
            raise self.corrupt(f"An event cannot be decoded ({type(error).__name__})") from error


@contextmanager
def undecodable(table: TableId, place: str) -> Iterator[None]:
    """Turns what the decoders raise for malformed bytes into an error of the one table that they are of (invariant
    13).
    """
    try:
        yield
    except UNDECODABLE as error:
        message = f"An event of {table} in the log cannot be decoded ({type(error).__name__}), at {place}."
        raise EventUndecodable(message, table=str(table)) from error


def _knows_checksums(version: str) -> bool:
    numbers = version.split("-", maxsplit=1)[0].split(".")[:3]
    try:
        parsed = tuple(int(number) for number in numbers)
    except ValueError:
        return True
    return parsed >= ((5, 3, 0) if "MariaDB" in version else (5, 6, 1))


def _not_in_use(raw: bytes) -> bytes:
    """The bytes as the checksum was computed: without the flag that says the file is still open."""
    flags = int.from_bytes(raw[17:19], "little") & ~1
    return raw[:17] + flags.to_bytes(2, "little") + raw[19:]


def rotation(body: bytes) -> tuple[str, int]:
    """The file and the place in it where the log goes on."""
    file, position = part(body, 8, 1) and body[8:].split(b"\0")[0].decode(), int.from_bytes(body[:8], "little")
    if not file or position < len(MAGIC):
        message = "rotation"
        raise IndexError(message)
    return file, position


def length_encoded(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer at `at`, and the place after it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}[first] if first in (252, 253, 254) else 0
    if not width or at + 1 + width > len(data):
        message = "length-encoded integer"
        raise IndexError(message)
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


class Query(NamedTuple):
    """A statement in the log with what decides its meaning.  `charset` is the client's collation id (0: unknown).

    `session`: the server and its connection.  `own`: it used something of that session alone, as a temporary table.
    """

    database: str
    sql: bytes
    sql_mode: int
    charset: int
    error_code: int
    session: tuple[int, int] = (0, 0)
    own: bool = False


# Sizes of the status variables that come before the ones wanted here (0 FLAGS2, 1 SQL_MODE, 3 AUTO_INCREMENT, 4
# CHARSET).
_STATUS_SIZES = {0: 4, 1: 8, 3: 4, 4: 6}
_COLLATIONS = 131  # MariaDB 11.2 and later: pairs of collations, where the statement names a character set


def parse_query(event: BinlogEvent) -> Query:
    """QUERY, MariaDB's QUERY_COMPRESSED, EXECUTE_LOAD_QUERY."""
    body = event.body
    database_size, error_code, status_size = struct.unpack_from("<BHH", body, 8)
    start = 13 if event.type != EXECUTE_LOAD_QUERY else 26
    status = part(body, start, status_size)
    name = part(body, start + status_size, database_size + 1)
    if name[-1]:
        message = "the end of a database's name"
        raise IndexError(message)
    sql = body[start + status_size + database_size + 1 :]
    if event.type == QUERY_COMPRESSED:
        sql = inflate(sql)
    sql_mode, charset = _status_variables(status)
    session = (event.server_id, int.from_bytes(body[:4], "little"))
    own = bool(event.flags & THREAD_SPECIFIC)
    return Query(name[:-1].decode("utf-8"), sql, sql_mode, charset, error_code, session, own)


def _status_variables(status: bytes) -> tuple[int, int]:
    """sql_mode and the client's collation; 0 where a query does not say."""
    sql_mode = charset = at = 0
    while at < len(status):
        code = status[at]
        if code == 1:
            sql_mode = int.from_bytes(part(status, at + 1, 8), "little")
        elif code == 4:
            charset = int.from_bytes(part(status, at + 1, 2), "little")
        if code in (2, 6):  # catalog, with and without a closing zero
            at += 2 + status[at + 1] + (code == 2)
        elif code == _COLLATIONS:
            at += 2 + 4 * status[at + 1]
        elif code in _STATUS_SIZES:
            at += 1 + _STATUS_SIZES[code]
        else:
            break
    if at > len(status):
        message = "status variables"
        raise IndexError(message)
    return sql_mode, charset


class Gtid(NamedTuple):
    """Beginning of a transaction.  `text` is empty for an anonymous one; `commit_us` is microseconds since 1970.

    MariaDB only says these: `standalone`: one statement without BEGIN and COMMIT; `prepares`: it ends with an XA
    PREPARE;
    `idle`: its ALTER TABLE has only begun, or failed (binlog_alter_two_phase).
    """

    text: str
    commit_us: int
    standalone: bool = False
    prepares: bool = False
    idle: bool = False


def uuid_text(data: bytes) -> str:
    """Of 16 bytes."""
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def parse_gtid(event: BinlogEvent) -> Gtid:
    """GTID, ANONYMOUS_GTID, tagged GTID and MariaDB's GTID."""
    body, seconds = event.body, event.timestamp * 1_000_000
    if event.type == MARIADB_GTID:
        number, domain, flags = struct.unpack_from("<QIB", body)
        idle = bool(_more_flags(body, flags) & (_START_ALTER | _ROLLBACK_ALTER))
        return Gtid(f"{domain}-{event.server_id}-{number}", seconds, bool(flags & 1), bool(flags & 64), idle)
    if event.type == TAGGED_GTID:
        return _tagged_gtid(body, seconds)
    number = int.from_bytes(part(body, 17, 8), "little")
    text = "" if event.type == ANONYMOUS_GTID else f"{uuid_text(body[1:17])}:{number}"
    if len(body) >= 49 and body[25] == 2:  # logical clock, then the time stamps of MySQL 8
        immediate = int.from_bytes(body[42:49], "little") & ((1 << 55) - 1)
        return Gtid(text, immediate or seconds)
    return Gtid(text, seconds)


_START_ALTER, _ROLLBACK_ALTER = 2, 8


def _more_flags(body: bytes, flags: int) -> int:
    """The second byte of flags of MariaDB's GTID: behind the number of a group commit (2) and an XA id (64, 128)."""
    at = 21 if flags & 2 else 13
    if flags & 192:
        at += 6 + sum(part(body, at + 4, 2))
    return body[at] if at < len(body) else 0


def _variable_int(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer of MySQL's serialization library: trailing ones of the first byte count the further bytes."""
    first, more = data[at], 0
    while more < 8 and first >> more & 1:
        more += 1
    if more == 8:
        return int.from_bytes(part(data, at + 1, 8), "little"), at + 9
    return int.from_bytes(part(data, at, 1 + more), "little") >> (more + 1), at + 1 + more


def _tagged_gtid(body: bytes, seconds: int) -> Gtid:
    """GTID_TAGGED: `version, size, last field that counts, (field id, value)*`; ids as in MySQL's control_events.h."""
    size, at = _variable_int(body, 1)
    _, at = _variable_int(body, at)
    uuid, tag, number, commit_us = "", "", 0, seconds
    while at < min(size, len(body)):
        field, at = _variable_int(body, at)
        if field == 1:
            octets = bytearray()
            for _ in range(16):
                octet, at = _variable_int(body, at)
                octets.append(octet)
            uuid = uuid_text(bytes(octets))
        elif field == 3:
            length, at = _variable_int(body, at)
            tag, at = part(body, at, length).decode("ascii"), at + length
        elif field <= 11:
            value, at = _variable_int(body, at)
            number = value >> 1 if field == 2 else number  # a signed integer: its lowest bit is the sign
            commit_us = value if field == 6 and value else commit_us
        else:
            break
    if not uuid or not number:
        message = "tagged GTID"
        raise IndexError(message)
    return Gtid(f"{uuid}:{tag}:{number}" if tag else f"{uuid}:{number}", commit_us)


def parse_previous_gtids(event: BinlogEvent) -> str:
    """The set executed before this file; the tagged encoding of MySQL 8.3 too."""
    body, result = event.body, GtidSet()
    count = int.from_bytes(body[:8], "little")
    tagged = count >> 56 == 1
    if tagged:
        count = (count >> 8) & ((1 << 48) - 1)
    at = 8
    for _ in range(count):
        source, at = uuid_text(part(body, at, 16)), at + 16
        if tagged:
            length, at = _variable_int(body, at)
            source += f":{part(body, at, length).decode('ascii')}" if length else ""
            at += length
        intervals, at = int.from_bytes(part(body, at, 8), "little"), at + 8
        for first, after in struct.iter_unpack("<QQ", part(body, at, 16 * intervals)):
            if not 0 < first < after:
                message = "interval of GTIDs"
                raise IndexError(message)
            result.add(source, first, after - 1)
        at += 16 * intervals
    return str(result)


def parse_gtid_list(event: BinlogEvent) -> str:
    """MariaDB's GTID_LIST as a position: the last GTID of each domain (the list gives it last)."""
    count = int.from_bytes(event.body[:4], "little") & 0x0FFFFFFF
    last: dict[int, str] = {}
    for domain, server, number in struct.iter_unpack("<IIQ", part(event.body, 4, 16 * count)):
        last[domain] = f"{domain}-{server}-{number}"
    return ",".join(last[domain] for domain in sorted(last))


def parse_xa_prepare(event: BinlogEvent) -> tuple[bool, str]:
    """Whether it commits in one phase, and the XA id as XA COMMIT writes it: `X'gtrid',X'bqual',format`."""
    one_phase, form, size, more = struct.unpack_from("<?III", event.body)
    gtrid, bqual = part(event.body, 13, size), part(event.body, 13 + size, more)
    return one_phase, f"X'{gtrid.hex()}',X'{bqual.hex()}',{form}"
