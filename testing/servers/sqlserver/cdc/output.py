"""Postgres' logical decoding, plugin pgoutput, protocol 1, values as text ("Logical Replication Message Formats")."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Row = list[str | None]
UNCHANGED = "\0unchanged"


@dataclass(frozen=True)
class Relation:
    oid: int
    columns: tuple[str, ...]


@dataclass
class Change:
    """`operation`: I, U, D; or M, a message of the emulator's with its `prefix` and `content`."""

    operation: str
    lsn: int
    relation: Relation | None = None
    old: Row | None = None
    new: Row | None = None
    prefix: str = ""
    content: str = ""


@dataclass
class Transaction:
    """`committed`: microseconds since 2000-01-01, UTC.  `lsn`: of the commit; `end`: after it."""

    xid: int
    lsn: int
    committed: int
    changes: list[Change]
    end: int = 0


def transactions(rows: Sequence[tuple[str, bytes]], relations: dict[int, Relation]) -> Iterator[Transaction]:
    """rows: place and message.  relations: as far as they are known; those of the messages are added."""
    current: Transaction | None = None
    for place, data in rows:
        kind = data[:1]
        if kind == b"B":
            lsn, committed, xid = struct.unpack_from(">QqI", data, 1)
            current = Transaction(xid, lsn, committed, [])
        elif kind == b"C":
            assert current is not None
            (current.end,) = struct.unpack_from(">Q", data, 10)
            yield current
            current = None
        elif kind == b"R":
            relation = _relation(data)
            relations[relation.oid] = relation
        elif current is not None and kind in b"IUDM" and kind:
            current.changes.append(_change(kind.decode(), _number(place), data, relations))


def _number(place: str) -> int:
    high, _, low = place.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def _relation(data: bytes) -> Relation:
    (oid,) = struct.unpack_from(">I", data, 1)
    _, at = _text(data, 5)
    _, at = _text(data, at)
    (count,) = struct.unpack_from(">H", data, at + 1)
    at, names = at + 3, []
    for _ in range(count):
        name, at = _text(data, at + 1)
        names.append(name)
        at += 8
    return Relation(oid, tuple(names))


def _change(kind: str, lsn: int, data: bytes, relations: dict[int, Relation]) -> Change:
    if kind == "M":
        prefix, at = _text(data, 10)
        return Change(kind, lsn, prefix=prefix, content=data[at + 4 :].decode())
    (oid,) = struct.unpack_from(">I", data, 1)
    change, at = Change(kind, lsn, relations[oid]), 5
    while at < len(data):
        which = data[at : at + 1]
        row, at = _row(data, at + 1)
        if which == b"N":
            change.new = row
        else:
            change.old = row
    if change.new is not None and change.old is not None:
        change.new = [old if new == UNCHANGED else new for old, new in zip(change.old, change.new, strict=True)]
    return change


def _row(data: bytes, at: int) -> tuple[Row, int]:
    (count,) = struct.unpack_from(">H", data, at)
    at += 2
    row: Row = []
    for _ in range(count):
        kind = data[at : at + 1]
        at += 1
        if kind == b"n":
            row.append(None)
        elif kind == b"u":
            row.append(UNCHANGED)
        else:
            (length,) = struct.unpack_from(">I", data, at)
            at += 4
            row.append(data[at : at + length].decode())
            at += length
    return row, at
