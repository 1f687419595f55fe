"""Packets of the replication stream up to the next event that is not plain, compiled.

Plain are GTID, BEGIN and XID of transactions like any other, TABLE_MAPs that are as they were, rows events of known
tables with all columns, and notes about statements.  All others, and all that is not as it should be, is left to
`events` and `interpreter`, which know what to say.
Layouts: MySQL's libs/mysql/binlog/event.  One kernel per file: numba does not notice that a helper in another file has
changed.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR2004 - compiled: types are in the decorators; sizes and codes of the format,
# named in events
from __future__ import annotations

import numba
import numpy as np

from replicator.kernel_bytes import CARRYLESS, folded_crc, same_bytes, word
from replicator.kernels import kernel, part

SLOW, WANTED, PASSED = 0, 1, 2  # what is to be done with a table's rows
INSERT, UPDATE, DELETE = 0, 1, 2
# Of a rows event: operation, its table's slot, its row images data[BEGIN:END], its place in the file; its transaction's
# GTID (a range and the number) and commit time in microseconds since 1970; then, not from here: its rows and the
# ordinal of the first.
OPERATION, SLOT, BEGIN, END, PLACE, RANGE, NUMBER, TIME, ROWS, FIRST = range(10)
EVENT_FIELDS = 10
# Of a range of GTIDs: MariaDB's domain and server, or -1 and where in `data` MySQL's 16 bytes of the source are; the
# numbers.
DOMAIN, SERVER, LOW, HIGH = range(4)
RANGE_FIELDS = 4
_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_STOPPED = numba.types.UniTuple(numba.int64, 6)


def _crc_tables() -> np.ndarray:
    """Of CRC-32 (IEEE 802.3), for sixteen bytes at a time: the one for the last of them first."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, first >> 1 ^ np.uint32(0xEDB88320), first >> 1).astype(np.uint32)
    tables = [first]
    for _ in range(15):
        tables.append((tables[-1] >> 8 ^ first[tables[-1] & 0xFF]).astype(np.uint32))
    return np.concatenate(tables)


_CRC = _crc_tables()
_OCTET, _8, _16, _24, _32, _40, _48, _56 = (np.uint64(number) for number in (0xFF, 8, 16, 24, 32, 40, 48, 56))
_T = tuple(np.uint64(256 * number) for number in range(16))  # where the tables begin


@part
def _little_endian(data, at, size):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for byte in range(size):
        value |= np.int64(data[at + byte]) << (8 * byte)
    return value


@part
def _folded(data, at, end):  # type: ignore[no-untyped-def]
    """CRC-32 of data[at:end], 16 bytes and more."""
    return np.int64(folded_crc(data, at, end - at))


@part
def _tabled(data, at, end):  # type: ignore[no-untyped-def]
    """The same for any processor.  Unsigned indices: numba would ask whether others are negative."""
    crc = np.uint64(0xFFFFFFFF)
    start = at
    while end - start >= 16:
        low, high = word(data, start) ^ crc, word(data, start + 8)
        crc = np.uint64(
            _CRC[_T[15] + (low & _OCTET)] ^ _CRC[_T[14] + (low >> _8 & _OCTET)]
            ^ _CRC[_T[13] + (low >> _16 & _OCTET)] ^ _CRC[_T[12] + (low >> _24 & _OCTET)]
            ^ _CRC[_T[11] + (low >> _32 & _OCTET)] ^ _CRC[_T[10] + (low >> _40 & _OCTET)]
            ^ _CRC[_T[9] + (low >> _48 & _OCTET)] ^ _CRC[_T[8] + (low >> _56)]
            ^ _CRC[_T[7] + (high & _OCTET)] ^ _CRC[_T[6] + (high >> _8 & _OCTET)]
            ^ _CRC[_T[5] + (high >> _16 & _OCTET)] ^ _CRC[_T[4] + (high >> _24 & _OCTET)]
            ^ _CRC[_T[3] + (high >> _32 & _OCTET)] ^ _CRC[_T[2] + (high >> _40 & _OCTET)]
            ^ _CRC[_T[1] + (high >> _48 & _OCTET)] ^ _CRC[high >> _56]
        )  # fmt: skip
        start += 16
    while start < end:
        crc = crc >> _8 ^ np.uint64(_CRC[(crc ^ np.uint64(data[start])) & _OCTET])
        start += 1
    return np.int64(crc ^ np.uint64(0xFFFFFFFF))


