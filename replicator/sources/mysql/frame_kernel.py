"""Packets of the replication stream up to the next event that is not plain, compiled.

Plain are GTID, BEGIN and XID of transactions like any other, TABLE_MAPs that are as they were, rows events of known tables with all
columns, and notes about statements.  All others, and
all that is not as it should be, is left to `events` and `interpreter`, which know what to say.
Layouts: MySQL's libs/mysql/binlog/event.  One kernel per file: numba does not notice that a helper in another file has changed.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR2004 - compiled: types are in the decorators; sizes and codes of the format, named in events
from __future__ import annotations

import numba
import numpy as np

SLOW, WANTED, PASSED = 0, 1, 2  # what is to be done with a table's rows
END, PLACE, TIME, NUMBER, DOMAIN, SERVER = range(6)
_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_STOPPED = numba.types.Tuple((numba.int64, numba.int64, numba.int64, numba.int64))


def _crc_tables() -> np.ndarray:
    """Of CRC-32 (IEEE 802.3), for eight bytes at a time."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, first >> 1 ^ np.uint32(0xEDB88320), first >> 1).astype(np.uint32)
    tables = [first]
    for _ in range(7):
        tables.append((tables[-1] >> 8 ^ first[tables[-1] & 0xFF]).astype(np.uint32))
    return np.array(tables, np.uint32)


_CRC = _crc_tables()


@numba.njit(numba.int64(_BYTES, numba.int64, numba.int64), inline="always")
def _little_endian(data, at, size):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for byte in range(size):
        value |= np.int64(data[at + byte]) << (8 * byte)
    return value


@numba.njit(numba.boolean(_BYTES, numba.int64, numba.int64))
def _crc_holds(data, at, end):  # type: ignore[no-untyped-def]
    """Is the CRC-32 of data[at:end] in the four bytes behind it?"""
    crc = np.uint32(0xFFFFFFFF)
    while end - at >= 8:
        low = crc ^ (
            np.uint32(data[at])
            | np.uint32(data[at + 1]) << 8
            | np.uint32(data[at + 2]) << 16
            | np.uint32(data[at + 3]) << 24
        )
        crc = (
            _CRC[7, low & 0xFF] ^ _CRC[6, low >> 8 & 0xFF] ^ _CRC[5, low >> 16 & 0xFF] ^ _CRC[4, low >> 24]
            ^ _CRC[3, data[at + 4]] ^ _CRC[2, data[at + 5]] ^ _CRC[1, data[at + 6]] ^ _CRC[0, data[at + 7]]
        )  # fmt: skip
        at += 8
    while at < end:
        crc = crc >> 8 ^ _CRC[0, (crc ^ data[at]) & 0xFF]
        at += 1
    return np.int64(crc ^ np.uint32(0xFFFFFFFF)) == _little_endian(data, end, 4)


@numba.njit(numba.int64(_BYTES, numba.int64, numba.int64, numba.int64, numba.int64), inline="always")
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


@numba.njit(numba.int64(_BYTES, numba.int64, numba.int64, numba.int64), inline="always")
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


@numba.njit(numba.void(_BYTES, numba.int64, numba.int64, numba.int64, numba.int64[::1]), inline="always")
def _read_gtid(data, event, kind, last, into):  # type: ignore[no-untyped-def]
    """See `frame`."""
    body = event + 19
    into[TIME] = _little_endian(data, event, 4) * 1_000_000
    if kind == 162:
        into[NUMBER] = _little_endian(data, body, 8)
        into[DOMAIN] = _little_endian(data, body + 8, 4)
        into[SERVER] = _little_endian(data, event + 5, 4)
        return
    into[NUMBER] = _little_endian(data, body + 17, 8)
    into[DOMAIN] = -1
    into[SERVER] = body + 1
    if last - body >= 49 and data[body + 25] == 2:  # the logical clock, then MySQL 8's time stamps
        immediate = _little_endian(data, body + 42, 7) & ((1 << 55) - 1)
        if immediate:
            into[TIME] = immediate


@numba.njit(
    _STOPPED(
        _BYTES, numba.int64, numba.int64, numba.int64, numba.boolean, numba.boolean,
        _BYTES, _PLACES, _PLACES, _PLACES, _PLACES,
        numba.int64[::1], numba.int64[::1], numba.int64[::1], numba.int64[::1], numba.int64[::1], numba.int64[:, ::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def frame(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one pass over the packets
    data, at, end, position, checksum, inside, maps, bounds, ids, columns, states,
    operations, slots, begins, ends, places, commits
):  # fmt: skip
    """Plain events of the packets in data[at:end], which begin at `position` of the log's file.

    `inside` a transaction: its rows events.  Else whole transactions, of each of which a row of `commits` says: how many rows events
    there are up to its END, its position in the file after it, its commit time in microseconds since 1970, its GTID's NUMBER, and
    MariaDB's DOMAIN and SERVER, or -1 and where in `data` MySQL's 16 bytes of the source are.
    The TABLE_MAP of table number ids[i], of so many `columns`, was maps[bounds[i]:bounds[i+1]]; states[i]: SLOW, WANTED, PASSED.
    Of each rows event that is wanted: the operation (0 INSERT, 1 UPDATE, 2 DELETE), the table's i (`slots`), its row images
    data[begins:ends], and its place in the file.  Returns (where it stopped, position there, rows events, transactions).
    """
    count, room, transactions = 0, operations.shape[0], 0
    done_at, done_position, done_count, begun = (
        at,
        position,
        0,
        0,
    )  # after the last whole transaction; 1 GTID, 2 BEGIN, 3 rows
    while count < room and transactions < commits.shape[0]:
        if end - at < 4:
            break
        size = _little_endian(data, at, 3)
        event = at + 5
        following = at + 4 + size
        least = 23 if checksum else 19
        if size == 0xFFFFFF or following > end or size < 1 + least or data[at + 4] != 0:
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
            number = _little_endian(data, body, 6)
            slot = 0
            while slot < ids.shape[0] and ids[slot] != number:
                slot += 1
            if slot == ids.shape[0] or states[slot] == SLOW:
                break
            if kind == 19:
                first = bounds[slot]
                same = last - body == bounds[slot + 1] - first
                byte = 0
                while same and byte < last - body:
                    same = data[body + byte] == maps[first + byte]
                    byte += 1
                if not same:
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
                operations[count], slots[count], places[count] = operation, slot, start
                begins[count], ends[count] = begin, last
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
                _read_gtid(data, event, kind, last, commits[transactions])
            begun = step
        elif not (inside or begun):
            break
        if checksum and not _crc_holds(data, event, last):
            break
        count += wanted
        at = following
        position = start + size
        if kind == 16:
            commits[transactions, END], commits[transactions, PLACE] = count, position
            transactions += 1
            begun = 0
        if inside or kind == 16:
            done_at, done_position, done_count = at, position, count
    return done_at, done_position, done_count, transactions
