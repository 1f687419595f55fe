"""Multisets of rows as files of digests: what is in one and not in the other, in bounded memory.

A side writes three files: 16-byte digests, 8-byte sequence numbers (target only), and each row's key
(keyless: the row).  Comparison sorts digests one partition of the hash space at a time.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from replicator.verification.cells import Cell

Row = tuple[Cell, ...]
Indices = npt.NDArray[np.int64]
DIGEST_BYTES = 16
SHOWN_BYTES = 400
MARSHAL_VERSION = 2  # the last one without back references: equal rows have equal bytes


@dataclass(frozen=True)
class Side:
    """One side's files; `rows` and `nulls` (sequence numbers that are null) are counts."""

    path: Path
    rows: int = 0
    nulls: int = 0

    @property
    def digests(self) -> npt.NDArray[np.uint64]:
        """Shape (rows, 2), mapped from the file."""
        return _mapped(self.path.with_suffix(".digests"), np.uint64, (self.rows, 2))

    @property
    def sequences(self) -> npt.NDArray[np.uint64]:
        """The sequence numbers that are not null."""
        path = self.path.with_suffix(".sequences")
        return _mapped(path, np.uint64, (path.stat().st_size // 8,)) if path.exists() else np.empty(0, np.uint64)

    def keys(self, indices: Indices) -> Iterator[Row]:
        """Keys of the rows at these (ascending) indices."""
        start, position = 0, 0
        with self.path.with_suffix(".keys").open("rb") as file:
            while position < len(indices):
                batch: list[Row] = marshal.load(file)  # noqa: S302 - a file of our own
                while position < len(indices) and indices[position] < start + len(batch):
                    yield batch[indices[position] - start]
                    position += 1
                start += len(batch)


def _mapped(path: Path, kind: type[np.uint64], shape: tuple[int, ...]) -> npt.NDArray[np.uint64]:
    return np.memmap(path, kind, "r", shape=shape) if shape[0] else np.empty(shape, kind)


class Writer:
    """Fills a side.  `key`: positions of the key columns; empty: rows are kept themselves, long cells cut."""

    def __init__(self, path: Path, key: Sequence[int]) -> None:
        self._path, self._key = path, tuple(key)
        self._files: list[BinaryIO] = [path.with_suffix(s).open("wb") for s in (".digests", ".keys", ".sequences")]
        self._rows = self._nulls = 0

    def add(self, rows: list[Row]) -> None:
        """Take a batch of rows."""
        if not rows:
            return
        dumps, version = marshal.dumps, MARSHAL_VERSION
        digests = [blake2b(dumps(row, version), digest_size=DIGEST_BYTES).digest() for row in rows]
        self._files[0].write(b"".join(digests))
        marshal.dump(self._keys(rows), self._files[1], version)
        self._rows += len(rows)

    def _keys(self, rows: list[Row]) -> list[Row]:
        if len(self._key) == 1:
            at = self._key[0]
            return [(row[at],) for row in rows]
        if self._key:
            return [tuple([row[i] for i in self._key]) for row in rows]
        return [tuple([None if cell is None else cell[:SHOWN_BYTES] for cell in row]) for row in rows]

    def add_sequences(self, values: npt.NDArray[np.int64], nulls: int) -> None:
        """Sequence numbers of a batch, nulls left out."""
        self._files[2].write(values.tobytes())
        self._nulls += nulls

    def close(self) -> Side:
        """Nothing more comes."""
        for file in self._files:
            file.close()
        return Side(self._path, self._rows, self._nulls)


def difference(source: Side, target: Side, partition_rows: int) -> tuple[Indices, Indices]:
    """Indices of the rows that are only in the source, and of those only in the target (ascending)."""
    first, second = source.digests, target.digests
    parts = 1 + max(source.rows, target.rows) // partition_rows
    found = [_difference(first, second, part, parts) for part in range(parts)]
    return tuple(np.sort(np.concatenate(indices)) for indices in zip(*found, strict=True))  # type: ignore[return-value]


def _select(digests: npt.NDArray[np.uint64], part: int, parts: int) -> Indices:
    if parts == 1:
        return np.arange(len(digests))
    step = 1_000_000
    pieces = [
        np.flatnonzero(digests[start : start + step, 0] % np.uint64(parts) == part) + start
        for start in range(0, len(digests), step)
    ]
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def _difference(
    first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64], part: int, parts: int
) -> tuple[Indices, Indices]:
    mine, theirs = _select(first, part, parts), _select(second, part, parts)
    if not len(mine) + len(theirs):
        return mine, theirs
    digests = np.concatenate([first[mine], second[theirs]])
    sign = np.concatenate([np.ones(len(mine), np.int64), -np.ones(len(theirs), np.int64)])
    index = np.concatenate([mine, theirs])
    order = np.lexsort((-sign, digests[:, 1], digests[:, 0]))  # within equal rows the source's come first
    digests, sign, index = digests[order], sign[order], index[order]
    starts = np.flatnonzero(np.concatenate([[True], (digests[1:] != digests[:-1]).any(axis=1)]))
    sizes = np.diff(np.append(starts, len(digests)))
    net = np.add.reduceat(sign, starts)
    rank = np.arange(len(digests)) - np.repeat(starts, sizes)
    extra = np.repeat(net, sizes)
    last = np.repeat(sizes, sizes) - 1 - rank
    return index[(sign > 0) & (rank < extra)], index[(sign < 0) & (last < -extra)]


def duplicates(values: npt.NDArray[np.uint64], partition_rows: int) -> int:
    """How many values are there more than once, counted without their first."""
    parts = 1 + len(values) // partition_rows
    total = 0
    for part in range(parts):
        chosen = np.sort(values[values % np.uint64(parts) == part] if parts > 1 else values)
        total += int((chosen[1:] == chosen[:-1]).sum())
    return total
