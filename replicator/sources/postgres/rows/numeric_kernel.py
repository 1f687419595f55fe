"""The binary form of numeric, compiled: src/backend/utils/adt/numeric.c, numeric_send.

Four int16, big endian: number of digits, weight, sign (0x0000 +, 0x4000 -, 0xC000 NaN, 0xD000 Infinity, 0xF000
-Infinity), digits to show after the point; then the digits, base 10000, the first one worth 10000 to the power
`weight`.  One kernel per file: numba does not notice that a helper in another file has changed.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR2004 - compiled: types are in the decorators; the numbers are the format's own
from __future__ import annotations

import numba
import numpy as np

from replicator.kernels import kernel, part

OK, NO_NUMBER, TOO_LARGE, BAD = 0, 1, 2, 3  # of a value: fits; NaN or an infinity; too many digits; no numeric at all
_HEADER = 8
_NEGATIVE, _NAN, _INFINITE, _MINUS_INFINITE = 0x4000, 0xC000, 0xD000, 0xF000
_NAN_TEXT, _INFINITE_TEXT = np.frombuffer(b"NaN", np.uint8), np.frombuffer(b"-Infinity", np.uint8)
_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_OFFSETS = numba.types.Array(numba.int32, 1, "C", readonly=True)
_PRESENT = numba.types.Array(numba.boolean, 1, "C", readonly=True)
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_COUNTS = numba.types.UniTuple(numba.int64, 2)
_SCALED = numba.types.Tuple((numba.uint64, numba.uint64, numba.boolean))
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_TOP = np.uint64(1 << 63)


@part
def _int16(data, at):  # type: ignore[no-untyped-def]
    """Big endian, unsigned; the caller has checked that there are two bytes."""
    return np.int64(data[at]) << 8 | np.int64(data[at + 1])


@part
def _weight(data, at):  # type: ignore[no-untyped-def]
    """Of the value at data[at]: signed."""
    weight = _int16(data, at + 2)
    return weight - 0x10000 if weight >= 0x8000 else weight


@part
def _whole(data, at, end):  # type: ignore[no-untyped-def]
    """The number of digits of the value in data[at:end]; -1 where it is none."""
    if end - at < _HEADER:
        return -1
    digits = _int16(data, at)
    if end - at != _HEADER + 2 * digits:
        return -1
    sign = _int16(data, at + 4)
    if sign in (_NAN, _INFINITE, _MINUS_INFINITE):
        return digits
    if sign not in (0, _NEGATIVE) or _int16(data, at + 6) > 0x3FFF:
        return -1
    for place in range(digits):
        if _int16(data, at + _HEADER + 2 * place) > 9999:
            return -1
    return digits


@part
def _power(exponent):  # type: ignore[no-untyped-def]
    """10 to 0, 1, 2, 3 or 4."""
    result = 1
    for _ in range(exponent):
        result *= 10
    return result


@part
def _scaled(data, at, digits, weight, scale):  # type: ignore[no-untyped-def]
    """(lower half, upper half, does it fit?) of the digits at data[at], times 10 to the power `scale`."""
    low, high = np.uint64(0), np.uint64(0)
    steps = digits
    if digits > 0 and 4 * (weight - digits + 1) + scale > 0:  # zeros after the last digit are not sent
        steps = weight + 1 + (scale + 3) // 4
    for place in range(steps):
        digit = _int16(data, at + 2 * place) if place < digits else np.int64(0)
        exponent = 4 * (weight - place) + scale
        factor = np.int64(10000)
        if exponent < 0:
            cut = _power(min(-exponent, np.int64(4)))
            if digit % cut:
                return low, high, False
            digit //= cut
            factor = 10000 // cut
        if high and high >= _TOP // np.uint64(factor):
            return low, high, False
        part = (low & _LOW) * np.uint64(factor) + np.uint64(digit)
        over = (low >> _32) * np.uint64(factor) + (part >> _32)
        low = (over << _32) | (part & _LOW)
        high = high * np.uint64(factor) + (over >> _32)
    return low, high, True


@kernel(numba.int64(_BYTES, _OFFSETS, _PRESENT, numba.int64, numba.uint64[:, ::1], numba.uint8[::1]))
def to_decimals(data, offsets, present, scale, out, status):  # type: ignore[no-untyped-def]
    """Values data[offsets[i]:offsets[i+1]] → decimal128 with `scale`: out[i] = (lower half, upper half).

    status[i] becomes OK, NO_NUMBER, TOO_LARGE (also: digits after the scale) or BAD; what is not `present` is 0 and OK.
    A value below 10 to the power 38 is OK: the caller knows the precision.  Returns how many are not OK.
    """
    failed = 0
    for row in range(present.shape[0]):
        out[row, 0] = 0
        out[row, 1] = 0
        status[row] = OK
        if not present[row]:
            continue
        at = np.int64(offsets[row])
        digits = _whole(data, at, np.int64(offsets[row + 1]))
        if digits < 0:
            status[row] = BAD
            failed += 1
            continue
        sign = _int16(data, at + 4)
        low, high, fits = np.uint64(0), np.uint64(0), True
        if sign not in (0, _NEGATIVE):
            status[row] = NO_NUMBER
        else:
            low, high, fits = _scaled(data, at + _HEADER, digits, _weight(data, at), scale)
            if not fits:
                status[row] = TOO_LARGE
        if status[row] != OK:
            failed += 1
            continue
        if sign == _NEGATIVE:
            low = ~low + np.uint64(1)
            high = ~high + np.uint64(low == 0)
        out[row, 0] = low
        out[row, 1] = high
    return failed


@part
def _quick(data, at, digits, exponent):  # type: ignore[no-untyped-def]
    """(the number, is it one that fits?) of up to four digits at data[at], the last one worth 10 to the power
    `exponent`.
    """
    value = np.int64(0)
    for place in range(digits):
        value = value * 10000 + _int16(data, at + 2 * place)
    while exponent > 0:
        value *= 10
        exponent -= 1
    while exponent < 0 and value:
        if value % 10:
            return value, False
        value //= 10
        exponent += 1
    return value, True


@kernel(
    _COUNTS(
        _BYTES, _BYTES, _PLACES, _PLACES, _PLACES, numba.int64, numba.uint64, numba.uint64, numba.uint64[:, ::1],
        numba.uint8[::1]
    )
)  # fmt: skip
def cell_decimals(data, kinds, starts, lengths, tuples, scale, low_end, high_end, out, valid):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Values of tuples → decimal128 with `scale`, as `cell_kernel` has them; odd unless their number is below the end
    (its halves).

    Returns (nulls, odd).
    """
    nulls, odd = np.int64(0), np.int64(0)
    for row in range(tuples.shape[0]):
        one = tuples[row]
        kind = kinds[one] if one >= 0 else np.uint8(0)
        out[row, 0] = 0
        out[row, 1] = 0
        if kind != 0x62:
            odd += kind == 0x74
            nulls += 1
            continue
        valid[row >> 3] |= np.uint8(1 << (row & 7))
        at = starts[one]
        digits = _whole(data, at, at + lengths[one])
        sign = _int16(data, at + 4) if digits >= 0 else np.int64(-1)
        if sign not in (0, _NEGATIVE):
            odd += 1
            continue
        weight = _weight(data, at)
        exponent = 4 * (weight - digits + 1) + scale
        low, high, fits = np.uint64(0), np.uint64(0), True
        if digits <= 4 and exponent <= 2:
            value, fits = _quick(data, at + _HEADER, digits, exponent)
            low = np.uint64(value)
        else:
            low, high, fits = _scaled(data, at + _HEADER, digits, weight, scale)
        if not fits or high > high_end or (high == high_end and low >= low_end):
            odd += 1
            continue
        if sign == _NEGATIVE:
            low = ~low + np.uint64(1)
            high = ~high + np.uint64(low == 0)
        out[row, 0] = low
        out[row, 1] = high
    return nulls, odd


