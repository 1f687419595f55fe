"""Values of tuples in binary → Arrow's buffers, compiled: what rows are made of, without a detour over the cells by
themselves.

Of row i the value is that of tuple tuples[i] (-1: null), and of a tuple its kind, and data[starts:starts + lengths]
where that is BINARY. Bits of rows that are not null are set in `valid`, which begins as zeros.  A value that is not as
it should be, or text, is counted as odd, and what became of it is worth nothing.  One kernel per file: numba does not
notice that a helper in another file has changed.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR0913, PLR0917 - compiled: types are in the decorators
from __future__ import annotations

import numba
import numpy as np

from replicator.kernel_bytes import copy_bytes, word
from replicator.kernels import kernel, part

_BINARY, _TEXT = 0x62, 0x74
_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_OFFSETS = numba.types.Array(numba.int32, 1, "C", readonly=True)
_COUNTS = numba.types.UniTuple(numba.int64, 2)


@part
def _big_endian(data, at, size):  # type: ignore[no-untyped-def]
    """Of up to eight bytes, signed."""
    if at + 8 > data.shape[0]:
        value = np.int64(data[at]) - ((np.int64(data[at]) & 128) << 1)
        for byte in range(1, size):
            value = value << 8 | np.int64(data[at + byte])
        return value
    given = word(data, at)
    swapped = (given & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8) | (given >> np.uint64(8)) & np.uint64(
        0x00FF00FF00FF00FF
    )
    swapped = (swapped & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16) | (swapped >> np.uint64(16)) & np.uint64(
        0x0000FFFF0000FFFF
    )
    swapped = swapped << np.uint64(32) | swapped >> np.uint64(32)
    return np.int64(swapped) >> (64 - 8 * size)


def _integers(data, kinds, starts, lengths, tuples, size, low, high, shift, out, valid):  # type: ignore[no-untyped-def]
    """Big endian, signed, of `size` bytes, and odd unless low <= value <= high; out[i] is the value plus `shift`.

    Returns (nulls, odd).
    """
    nulls, odd = np.int64(0), np.int64(0)
    for row in range(tuples.shape[0]):
        one = tuples[row]
        kind = kinds[one] if one >= 0 else np.uint8(0)
        value = np.int64(0)
        if kind == _BINARY:
            if lengths[one] == size:
                value = _big_endian(data, starts[one], size)
            if lengths[one] != size or value < low or value > high:
                odd += 1
                value = np.int64(0)
            valid[row >> 3] |= np.uint8(1 << (row & 7))
            out[row] = value + shift
        else:
            odd += kind == _TEXT
            nulls += 1
            out[row] = 0
    return nulls, odd


_INTEGERS = (_BYTES, _BYTES, _PLACES, _PLACES, _PLACES, *(4 * (numba.int64,)))
integers32 = kernel(_COUNTS(*_INTEGERS, numba.int32[::1], numba.uint8[::1]))(_integers)
integers64 = kernel(_COUNTS(*_INTEGERS, numba.int64[::1], numba.uint8[::1]))(_integers)


@kernel(_COUNTS(_BYTES, _PLACES, _PLACES, numba.int32[::1], numba.uint8[::1]))
def cell_offsets(kinds, lengths, tuples, offsets, valid):  # type: ignore[no-untyped-def]
    """Where each row's bytes begin if they lie one after the other, text or binary.

    Returns (nulls, all bytes); if these are more than 2^31 - 1, the offsets are invalid.
    """
    nulls, total = np.int64(0), np.int64(0)
    offsets[0] = 0
    for row in range(tuples.shape[0]):
        one = tuples[row]
        if one >= 0 and (kinds[one] == _BINARY or kinds[one] == _TEXT):
            valid[row >> 3] |= np.uint8(1 << (row & 7))
            total += lengths[one]
        else:
            nulls += 1
        offsets[row + 1] = total
    return nulls, total


@kernel(numba.void(_BYTES, _PLACES, _PLACES, _PLACES, _OFFSETS, numba.uint8[::1]))
def cell_bytes(data, starts, lengths, tuples, offsets, out):  # type: ignore[no-untyped-def]
    """Copy them there; a tuple without a value has the length 0."""
    for row in range(tuples.shape[0]):
        one = tuples[row]
        if one >= 0 and lengths[one] > 0:
            copy_bytes(out, offsets[row], data, starts[one], lengths[one])


@kernel(numba.void(_PLACES, _OFFSETS, numba.int32[::1]))
def picked_offsets(which, bounds, offsets):  # type: ignore[no-untyped-def]
    """Where each row's text begins: the text number which[row], of bounds[i + 1] - bounds[i] bytes."""
    offsets[0] = 0
    for row in range(which.shape[0]):
        offsets[row + 1] = offsets[row] + bounds[which[row] + 1] - bounds[which[row]]


@kernel(numba.void(_PLACES, _OFFSETS, _BYTES, _OFFSETS, numba.uint8[::1]))
def picked_bytes(which, bounds, texts, offsets, out):  # type: ignore[no-untyped-def]
    """Write them there; texts[bounds[i]:bounds[i + 1]] is text number i."""
    for row in range(which.shape[0]):
        first = bounds[which[row]]
        copy_bytes(out, offsets[row], texts, first, bounds[which[row] + 1] - first)
