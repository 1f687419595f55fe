"""The messages of pgoutput that are not rows.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
Rows (I, U, D) are never parsed one by one: see `rows`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from replicator.errors import LogCorrupt

EPOCH_US = 946_684_800_000_000  # 2000-01-01, in microseconds since 1970
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_XLOG = struct.Struct(">xqqq")
_KEEPALIVE = struct.Struct(">xqqb")
_BEGIN = struct.Struct(">xqqI")
_COMMIT = struct.Struct(">xBqqq")
_STREAM_COMMIT = struct.Struct(">xIBqqq")
_MESSAGE = struct.Struct(">Bq")
_COLUMN = struct.Struct(">II")
_U32 = struct.Struct(">I")
XLOG_HEADER = 25
_MARK_COLUMNS = 2


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """`key`: part of the replica identity.  Type and modifier are pg_attribute's."""

    name: str
    type: int
    typmod: int
    key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """What rows that follow are of.  `identity` is pg_class.relreplident."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """A commit: the end of its record, and its time in microseconds since 1970."""

    end: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class Note:
    """A message of pg_logical_emit_message."""

    transactional: bool
    prefix: str
    content: bytes


def moment(microseconds: int) -> datetime:
    """Microseconds since 1970 as a time.  LogCorrupt for what is none."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise LogCorrupt(f"A commit in the source's log has the invalid time {microseconds}.") from None


def data_start(message: bytes) -> int:
    """Of a `w` message: where in the log its data begins."""
    start: int = _unpack(_XLOG, message)[0]
    return start


def keepalive(message: bytes) -> tuple[int, bool]:
    """Of a `k` message: how far the server has read its log, and whether it wants an answer."""
    end, _, reply = _unpack(_KEEPALIVE, message)
    return end, bool(reply)


def begin(payload: bytes) -> tuple[int, int]:
    """(transaction, commit time in microseconds since 1970)."""
    _, commit_us, xid = _unpack(_BEGIN, payload)
    return xid, commit_us + EPOCH_US


def commit(payload: bytes) -> Ending:
    """C: the end of a transaction that was sent whole."""
    _, _, end, commit_us = _unpack(_COMMIT, payload)
    return Ending(end, commit_us + EPOCH_US)


def stream_commit(payload: bytes) -> tuple[int, Ending]:
    """c: (transaction, its end)."""
    xid, _, _, end, commit_us = _unpack(_STREAM_COMMIT, payload)
    return xid, Ending(end, commit_us + EPOCH_US)


def number(payload: bytes, at: int) -> int:
    """An unsigned 32-bit number: a transaction, a relation."""
    if len(payload) < at + 4:
        raise LogCorrupt("A message of the source's log is too short.")
    value: int = _U32.unpack_from(payload, at)[0]
    return value


def relation(payload: bytes, decode: Callable[[bytes], str] | None = None) -> Relation:
    """R.  `decode`: names, where they do not come in UTF-8."""
    oid = number(payload, 1)
    schema, at = _text(payload, 5, decode)
    name, at = _text(payload, at, decode)
    try:
        identity, count = chr(payload[at]), int.from_bytes(payload[at + 1 : at + 3], "big")
        at += 3
        columns = []
        for _ in range(count):
            flags = payload[at]
            column, at = _text(payload, at + 1, decode)
            kind, typmod = _COLUMN.unpack_from(payload, at)
            at += 8
            columns.append(RelationColumn(column, kind, typmod - (1 << 32) * (typmod >> 31), bool(flags & 1)))
    except (IndexError, struct.error):
        raise LogCorrupt("A description of a table in the source's log ends too early.") from None
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def truncated(payload: bytes) -> list[int]:
    """T: the relations."""
    count = number(payload, 1)
    return [number(payload, 6 + 4 * place) for place in range(count)]


def note(payload: bytes) -> Note:
    """M."""
    flags, _ = _unpack(_MESSAGE, payload[1:10])
    prefix, at = _text(payload, 10)
    size = number(payload, at)
    return Note(bool(flags & 1), prefix, payload[at + 4 : at + 4 + size])


def mark_row(payload: bytes) -> tuple[str, str] | None:
    """Return the first two values, both text, of an I or U message without an old tuple.

    None for any other row, which is not a mark.
    """
    found: list[str] = []
    if payload[5:6] != b"N" or int.from_bytes(payload[6:8], "big") < _MARK_COLUMNS:
        return None
    at = 8  # kind, relation, N, number of columns
    for _ in range(_MARK_COLUMNS):
        if payload[at : at + 1] not in {b"t", b"b"}:
            return None
        size = number(payload, at + 1)
        found.append(payload[at + 5 : at + 5 + size].decode("utf-8", "replace"))
        at += 5 + size
    return found[0], found[1]


def _text(payload: bytes, at: int, decode: Callable[[bytes], str] | None = None) -> tuple[str, int]:
    end = payload.find(b"\0", at)
    if end < 0:
        raise LogCorrupt("A name in the source's log does not end.")
    said = payload[at:end]
    return said.decode("utf-8", "replace") if decode is None else decode(said), end + 1


def _unpack(form: struct.Struct, payload: bytes) -> tuple[int, ...]:
    if len(payload) < form.size:
        raise LogCorrupt("A message of the source's log is too short.")
    return form.unpack_from(payload)