@kernel(numba.int64(_BYTES, _OFFSETS, _PRESENT, numba.int64[::1]))
def text_lengths(data, offsets, present, lengths):  # type: ignore[no-untyped-def]
    """How many characters the server's text of each value has (0 for a value that is not `present`).

    Returns the row of the first value that is not a numeric, or -1.
    """
    for row in range(present.shape[0]):
        lengths[row] = 0
        if not present[row]:
            continue
        at = np.int64(offsets[row])
        digits = _whole(data, at, np.int64(offsets[row + 1]))
        if digits < 0:
            return row
        sign = _int16(data, at + 4)
        if sign == _NAN:
            lengths[row] = 3
            continue
        if sign in (_INFINITE, _MINUS_INFINITE):
            lengths[row] = 9 if sign == _MINUS_INFINITE else 8
            continue
        weight = _weight(data, at)
        shown = np.int64(1)
        if weight >= 0 and digits > 0:
            first = _int16(data, at + _HEADER)
            shown = 4 * weight + (1 if first < 10 else 2 if first < 100 else 3 if first < 1000 else 4)
        after = _int16(data, at + 6)
        lengths[row] = shown + (after + 1 if after else 0) + (1 if sign == _NEGATIVE else 0)
    return -1


@kernel(numba.void(_BYTES, _OFFSETS, numba.int64[::1], numba.uint8[::1]))
def write_texts(data, offsets, targets, out):  # type: ignore[no-untyped-def]
    """The server's text of each value to out[targets[i]:targets[i+1]], which is as long as `text_lengths` says (0:
    nothing).
    """
    for row in range(targets.shape[0] - 1):
        to, size = targets[row], targets[row + 1] - targets[row]
        if size == 0:
            continue
        at = np.int64(offsets[row])
        digits, sign = _int16(data, at), _int16(data, at + 4)
        if sign == _NAN:
            out[to : to + 3] = _NAN_TEXT
            continue
        if sign in (_INFINITE, _MINUS_INFINITE):
            out[to : to + size] = _INFINITE_TEXT[9 - size :]
            continue
        weight = _weight(data, at)
        after = _int16(data, at + 6)
        end = to + size
        if sign == _NEGATIVE:
            out[to] = 45
            to += 1
        point = end - after - 1 if after else end
        for position in range(to, point):  # digit before the point, worth 10 to the power `point - 1 - position`
            exponent = point - 1 - position
            place = weight - exponent // 4
            digit = _int16(data, at + _HEADER + 2 * place) if 0 <= place < digits else np.int64(0)
            out[position] = 48 + digit // _power(exponent % 4) % 10
        if after:
            out[point] = 46
        for position in range(after):
            place = weight + 1 + position // 4
            digit = _int16(data, at + _HEADER + 2 * place) if 0 <= place < digits else np.int64(0)
            out[point + 1 + position] = 48 + digit // _power(3 - position % 4) % 10
