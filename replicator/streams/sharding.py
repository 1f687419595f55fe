"""Which shard a row belongs to: a hash of its key that is the same in every version of Tidemark.

A key is a sequence of 64-bit words, column after column: whole numbers, dates (days), timestamps (microseconds),
booleans and decimals (without their point) as 128-bit two's complement, low word first, so that a column may be
widened; floats as the bits of a double, with one zero and one NaN; texts (UTF-8) and bytes as their length and then
their bytes, eight to a word, little-endian, filled up with zeros.  Beginning with 0, each word w makes h = mix(h XOR
w), where mix is MurmurHash3's 64-bit finaliser. The shard is h modulo the number of shards.  `docs/streams.md` has it
in ten lines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]

_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_WORD = 8  # bytes


def shards_of(key: Sequence[pa.Array], shards: int, rows: int) -> Numbers:
    """The shard of each of `rows` rows; without a key column it is 0."""
    if not key or shards == 1:
        return np.zeros(rows, np.int64)
    hashed = np.zeros(rows, np.uint64)
    for column in key:
        _take_in(hashed, column)
    return (hashed % np.uint64(shards)).astype(np.int64)


def _take_in(hashed: Words, column: pa.Array) -> None:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        _take_bytes(hashed, column)
    elif pa.types.is_floating(kind):
        _mix(hashed, _double_bits(column))
    elif pa.types.is_decimal(kind):
        for word in _decimal_words(column):
            _mix(hashed, word)
    else:
        low = _whole_numbers(column)
        _mix(hashed, low.view(np.uint64))
        _mix(hashed, (low >> np.int64(63)).view(np.uint64))


def _mix(hashed: Words, word: Words) -> None:
    hashed ^= word
    hashed ^= hashed >> _SHIFT
    hashed *= _FIRST
    hashed ^= hashed >> _SHIFT
    hashed *= _SECOND
    hashed ^= hashed >> _SHIFT


def _whole_numbers(column: pa.Array) -> Numbers:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    numbers = column.cast(pa.int64()).fill_null(0)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.int64)


def _double_bits(column: pa.Array) -> Words:
    values = np.array(column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False), np.float64)
    values[values == 0.0] = 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.uint64)


def _decimal_words(column: pa.Array) -> list[Words]:
    """The two halves of each value, as they lie in Arrow's buffer."""
    pairs = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
    halves = pairs.reshape(-1, 2).copy()
    if column.null_count:
        halves[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return [np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])]


def _take_bytes(hashed: Words, column: pa.Array) -> None:
    """The lengths, and then word after word of those that are so long."""
    lengths = np.asarray(pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    _mix(hashed, lengths.view(np.uint64))
    if not lengths.any():
        return
    _, offsets, data = column.buffers()
    begins = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column)].astype(np.int64)
    text = np.frombuffer(data, np.uint8)
    places = np.arange(_WORD)
    for start in range(0, int(lengths.max()), _WORD):
        rows = np.flatnonzero(lengths > start)
        at = begins[rows, None] + start + places
        there = start + places < lengths[rows, None]
        letters = np.where(there, text[np.where(there, at, 0)], 0).astype(np.uint8)
        words = np.ascontiguousarray(letters).view("<u8").reshape(-1).astype(np.uint64)
        part = hashed[rows]
        _mix(part, words)
        hashed[rows] = part
