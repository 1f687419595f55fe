"""Where keys lie in a data file: the key columns of one row group in a searchable form.

A single whole number, day or time is its own code and the search is exact.  Other keys are hashed to 64 bits, and every
hit is compared with the key itself: a hash never decides.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int64]
_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.array([(1 << (8 * count)) - 1 for count in range(9)], np.uint64)  # masks of the first bytes of a word


@dataclass(frozen=True)
class Wanted:
    """Keys to look for: their columns, in the order of the key.

    codes, ascending, of the keys without a null, which are all that can be found; `places` of them in the columns.
    """

    columns: tuple[pa.Array, ...]
    codes: Codes
    places: Places
    exact: bool

    @classmethod
    def of(cls, keys: pa.Table) -> Wanted:
        """All rows of `keys`."""
        columns = tuple(_flat(column) for column in keys.columns)
        found, exact = codes(columns)
        places = np.flatnonzero(_whole_keys(columns))
        places = places[np.argsort(found[places], kind="stable")]
        return cls(columns, found[places], places, exact)

    def only(self, rows: Places) -> Wanted:
        """Those in these rows of `columns`."""
        mine = np.zeros(len(self.columns[0]), bool)
        mine[rows] = True
        mine = mine[self.places]
        return replace(self, codes=self.codes[mine], places=self.places[mine])

    def between(self, low: int, high: int) -> bool:
        """May one of them have a code in this range?  Only for exact ones."""
        at = int(np.searchsorted(self.codes, low))
        return at < len(self.codes) and bool(self.codes[at] <= high)


@dataclass(frozen=True)
class KeyIndex:
    """Codes in ascending order, and the row of each in its row group (None: the rows are in that order themselves).

    columns: the keys, for comparison where a code is not exact; else empty.
    """

    codes: Codes
    rows: npt.NDArray[np.int32] | None
    columns: tuple[pa.Array, ...]

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> KeyIndex:
        """Index a row group's key columns; rows with a null in the key are left out."""
        found, exact = codes(columns)
        kept = () if exact else tuple(columns)
        whole = _whole_keys(columns)
        if bool(whole.all()) and bool((found[1:] >= found[:-1]).all()):
            return cls(found, None, kept)
        rows = np.flatnonzero(whole)
        order = rows[np.argsort(found[rows], kind="stable")]
        return cls(found[order], order.astype(np.int32), kept)

    @property
    def nbytes(self) -> int:
        """Memory."""
        rows = 0 if self.rows is None else self.rows.nbytes
        return int(self.codes.nbytes + rows + sum(column.nbytes for column in self.columns))

    def find(self, wanted: Wanted) -> tuple[Places, Places]:
        """Pairs: place in `wanted`, row in the row group."""
        if not len(self.codes):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        near = slice(
            int(np.searchsorted(wanted.codes, self.codes[0], "left")),
            int(np.searchsorted(wanted.codes, self.codes[-1], "right")),
        )
        first = np.searchsorted(self.codes, wanted.codes[near], "left")
        counts = np.searchsorted(self.codes, wanted.codes[near], "right") - first
        places = np.repeat(wanted.places[near], counts)
        at = np.arange(len(places)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        rows = at if self.rows is None else self.rows[at].astype(np.int64)
        if not len(rows) or wanted.exact:
            return places, rows
        same = functools.reduce(
            pc.and_,
            (
                pc.equal(pc.take(there, pa.array(rows)), pc.take(here, pa.array(places)))
                for there, here in zip(self.columns, wanted.columns, strict=True)
            ),
        )
        kept = same.to_numpy(zero_copy_only=False)
        return places[kept], rows[kept]


def ascending(parts: Sequence[Places]) -> Places:
    """All of these places, each once.  Parts that are in order themselves cost next to nothing."""
    places = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])
    steps = np.diff(places)
    if len(steps) and steps.min() <= 0:
        places = np.sort(places, kind="stable")  # by its runs: Timsort
        places = places[np.append(True, places[1:] != places[:-1])]
    return places


def _whole_keys(columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Rows that have a null in none of these."""
    found = np.ones(len(columns[0]), bool)
    for column in columns:
        if column.null_count:
            found &= column.is_valid().to_numpy(zero_copy_only=False)
    return found


def codes(columns: Sequence[pa.Array]) -> tuple[Codes, bool]:
    """A 64-bit code for each row, and whether no two different keys have the same; what a key with a null has means
    nothing.
    """
    if len(columns) == 1 and (plain := _whole(columns[0])) is not None:
        return plain, True
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = _stirred(mixed * _ODD + _hashed(column))
    return mixed.view(np.int64), False


def _whole(column: pa.Array) -> Codes | None:
    """The values themselves where they are whole numbers below 64 bits."""
    kind = column.type
    if pa.types.is_integer(kind):
        return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    if pa.types.is_date32(kind):
        return _whole(column.view(pa.int32()))
    if pa.types.is_timestamp(kind):
        return _whole(column.view(pa.int64()))
    return None


def _hashed(column: pa.Array) -> npt.NDArray[np.uint64]:
    if (plain := _whole(column)) is not None:
        return plain.view(np.uint64)
    kind = column.type
    if pa.types.is_boolean(kind):
        return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), np.uint64)  # noqa: FBT003
    if pa.types.is_decimal128(kind):
        halves = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)
        halves = halves[column.offset : column.offset + len(column)]
        return np.asarray(_stirred(halves[:, 0]) + halves[:, 1] * _ODD)
    return _hashed_bytes(column)


def _hashed_bytes(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Eight bytes of all rows at a time, for as long as there are rows that have more."""
    small = column.view(pa.binary()) if pa.types.is_string(column.type) else column
    offsets = np.frombuffer(small.buffers()[1], np.int32)[small.offset : small.offset + len(small) + 1].astype(np.int64)
    data = small.buffers()[2]
    text = np.zeros((0 if data is None else data.size) + 8, np.uint8)
    text[:-8] = np.frombuffer(data, np.uint8) if data is not None else ()
    words = np.ndarray((len(text) - 7,), np.uint64, text, strides=(1,))  # the eight bytes from any byte on
    at, left = offsets[:-1].copy(), np.diff(offsets)
    mixed = _stirred(left.astype(np.uint64))
    rows = np.flatnonzero(left > 0)
    while len(rows):
        part = words[at[rows]] & _FIRST[np.minimum(left[rows], 8)]
        mixed[rows] = _stirred(mixed[rows] * _ODD + part)
        at[rows] += 8
        left[rows] -= 8
        rows = rows[left[rows] > 0]
    return mixed


def _stirred(mixed: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(mixed ^ (mixed >> np.uint64(29)))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    whole: pa.Array = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    return whole