_crc = _folded if CARRYLESS else _tabled


@part
def _row_images(data, at, end, columns, images):  # type: ignore[no-untyped-def]
    """Where the images begin in a rows event whose number of columns is at data[at]; -1 where not all are present."""
    bitmap = (columns + 7) // 8
    if at >= end or columns > 250 or data[at] != columns or 1 + images * bitmap > end - at:
        return -1
    at += 1
    for _ in range(images):
        for byte in range(bitmap):
            wanted = 0xFF if 8 * (byte + 1) <= columns else (1 << columns % 8) - 1
            if data[at + byte] & wanted != wanted:
                return -1
        at += bitmap
    return at


@part
def _slot_of(number, ids, places_of):  # type: ignore[no-untyped-def]
    """The slot of a table number, -1 where it is not known; `places_of`: see `frame`."""
    mask = places_of.shape[0] - 1
    place = number & mask
    while places_of[place] >= 0 and ids[places_of[place]] != number:
        place = (place + 1) & mask
    return places_of[place]


@part
def _begins(data, kind, body, last):  # type: ignore[no-untyped-def]
    """Is this the GTID of a transaction like any other, or MySQL's BEGIN behind it?  1, 2; else 0."""
    if kind == 162:  # MariaDB: not a statement alone (1), DDL (32), XA (64, 128)
        return 1 if last - body >= 13 and data[body + 12] & 0xE1 == 0 else 0
    if kind == 33:
        return 1 if last - body >= 25 else 0
    if kind == 2 and last - body >= 19:
        sql = body + 14 + data[body + 8] + _little_endian(data, body + 11, 2)
        begin = last - sql == 5 and data[sql] == 66 and data[sql + 1] == 69 and data[sql + 2] == 71
        return 2 if begin and data[sql + 3] == 73 and data[sql + 4] == 78 else 0
    return 0


@part
def _read_gtid(data, event, kind, last):  # type: ignore[no-untyped-def]
    """DOMAIN and SERVER of a range, the number, the commit time."""
    body = event + 19
    time = _little_endian(data, event, 4) * 1_000_000
    if kind == 162:
        server = _little_endian(data, event + 5, 4)
        return _little_endian(data, body + 8, 4), server, _little_endian(data, body, 8), time
    if last - body >= 49 and data[body + 25] == 2:  # the logical clock, then MySQL 8's time stamps
        immediate = _little_endian(data, body + 42, 7) & ((1 << 55) - 1)
        if immediate:
            time = immediate
    return np.int64(-1), body + 1, _little_endian(data, body + 17, 8), time


@part
def _goes_on(data, reached, domain, server, number):  # type: ignore[no-untyped-def]
    """Is this GTID the one that comes next in the range?"""
    if number != reached[HIGH] + 1 or domain != reached[DOMAIN]:
        return False
    return server == reached[SERVER] if domain >= 0 else same_bytes(data, server, data, reached[SERVER], 16)


