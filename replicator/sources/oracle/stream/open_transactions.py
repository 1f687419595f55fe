"""Transactions whose end is not known yet, where Tidemark keeps their rows: in memory, and large ones in files.

Rows come in the order of the log, those of different transactions mixed.  A ROLLBACK TO SAVEPOINT, and the end of a
statement that failed, come as rows that undo others: LogMiner marks them (ROLLBACK = 1), and says of which row
(ROW_ID).  Nothing says which writes of large objects are undone with them; so rows of a table are marked as touched
where their transaction wrote any.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import IO

import numpy as np

from replicator.sources.oracle.rows.redo_rows import LOCATED
from replicator.sources.oracle.stream.redo_frame import COMMIT, LOBS, ROLLBACK, START, Names, RedoFrame

_UNKNOWN_SEQUENCE = 0xFFFFFFFF  # of a transaction that began before the range that is mined: slot and segment hold
_ENDS = (START, COMMIT, ROLLBACK)
_Row = tuple[object, bytes]


@dataclass
class _Transaction:
    """first: the SCN of its first row.  Parts in memory come after those in the file."""

    first: int
    parts: list[RedoFrame] = field(default_factory=list)
    size: int = 0
    file: IO[bytes] | None = None
    spilled: list[tuple[int, int]] = field(default_factory=list)
    undoes: bool = False
    changed: set[Names] = field(default_factory=set)  # tables that rows are of
    touched: dict[Names, RedoFrame] = field(default_factory=dict)  # whose large objects are written, and such a row

    def add(self, part: RedoFrame) -> int:
        """The bytes that it took."""
        lobs = np.isin(part.operations, LOBS)
        if lobs.any():
            for name in part.names_of(lobs):
                places = [place for place, one in enumerate(part.names) if one == name]
                row = int(np.flatnonzero(lobs & np.isin(part.tables, places))[0])
                self.touched.setdefault(name, part.at(slice(row, row + 1)).compact())
            part = part.located()
        self.changed |= part.names_of(np.ones(len(part.begins), np.bool_))
        part = part.compact()
        size = len(part.data) + 120 * len(part.begins)
        self.parts.append(part)
        self.size += size
        self.undoes = self.undoes or bool(part.undone.any())
        return size

    def spill(self) -> None:
        """Its parts to its file."""
        self.file = self.file or tempfile.TemporaryFile(prefix="tidemark-redo-")  # noqa: SIM115 - closed by `close`
        self.file.seek(0, 2)
        for part in self.parts:
            begin = self.file.tell()
            pickle.dump(tuple(part), self.file, protocol=5)
            self.spilled.append((begin, self.file.tell()))
        self.parts, self.size = [], 0

    def part(self, place: int) -> RedoFrame:
        """In the order in which they came."""
        if place >= len(self.spilled):
            return self.parts[place - len(self.spilled)]
        assert self.file is not None
        self.file.seek(self.spilled[place][0])
        return RedoFrame(*pickle.load(self.file))  # noqa: S301 - our own file, which has no name

    def rows(self) -> Iterator[RedoFrame]:
        """Without those that were undone."""
        count = len(self.spilled) + len(self.parts)
        kept = self._kept(count) if self.undoes else [None] * count
        for place, keep in enumerate(kept):
            part = self.part(place)
            if keep is not None:
                part = part.at(keep)
            if self.touched:
                touched = [table for table, name in enumerate(part.names) if name in self.touched]
                part = part._replace(touched=np.isin(part.tables, touched))
            if part:
                yield part
        for name, row in self.touched.items():
            if name not in self.changed:  # nothing says where
                yield row

    def _kept(self, count: int) -> list[np.ndarray | None]:
        """From the last row to the first: a row that undoes takes the one with its ROW_ID before it."""
        undone: Counter[_Row] = Counter()
        masks: list[np.ndarray | None] = []
        for place in reversed(range(count)):
            part = self.part(place)
            keep = np.ones(len(part.begins), np.bool_)
            for row in reversed(range(len(keep))):
                key = (part.names[part.tables[row]], part.row_ids[row])
                if part.operations[row] == LOCATED:
                    continue
                if part.undone[row]:
                    undone[key] += 1
                    keep[row] = False
                elif undone[key]:
                    undone[key] -= 1
                    keep[row] = False
            masks.append(keep)
        return masks[::-1]

    def close(self) -> None:
        """The file goes with it."""
        if self.file is not None:
            self.file.close()


class OpenTransactions:
    """`feed` takes rows as they are in the log, and gives those of transactions that they commit."""

    def __init__(self, most: int) -> None:
        """most: bytes that are kept in memory over all of them (invariant 9)."""
        self._most, self._bytes = most, 0
        self._open: dict[int, _Transaction] = {}

    @property
    def oldest(self) -> int | None:
        """The SCN at which the oldest one began."""
        return min((one.first for one in self._open.values()), default=None)

    def feed(self, frame: RedoFrame, after: int) -> Iterator[RedoFrame]:
        """Rows of transactions that end in this frame, in commit order; not of those that were committed at `after` or
        before.
        """
        ends = np.flatnonzero(np.isin(frame.operations, _ENDS))
        begin = 0
        for place in [*ends.tolist(), len(frame.begins)]:
            self._add(frame, begin, place)
            begin = place + 1
            if place == len(frame.begins):
                return
            kind, xid, scn = int(frame.operations[place]), int(frame.xids[place]), int(frame.scns[place])
            if kind == START:
                continue
            ended = self._open.pop(self._known(xid), None)
            if ended is None:
                continue
            self._bytes -= ended.size
            if kind == COMMIT and scn > after:
                for part in ended.rows():
                    yield part.committed(scn, int(frame.times[place]))
            ended.close()

    def _add(self, frame: RedoFrame, begin: int, end: int) -> None:
        if begin == end:
            return
        part = frame.at(slice(begin, end))
        owners = np.unique(part.xids)
        for xid in owners.tolist():
            mine = part if len(owners) == 1 else part.at(np.flatnonzero(part.xids == xid))
            key = self._known(xid)
            transaction = self._open.setdefault(key, _Transaction(int(mine.scns[0])))
            self._bytes += transaction.add(mine)
        while self._bytes > self._most:
            largest = max(self._open.values(), key=lambda one: one.size)
            self._bytes -= largest.size
            largest.spill()

    def _known(self, xid: int) -> int:
        """Of a number without its sequence, the open transaction in the same slot."""
        if xid >> 32 & _UNKNOWN_SEQUENCE != _UNKNOWN_SEQUENCE:
            return xid
        slot = xid & _UNKNOWN_SEQUENCE
        return next((one for one in self._open if one & _UNKNOWN_SEQUENCE == slot), xid)

    def close(self) -> None:
        """Forget all."""
        for one in self._open.values():
            one.close()
        self._open.clear()
        self._bytes = 0


class CommittedTransactions:
    """The same where LogMiner gives committed transactions only, one after the other.

    Rows that undo others come here, too: a transaction is handed on when its last row is known.
    """

    def __init__(self, most: int) -> None:
        """most: bytes that are kept in memory (invariant 9)."""
        self._most, self._last = most, _Transaction(0)
        self._xid = 0

    def feed(self, frame: RedoFrame) -> Iterator[RedoFrame]:
        """All transactions but the last one of the frame, which may go on in the next."""
        begins = [0, *(np.flatnonzero(np.diff(frame.xids)) + 1).tolist()]
        if int(frame.xids[0]) != self._xid:
            yield from self.end()
        elif len(begins) > 1:
            self._last.add(frame.at(slice(0, begins[1])))
            yield from self.end()
            begins = begins[1:]
        yield from self._whole(frame, begins)
        self._xid = int(frame.xids[-1])
        self._last.add(frame.at(slice(begins[-1], None)))
        if self._last.size > self._most:
            self._last.spill()

    @staticmethod
    def _whole(frame: RedoFrame, begins: list[int]) -> Iterator[RedoFrame]:
        """Those from begins[0] to begins[-1]."""
        if begins[0] == begins[-1]:
            return
        rows = slice(begins[0], begins[-1])
        if not frame.undone[rows].any() and not np.isin(frame.operations[rows], LOBS).any():
            yield frame.at(rows)
            return
        for begin, end in pairwise(begins):
            transaction = _Transaction(0)
            transaction.add(frame.at(slice(begin, end)))
            yield from transaction.rows()

    def end(self) -> Iterator[RedoFrame]:
        """Yield the last transaction, too: no more of it will come."""
        last, self._last, self._xid = self._last, _Transaction(0), 0
        yield from last.rows()
        last.close()

    def close(self) -> None:
        """Forget it."""
        self._last.close()
        self._last, self._xid = _Transaction(0), 0
