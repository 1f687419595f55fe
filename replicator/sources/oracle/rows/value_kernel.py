"""Values of SQL_REDO, and of texts that the server printed, as Arrow's buffers, compiled.

One kernel per file: numba does not notice that a helper in another file has changed.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR2004, PLR0911 - compiled, ASCII codes
from __future__ import annotations

import numba
import numpy as np

from replicator.kernel_bytes import copy_bytes
from replicator.kernels import kernel, part

_NULL, _ESCAPED = 1, 3  # as in redo_kernel
_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_BITS = numba.types.Array(numba.uint8, 1, "C")
_OFFSETS = numba.types.Array(numba.int32, 1, "C", readonly=True)
_COUNTS = numba.types.UniTuple(numba.int64, 2)


@kernel(_COUNTS(_BYTES, _PLACES, _PLACES, _BYTES, numba.int32[::1], _BITS))
def text_offsets(data, places, sizes, kinds, offsets, valid):  # type: ignore[no-untyped-def]
    """Where each text begins if they lie one after the other, a doubled quote of an ESCAPED one being one.

    Returns (NULLs and absent ones, all bytes); where these are more than 2^31 - 1 the offsets are worth nothing.
    """
    nulls, total = np.int64(0), np.int64(0)
    offsets[0] = 0
    for row in range(places.shape[0]):
        if kinds[row] <= _NULL:
            nulls += 1
        else:
            valid[row >> 3] |= np.uint8(1 << (row & 7))
            size = sizes[row]
            total += size
            if kinds[row] == _ESCAPED:
                quotes = 0
                for place in range(places[row], places[row] + size):
                    quotes += data[place] == 39
                total -= quotes // 2
        offsets[row + 1] = total
    return nulls, total


@kernel(numba.void(_BYTES, _PLACES, _PLACES, _BYTES, _OFFSETS, numba.uint8[::1]))
def texts(data, places, sizes, kinds, offsets, out):  # type: ignore[no-untyped-def]
    """Copy them there."""
    for row in range(places.shape[0]):
        if kinds[row] > _NULL:
            if kinds[row] != _ESCAPED:
                copy_bytes(out, offsets[row], data, places[row], sizes[row])
            else:
                at, place, end = offsets[row], places[row], places[row] + sizes[row]
                while place < end:
                    out[at] = data[place]
                    place += 2 if data[place] == 39 else 1
                    at += 1


@part
def _digit(byte):  # type: ignore[no-untyped-def]
    """-1: it is none of hexadecimal."""
    if 48 <= byte <= 57:
        return np.int64(byte) - 48
    low = byte | 32
    return np.int64(low) - 87 if 97 <= low <= 102 else np.int64(-1)


@kernel(_COUNTS(_BYTES, _PLACES, _PLACES, _BYTES, numba.int32[::1], numba.uint8[::1], _BITS))
def unhexed(data, places, sizes, kinds, offsets, out, valid):  # type: ignore[no-untyped-def]
    """Bytes of hexadecimal texts; `out` has room for half of all sizes.  Returns (NULLs, row that has none, or -1)."""
    nulls, at = np.int64(0), np.int64(0)
    offsets[0] = 0
    for row in range(places.shape[0]):
        if kinds[row] <= _NULL:
            nulls += 1
        else:
            valid[row >> 3] |= np.uint8(1 << (row & 7))
            if sizes[row] & 1:
                return nulls, np.int64(row)
            for place in range(places[row], places[row] + sizes[row], 2):
                high, low = _digit(data[place]), _digit(data[place + 1])
                if high < 0 or low < 0:
                    return nulls, np.int64(row)
                out[at] = np.uint8(high << 4 | low)
                at += 1
        offsets[row + 1] = at
    return nulls, np.int64(-1)


@numba.njit
def _number(data, at, count):  # type: ignore[no-untyped-def]
    """Return the number that these digits mean; -1 if one of the bytes is not a digit."""
    value = np.int64(0)
    for place in range(at, at + count):
        byte = np.int64(data[place]) - 48
        if byte < 0 or byte > 9:
            return np.int64(-1)
        value = value * 10 + byte
    return value


@numba.njit
def _days(year, month, day):  # type: ignore[no-untyped-def]
    """Since 1970, in the proleptic Gregorian calendar (howardhinnant.github.io/date_algorithms.html)."""
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@part
def _length(year, month):  # type: ignore[no-untyped-def]
    if month == 2:
        return 29 if (year % 4 == 0 and year % 100 != 0) or year % 400 == 0 else 28
    return 30 if month in (4, 6, 9, 11) else 31


@numba.njit
def _moment(data, at, end, zoned):  # type: ignore[no-untyped-def]
    """(microseconds since 1970, is it one?) of `[ ]YYYY-MM-DD HH24:MI:SS[.FF][ TZH:TZM]`"""
    if at < end and (data[at] == 32 or data[at] == 43):
        at += 1
    if end - at < 19 or data[at + 4] != 45 or data[at + 7] != 45 or data[at + 10] != 32 or data[at + 13] != 58:
        return np.int64(0), False
    year, month, day = _number(data, at, 4), _number(data, at + 5, 2), _number(data, at + 8, 2)
    hour, minute, second = _number(data, at + 11, 2), _number(data, at + 14, 2), _number(data, at + 17, 2)
    if data[at + 16] != 58 or not (year > 0 and 0 < month <= 12 and day > 0 and 0 <= hour <= 23):
        return np.int64(0), False
    if day > _length(year, month) or not (0 <= minute <= 59 and 0 <= second <= 59):
        return np.int64(0), False
    at += 19
    micros = np.int64(0)
    if at < end and data[at] == 46:
        at += 1
        scale = np.int64(100000)
        while at < end and 48 <= data[at] <= 57:
            digit = np.int64(data[at]) - 48
            if scale == 0 and digit:
                return np.int64(0), False  # finer than a microsecond
            micros += digit * scale
            scale //= 10
            at += 1
    value = ((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
    if zoned:
        if end - at != 7 or data[at] != 32 or data[at + 4] != 58 or (data[at + 1] != 43 and data[at + 1] != 45):
            return np.int64(0), False
        hours, minutes = _number(data, at + 2, 2), _number(data, at + 5, 2)
        if hours < 0 or minutes < 0:
            return np.int64(0), False
        offset = hours * 3600 + minutes * 60
        value += offset if data[at + 1] == 45 else -offset
        at = end
    return value * 1000000 + micros, at == end


@kernel(_COUNTS(_BYTES, _PLACES, _PLACES, _BYTES, numba.boolean, numba.int64[::1], _BITS, numba.boolean[::1]))
def moments(data, places, sizes, kinds, zoned, out, valid, odd):  # type: ignore[no-untyped-def]
    """Microseconds since 1970.  Returns (NULLs, odd ones: no moments of the years 1 to 9999 in microseconds)."""
    nulls, odds = np.int64(0), np.int64(0)
    for row in range(places.shape[0]):
        out[row] = 0
        odd[row] = False
        if kinds[row] <= _NULL:
            nulls += 1
            continue
        value, exact = _moment(data, places[row], places[row] + sizes[row], zoned)
        if exact and -62135596800000000 <= value < 253402300800000000:
            valid[row >> 3] |= np.uint8(1 << (row & 7))
            out[row] = value
        else:
            odd[row] = True
            odds += 1
    return nulls, odds