@kernel(
    _STOPPED(
        _BYTES, numba.int64, numba.int64, numba.int64, numba.boolean, numba.boolean,
        _BYTES, _PLACES, _PLACES, _PLACES, _PLACES, _PLACES,
        numba.int64[:, ::1], numba.int64[:, ::1],
    )
)  # fmt: skip
def frame(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one pass over the packets
    data, at, end, position, checksum, inside, maps, bounds, ids, places_of, columns, states, events, ranges
):  # fmt: skip
    """Find the plain events of the packets in data[at:end], which begin at `position` of the log's file.

    Inside a transaction (`inside`): its rows events, without RANGE, NUMBER and TIME. Otherwise: whole transactions, and
    the ranges of their GTIDs.  The TABLE_MAP of table number ids[i], with columns[i] columns, was
    maps[bounds[i]:bounds[i+1]]; states[i]: SLOW, WANTED, PASSED.
    `places_of`: a hash table of places in `ids`, by the lowest bits of the number, with linear probing; -1: free.
    `events` are those that are wanted.  Returns (where it stopped, position there, events, ranges, the last
    transaction's time, 1 where it stopped because the packets end before the transaction does).
    """
    room = events.shape[1]
    count, slot = 0, np.int64(0)
    known, newest = 0, -1  # ranges; that of the transaction under way
    domain, server, number, time = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    begun = 0  # 1 GTID, 2 BEGIN, 3 rows
    done = at, position, 0, 0, np.int64(0)  # after the last whole transaction
    cut = 0
    while count < room:
        if end - at < 4:
            cut = 1
            break
        size = _little_endian(data, at, 3)
        event = at + 5
        following = at + 4 + size
        least = 23 if checksum else 19
        if following > end:
            cut = 1
            break
        if size == 0xFFFFFF or size < 1 + least or data[at + 4] != 0:
            break
        size -= 1
        kind = np.int64(data[event + 4])
        place = _little_endian(data, event + 13, 4)
        if _little_endian(data, event + 9, 4) != size or data[event + 17] & 0x20:  # artificial
            break
        start = position
        if place != 0:  # MariaDB 11.4 and later do not say it inside a transaction; a server may leave events out
            start += (place - position - size) & 0xFFFFFFFF
            if start - position >= 1 << 31:
                break
        body, last = event + 19, following - (4 if checksum else 0)
        operation = np.int64(-1)
        if 23 <= kind <= 25:
            operation = kind - 23
        elif 30 <= kind <= 32:
            operation = kind - 30
        wanted = False
        if kind == 19 or operation >= 0:
            if last - body < 8 or not (inside or begun):
                break
            table = _little_endian(data, body, 6)
            if ids[slot] != table:
                found = _slot_of(table, ids, places_of)
                if found < 0:
                    break
                slot = found
            if states[slot] == SLOW:
                break
            if kind == 19:
                first = bounds[slot]
                if last - body != bounds[slot + 1] - first or not same_bytes(data, body, maps, first, last - body):
                    break
            elif states[slot] == WANTED:
                begin = body + 8
                if kind >= 30:
                    if last - begin < 2:
                        break
                    begin += max(_little_endian(data, begin, 2), 2)
                begin = _row_images(data, begin, last, columns[slot], 2 if operation == 1 else 1)
                if begin < 0:
                    break
                events[OPERATION, count], events[SLOT, count], events[PLACE, count] = operation, slot, start
                events[BEGIN, count], events[END, count] = begin, last
                events[RANGE, count], events[NUMBER, count], events[TIME, count] = newest, number, time
                wanted = True
            if not inside:
                begun = 3
        elif kind == 16:  # XID
            if inside or not begun:
                break
        elif kind != 160 and kind != 29:  # noqa: PLR1714 - ANNOTATE_ROWS, ROWS_QUERY
            step = 0 if inside else _begins(data, kind, body, last)
            if step != begun + 1:
                break
            if step == 1:
                domain, server, number, time = _read_gtid(data, event, kind, last)
                newest = known
                if known > 0 and _goes_on(data, ranges[known - 1], domain, server, number):
                    newest = known - 1
                elif known == ranges.shape[0]:
                    break
            begun = step
        elif not (inside or begun):
            break
        if checksum and _crc(data, event, last) != _little_endian(data, last, 4):
            break
        count += wanted
        at = following
        position = start + size
        if kind == 16:
            if newest == known:
                ranges[known, DOMAIN], ranges[known, SERVER], ranges[known, LOW] = domain, server, number
                known += 1
            ranges[newest, HIGH] = number
            begun = 0
        if inside or kind == 16:
            done = at, position, count, known, time
    return done[0], done[1], done[2], done[3], done[4], cut if done[0] < end and not inside else 0
