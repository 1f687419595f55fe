"""Values of row images as numbers, compiled: what is not as it usually is goes to `values`, one by one.

Each kernel takes one column of the images, and `images`: for each row the image that its value is from, -1 for NULL.  A
value starts in `data` where `starts` says, and is `lengths` long (-1: NULL).  It fills `out`, and in `valid`, an Arrow
bitmap that is zero before, the bits of what is not NULL.

Layouts: MySQL's Field::pack of each type, strings/decimal.c (decimal2bin), my_time.cc (…2 types).  One file of kernels
without helpers from
others: numba does not notice that one there has changed.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR2004 - compiled: types are in the decorators; the numbers are the formats' own
from __future__ import annotations

import numba
import numpy as np

from replicator.kernel_bytes import word
from replicator.kernels import kernel, part

_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_DIGIT_BYTES = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], np.int64)
_POWERS = np.array([10**exponent for exponent in range(10)], np.int64)
_MONTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)
_DAY = np.int64(86_400_000_000)
_BITS = numba.types.Array(numba.uint8, 1, "C")
_ODD = numba.types.Array(numba.boolean, 1, "C")
_COUNTS = numba.types.UniTuple(numba.int64, 2)


@part
def _image_of(images, lengths, row):  # type: ignore[no-untyped-def]
    """The image with the row's value; -1 where that is NULL."""
    image = images[row]
    return image if image < 0 or lengths[image] >= 0 else np.int64(-1)


@part
def _mark(valid, row):  # type: ignore[no-untyped-def]
    valid[row >> 3] |= np.uint8(1 << (row & 7))


@part
def _big_endian(data, at, size):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for byte in range(size):
        value = value << 8 | np.int64(data[at + byte])
    return value


