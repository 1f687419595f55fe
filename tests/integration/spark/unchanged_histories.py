"""Histories of a source's rows, as its log tells them: UPDATEs may leave out what they did not change.

The source itself is the model: a dict of whole rows that every event changes at once.  What the target must hold is
what the dict holds; nothing of the fold is repeated here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa

from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.state.journal import Segment
from tests.integration.spark.lake import Lake
from tests.staged import TS, schema_of

Row = tuple[Any, ...]
Key = tuple[int, str]
WIDE = {"doc": "string", "id": "int", "a": "int", "blob": "binary", "part": "string", "note": "string"}
SCHEMA = replace(schema_of(WIDE, ["id", "part"], TableId("public", "docs")), partial=True)
DOC, ID, A, BLOB, PART, NOTE = range(6)
LARGE = (DOC, BLOB, NOTE)  # what an UPDATE may leave out


@dataclass(frozen=True)
class Event:
    seq: int
    op: str
    before: Row | None
    row: Row | None
    left_out: tuple[int, ...] = ()


def key_of(row: Row) -> Key:
    return row[ID], row[PART]


def event(seq: int, op: str, before: Row | None, row: Row | None, *left_out: int) -> Event:
    """As the log has it: of the before image the key only, and null where a column is left out."""
    keys = None if before is None else tuple(v if i in {ID, PART} else None for i, v in enumerate(before))
    if row is not None:
        row = tuple(None if i in left_out or (op == "DELETE" and i not in {ID, PART}) else v for i, v in enumerate(row))
    return Event(seq, op, keys, row, left_out)


def staged(lake: Lake, events: Iterable[Event], schema: TableSchema = SCHEMA, version: int = 1) -> Segment:
    """A segment of these events."""
    listed = list(events)
    nothing = (None,) * len(schema.columns)
    columns: list[list[Any]] = [[e.seq for e in listed], [e.op for e in listed], [TS] * len(listed)]
    columns += [[None] * len(listed)] * 2
    columns += [[(e.row or nothing)[i] for e in listed] for i in range(len(schema.columns))]
    columns += [[(e.before or nothing)[i] for e in listed] for i in range(len(schema.columns))]
    columns += [[list(e.left_out) or None for e in listed]]
    arrow = schema.change_arrow
    arrays = [pa.array(values, f.type) for values, f in zip(columns, arrow, strict=True)]
    return lake.stage(schema, pa.table(arrays, schema=arrow), version)


@dataclass
class Source:
    """Rows and the number of the change that made each; `events` is the log since it was last taken.

    `recorded`: rows that log or chunks have shown whole; `unread`: key ranges (first letters of `part`) that a load has
    yet to read.
    """

    random: Random
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    rows: dict[Key, tuple[Row, int]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    recorded: set[Key] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    size: int = 150

    def take(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def state(self) -> list[Row]:
        """All rows with their numbers, in the order of the keys."""
        return [(*row, seq) for _, (row, seq) in sorted(self.rows.items())]

    def step(self) -> None:
        """One change at random."""
        key = self._key()
        present = key in self.rows
        draw = self.random.random()
        if not present:
            self.insert((self._value(), key[0], self._number(), self._bytes(), key[1], self._value()))
        elif draw < 0.45:
            self.update(key, self._changed(self.rows[key][0]))
        elif draw < 0.80:
            self._move(key)
        elif draw < 0.90:
            self.delete(key)
        elif not self.unread:
            self.read([key])
        if draw < 0.02:
            self._cycle()

    def insert(self, row: Row) -> None:
        seq = next(self.numbers)
        self.events.append(event(seq, "INSERT", None, row))
        self.rows[key_of(row)] = (row, seq)
        self.recorded.add(key_of(row))

    def delete(self, key: Key) -> None:
        row, _ = self.rows.pop(key)
        self.events.append(event(next(self.numbers), "DELETE", row, row))
        self.recorded.discard(key)

    def update(self, key: Key, after: Row) -> None:
        """A value that is left out is nowhere else in the log, so a load must have read it or be about to."""
        row, _ = self.rows.pop(key)
        seq, new = next(self.numbers), key_of(after)
        left_out: Sequence[int] = [i for i in LARGE if row[i] == after[i] and self.random.random() < 0.85]
        known = key in self.recorded
        if not known and new[1][0] not in self.unread:
            left_out = []
        self.events.append(event(seq, "UPDATE", row, after, *left_out))
        self.rows[new] = (after, seq)
        self.recorded.discard(key)
        if known or not left_out:
            self.recorded.add(new)

    def read(self, keys: Iterable[Key]) -> list[Event]:
        """A snapshot's rows at this place of the sequence."""
        found = []
        for key in keys:
            row, seq = self.rows[key][0], next(self.numbers)
            found.append(event(seq, "READ", None, row))
            self.rows[key] = (row, seq)
            self.recorded.add(key)
        self.events += found
        return found

    def chunk(self, letter: str) -> list[Event]:
        """A load reads a key range; its rows are not among the log's events."""
        found = self.read([key for key in self.rows if key[1][0] == letter])
        del self.events[len(self.events) - len(found) :]
        self.unread.discard(letter)
        return found

    def _move(self, key: Key) -> None:
        new = self._key()
        if new not in self.rows:
            row = list(self._changed(self.rows[key][0]))
            row[ID], row[PART] = new
            self.update(key, tuple(row))

    def _cycle(self) -> None:
        """Rows change places over a key that is free again afterwards: 1 → x, 2 → 1, 3 → 2, x → 3."""
        if len(self.rows) < 3:
            return
        ring = self.random.sample(sorted(self.rows), 3)
        spare = (-1, "a")
        for old, new in [(ring[0], spare), (ring[1], ring[0]), (ring[2], ring[1]), (spare, ring[2])]:
            row = list(self.rows[old][0])
            row[ID], row[PART] = new
            self.update(old, tuple(row))

    def _changed(self, row: Row) -> Row:
        made = {DOC: self._value, A: self._number, BLOB: self._bytes, NOTE: self._value}
        return tuple(made[i]() if i in made and self.random.random() < 0.25 else v for i, v in enumerate(row))

    def _key(self) -> Key:
        return self.random.randrange(self.size), self.random.choice(("a", "b"))

    def _number(self) -> int | None:
        return self.random.choice([None, self.random.randrange(1000)])

    def _value(self) -> str | None:
        return self.random.choice(
            [None, "", f"text {self.random.randrange(10**9)}", f"text {self.random.randrange(10**9)}"]
        )

    def _bytes(self) -> bytes | None:
        return None if self.random.random() < 0.2 else self.random.randbytes(6)
