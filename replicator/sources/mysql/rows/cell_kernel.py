"""Bytes of row images, and texts that end in a number, one after the other as Arrow has them, compiled.

One kernel per file: numba does not notice that a helper in another file has changed.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR2004 - compiled: types are in the decorators
from __future__ import annotations

import numba
import numpy as np

from replicator.kernel_bytes import copy_bytes
from replicator.kernels import kernel, part

_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_OFFSETS = numba.types.Array(numba.int32, 1, "C", readonly=True)
_BITS = numba.types.Array(numba.uint8, 1, "C")
_COUNTS = numba.types.UniTuple(numba.int64, 2)
_POWERS = np.array([10**exponent for exponent in range(19)], np.int64)


@kernel(_COUNTS(_PLACES, _PLACES, numba.int64, numba.int32[::1], _BITS))
def cell_offsets(lengths, images, width, offsets, valid):  # type: ignore[no-untyped-def]
    """Where each row's bytes begin if they lie one after the other; `width` of each, or -1: as many as it has.

    lengths, images, valid: see value_kernel.  Returns (NULLs, all bytes); where these are more than 2^31 - 1 the
    offsets are worth nothing.
    """
    nulls, total = np.int64(0), np.int64(0)
    offsets[0] = 0
    for row in range(images.shape[0]):
        image = images[row]
        if image < 0 or lengths[image] < 0:
            nulls += 1
            total += max(width, 0)
        else:
            valid[row >> 3] |= np.uint8(1 << (row & 7))
            total += lengths[image] if width < 0 else width
        offsets[row + 1] = total
    return nulls, total


@kernel(numba.void(_BYTES, _PLACES, _PLACES, _PLACES, _OFFSETS, numba.uint8[::1]))
def cell_bytes(data, starts, lengths, images, offsets, out):  # type: ignore[no-untyped-def]
    """Copy the bytes there."""
    for row in range(images.shape[0]):
        image = images[row]
        if image >= 0 and lengths[image] > 0:
            copy_bytes(out, offsets[row], data, starts[image], lengths[image])


@part
def _digits(number):  # type: ignore[no-untyped-def]
    """Of a number that is not negative."""
    count = 1
    while count < 19 and number >= _POWERS[count]:
        count += 1
    return count


@kernel(numba.int64(_PLACES, _PLACES, _PLACES, numba.int32[::1]))
def numbered_offsets(texts, bounds, numbers, offsets):  # type: ignore[no-untyped-def]
    """Where each row's text begins: the text number texts[row], of bounds[i + 1] - bounds[i] bytes, and behind it the
    number, unless it is negative.

    Returns the bytes of all.
    """
    total = np.int64(0)
    offsets[0] = 0
    for row in range(texts.shape[0]):
        text = texts[row]
        total += bounds[text + 1] - bounds[text]
        if numbers[row] >= 0:
            total += _digits(numbers[row])
        offsets[row + 1] = total
    return total


@kernel(numba.void(_BYTES, _PLACES, _PLACES, _PLACES, _OFFSETS, numba.uint8[::1]))
def numbered_texts(data, texts, bounds, numbers, offsets, out):  # type: ignore[no-untyped-def]
    """Write them there; data[bounds[i]:bounds[i + 1]] is text number i."""
    for row in range(texts.shape[0]):
        text = texts[row]
        copy_bytes(out, offsets[row], data, bounds[text], bounds[text + 1] - bounds[text])
        number = numbers[row]
        if number >= 0:
            at, first = offsets[row + 1], offsets[row] + bounds[text + 1] - bounds[text]
            while at > first:
                at -= 1
                rest = number // 10
                out[at] = np.uint8(48 + number - 10 * rest)
                number = rest
