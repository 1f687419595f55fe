"""A model of what a table holds in each mode: it applies one change after the other, without the folds."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from tests.staged import Change, Row

Time = dt.datetime


@dataclass
class Version:
    row: Row
    seq: int
    begun: Time
    ended: Time | None = None

    def line(self) -> Row:
        return (*self.row, self.seq, self.begun, self.ended, self.ended is None)


@dataclass
class Model:
    """`key`: the key of a row by the places of its columns."""

    key: tuple[int, ...]
    soft: dict[Row, tuple[Row, int, Time | None]] = field(default_factory=dict)
    versions: dict[Row, list[Version]] = field(default_factory=dict)
    log: list[Row] = field(default_factory=list)

    def apply(self, change: Change) -> None:
        if change.row is not None and change.op != "DELETE":
            if change.before is not None and self.key_of(change.before) != self.key_of(change.row):
                self.leave(change.before, change)
            self.arrive(change.row, change)
        else:
            self.leave(change.before or (), change)

    def arrive(self, row: Row, change: Change) -> None:
        key = self.key_of(row)
        self.soft[key] = (row, change.seq, None)
        at = None if change.op == "READ" else change.at
        self.log.append((*row, change.seq, change.op, at, None, None))
        known = self.versions.setdefault(key, [])
        if known and known[-1].ended is None:
            if change.op == "READ" and known[-1].row == row:
                known[-1].seq = change.seq
                return
            known[-1].ended = self.later(known, change)
        known.append(Version(row, change.seq, self.later(known, change)))

    def leave(self, row: Row, change: Change) -> None:
        key = self.key_of(row)
        self.log.append((*row, change.seq, "DELETE", change.at, None, None))
        if key in self.soft:
            self.soft[key] = (self.soft[key][0], change.seq, change.at)
        known = self.versions.get(key, [])
        if known and known[-1].ended is None:
            known[-1].ended = self.later(known, change)

    @staticmethod
    def later(known: list[Version], change: Change) -> Time:
        return max([change.at, *[time for v in known for time in (v.begun, v.ended) if time]])

    def below(self, number: int, at: Time, upto: int, operation: str) -> None:
        """TRUNCATE, or the end of a reload."""
        for key, (row, seq, gone) in self.soft.items():
            if seq < number and gone is None:
                self.soft[key] = (row, seq, at)
        for known in self.versions.values():
            if known and known[-1].ended is None and known[-1].seq < number:
                known[-1].ended = max(known[-1].begun, at)
        nothing: list[Any] = [None] * len(next(iter(self.soft.values()))[0])
        self.log.append((*nothing, upto, operation, at if operation == "TRUNCATE_TABLE" else None, None, number))

    def key_of(self, row: Row) -> Row:
        return tuple(row[place] for place in self.key)

    def rows(self, mode: str) -> list[Row]:
        """With `_sequence_num` and the mode's own columns, as the target has them."""
        if mode == "soft_delete":
            return [(*row, seq, gone is not None, gone) for row, seq, gone in self.soft.values()]
        if mode == "history":
            return [version.line() for known in self.versions.values() for version in known]
        return list(self.log)