@part
def _days(year, month, day):  # type: ignore[no-untyped-def]
    """Days since 1970 of a date between 0001-01-01 and 9999-12-31; -1 << 40 where it is none."""
    if year < 1 or year > 9999 or month < 1 or month > 12 or day < 1:
        return np.int64(-1) << 40
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _MONTHS[month] + (1 if leap and month == 2 else 0):
        return np.int64(-1) << 40
    shifted = year - 1 if month <= 2 else year  # https://howardhinnant.github.io/date_algorithms.html, days_from_civil
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@part
def _micros(stored, digits):  # type: ignore[no-untyped-def]
    """The stored fraction of a second in microseconds; -1 where it has more digits than the column."""
    scale = _POWERS[6 - 2 * ((digits + 1) // 2)]
    micros = stored * scale
    if micros > 999_999 or micros % _POWERS[6 - digits]:
        return np.int64(-1)
    return micros


@kernel(numba.int64(_BYTES, _PLACES, _PLACES, _PLACES, numba.int64, numba.boolean, numba.int64[::1], _BITS))
def integers(data, starts, lengths, images, size, signed, out, valid):  # type: ignore[no-untyped-def]
    """Little endian integers of `size` bytes; those of eight without a sign, and doubles, keep their bits.  0 for NULL.

    Returns how many are NULL.
    """
    shift = 64 - 8 * size
    mask = np.int64(-1) if size == 8 else (np.int64(1) << (8 * size)) - 1
    nulls = 0
    for row in range(images.shape[0]):
        image = _image_of(images, lengths, row)
        if image < 0:
            out[row] = 0
            nulls += 1
            continue
        at, value = starts[image], np.int64(0)
        if at + 8 <= data.shape[0]:
            value = np.int64(word(data, at))
        else:
            for byte in range(size):
                value |= np.int64(data[at + byte]) << (8 * byte)
        out[row] = value << shift >> shift if signed else value & mask
        _mark(valid, row)
    return nulls


@kernel(_COUNTS(_BYTES, _PLACES, _PLACES, _PLACES, numba.int64, numba.int64, numba.uint64[:, ::1], _BITS))
def decimals(data, starts, lengths, images, precision, scale, out, valid):  # type: ignore[no-untyped-def]
    """DECIMAL of up to 38 digits → 128 bits, two's complement, lower half first; 0 for NULL.

    Returns (NULLs, how many are not decimals).
    """
    found = nulls = 0
    whole = precision - scale
    for row in range(images.shape[0]):
        out[row, 0] = out[row, 1] = 0
        image = _image_of(images, lengths, row)
        if image < 0:
            nulls += 1
            continue
        _mark(valid, row)
        at, odd = starts[image], False
        flip = np.int64(0xFF) if data[at] & 0x80 == 0 else np.int64(0)
        low, high = np.uint64(0), np.uint64(0)
        first = True
        for side in range(2):
            digits = whole if side == 0 else scale
            group = digits % 9 if side == 0 and digits % 9 else min(digits, 9)
            while digits > 0:
                value = np.int64(0)
                for _ in range(_DIGIT_BYTES[group]):
                    octet = np.int64(data[at]) ^ flip
                    value = value << 8 | (octet ^ 0x80 if first else octet)
                    first = False
                    at += 1
                power = _POWERS[group]
                if value >= power:
                    odd = True
                step = np.uint64(power)
                lower = (low & _LOW) * step + np.uint64(value)
                upper = (low >> _32) * step + (lower >> _32)
                low = upper << _32 | lower & _LOW
                high = high * step + (upper >> _32)
                digits -= group
                group = min(digits, 9)
        if flip:
            low = ~low + np.uint64(1)
            high = ~high + np.uint64(1 if low == 0 else 0)
        out[row, 0], out[row, 1] = low, high
        found += odd
    return nulls, found


@kernel(_COUNTS(_BYTES, _PLACES, _PLACES, _PLACES, numba.int64[::1], _BITS, _ODD))
def dates(data, starts, lengths, images, out, valid, odd):  # type: ignore[no-untyped-def]
    """DATE → days since 1970; 0 for NULL.  Returns (NULLs, how many are `odd`: in no calendar)."""
    found = nulls = 0
    for row in range(images.shape[0]):
        odd[row] = False
        out[row] = 0
        image = _image_of(images, lengths, row)
        if image < 0:
            nulls += 1
            continue
        _mark(valid, row)
        at = starts[image]
        packed = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16
        days = _days(packed >> 9, packed >> 5 & 15, packed & 31)
        if days < -(1 << 39):
            odd[row] = True
            found += 1
        else:
            out[row] = days
    return nulls, found


@kernel(_COUNTS(_BYTES, _PLACES, _PLACES, _PLACES, numba.int64, numba.int64[::1], _BITS, _ODD))
def datetimes(data, starts, lengths, images, digits, out, valid, odd):  # type: ignore[no-untyped-def]
    """DATETIME2 with `digits` fractional digits → microseconds since 1970; 0 for NULL.

    Returns (NULLs, how many are `odd`: not a date and time of the calendar).
    """
    found = nulls = 0
    for row in range(images.shape[0]):
        odd[row] = False
        out[row] = 0
        image = _image_of(images, lengths, row)
        if image < 0:
            nulls += 1
            continue
        _mark(valid, row)
        at = starts[image]
        packed = _big_endian(data, at, 5) - (np.int64(0x80) << 32)
        micros = _micros(_big_endian(data, at + 5, lengths[image] - 5), digits)
        month = packed >> 22
        days = _days(month // 13, month % 13, packed >> 17 & 31)
        hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
        if packed < 0 or micros < 0 or days < -(1 << 39) or hour > 23 or minute > 59 or second > 59:
            odd[row] = True
            found += 1
        else:
            out[row] = days * _DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + micros
    return nulls, found


@kernel(_COUNTS(_BYTES, _PLACES, _PLACES, _PLACES, numba.int64, numba.int64[::1], _BITS, _ODD))
def timestamps(data, starts, lengths, images, digits, out, valid, odd):  # type: ignore[no-untyped-def]
    """TIMESTAMP2 with `digits` fractional digits → microseconds since 1970; 0 for NULL.

    Returns (NULLs, how many are `odd`: zero, or not a time).
    """
    found = nulls = 0
    for row in range(images.shape[0]):
        odd[row] = False
        out[row] = 0
        image = _image_of(images, lengths, row)
        if image < 0:
            nulls += 1
            continue
        _mark(valid, row)
        at = starts[image]
        seconds = _big_endian(data, at, 4)
        micros = _micros(_big_endian(data, at + 4, lengths[image] - 4), digits)
        if micros < 0 or (seconds == 0 and micros == 0):
            odd[row] = True
            found += 1
        else:
            out[row] = seconds * 1_000_000 + micros
    return nulls, found
