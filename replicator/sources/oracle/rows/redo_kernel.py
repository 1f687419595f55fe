"""Splitting SQL_REDO into the places of its values, compiled: Oracle Database Utilities, "Using LogMiner to Analyze
Redo Log Files" ("How the V$LOGMNR_CONTENTS View Is Populated"), and SQL Language Reference, "Literals".

One kernel per file: numba does not notice that a helper in another file has changed.
"""

# ruff: noqa: FBT003, SIM109, PLR1714, ANN001, ANN201, ANN202, PLR2004, C901, PLR0911, PLR0912, PLR0913, PLR0917 - compiled, ASCII codes
from __future__ import annotations

import numba
import numpy as np

from replicator.kernels import kernel, part

# What a cell is; ABSENT: the statement does not name the column.
ABSENT, NULL, TEXT, ESCAPED, UNISTR, DATE, MOMENT, ZONED, HEX, DAYS, MONTHS, EMPTY_LOB, JOINED, UNSUPPORTED = range(14)
BROKEN = 255
# What a statement is.
WHOLE, NO_STATEMENT, UNKNOWN_COLUMN, TWICE = 0, 1, 2, 3

_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_CODES = numba.types.Array(numba.uint8, 1, "C", readonly=True)


def _word(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8).copy()


_INSERT, _INTO, _VALUES, _DELETE, _FROM = map(_word, ("insert", "into", "values", "delete", "from"))
_UPDATE, _SET, _WHERE, _AND, _IS, _NULL = map(_word, ("update", "set", "where", "and", "is", "null"))
_ROWID, _UNSUPPORTED, _TYPE = map(_word, ("rowid", "unsupported", "type"))
_CALLS = _word(
    "unistr|to_date|to_timestamp|to_timestamp_tz|hextoraw|to_dsinterval|to_yminterval|empty_clob|empty_blob|"
)
_CALLED = np.array([UNISTR, DATE, MOMENT, ZONED, HEX, DAYS, MONTHS, EMPTY_LOB, EMPTY_LOB], np.uint8)


@part
def _blanks(data, at, end):  # type: ignore[no-untyped-def]
    while at < end and (data[at] == 32 or 9 <= data[at] <= 13):
        at += 1
    return at


@part
def _in_name(byte):  # type: ignore[no-untyped-def]
    low = byte | 32
    return 97 <= low <= 122 or 48 <= byte <= 57 or byte in (35, 36, 95)


@numba.njit
def _after_word(data, at, end, word):  # type: ignore[no-untyped-def]
    """Behind the word and blanks, in any case of letters; -1 where it is not there."""
    at = _blanks(data, at, end)
    size = word.shape[0]
    if at + size > end:
        return np.int64(-1)
    for place in range(size):
        if data[at + place] | 32 != word[place]:
            return np.int64(-1)
    at += size
    if at < end and _in_name(data[at]):
        return np.int64(-1)
    return _blanks(data, at, end)


@numba.njit
def _after_quoted(data, at, end, quote):  # type: ignore[no-untyped-def]
    """Behind the quote that closes what data[at] opens; negative: one with doubled quotes inside; 0: it does not."""
    doubled = False
    at += 1
    while at < end:
        if data[at] == quote:
            if at + 1 < end and data[at + 1] == quote:
                doubled = True
                at += 1
            else:
                return -(at + 1) if doubled else at + 1
        at += 1
    return np.int64(0)


@numba.njit
def _call(data, at, size):  # type: ignore[no-untyped-def]
    """What a function makes; BROKEN: it is not one of those that LogMiner writes."""
    word, begin = 0, 0
    for place in range(_CALLS.shape[0]):
        if _CALLS[place] == 124:
            if place - begin == size:
                same = True
                for i in range(size):
                    byte = data[at + i]
                    if 65 <= byte <= 90:
                        byte |= 32
                    if byte != _CALLS[begin + i]:
                        same = False
                        break
                if same:
                    return np.int64(_CALLED[word])
            word, begin = word + 1, place + 1
    return np.int64(BROKEN)


@numba.njit
def _literal(data, at, end):  # type: ignore[no-untyped-def]
    """(behind it, where its text begins, bytes of that, what it is)"""
    if at >= end:
        return at, at, np.int64(0), np.int64(BROKEN)
    byte = data[at]
    if byte == 39:
        behind = _after_quoted(data, at, end, 39)
        if behind == 0:
            return at, at, np.int64(0), np.int64(BROKEN)
        if behind < 0:
            return -behind, at + 1, -behind - at - 2, np.int64(ESCAPED)
        return behind, at + 1, behind - at - 2, np.int64(TEXT)
    if 48 <= byte <= 57 or byte in (43, 45, 46):
        begin = at
        while at < end and (48 <= data[at] <= 57 or data[at] in (43, 45, 46, 69, 101)):
            at += 1
        return at, begin, at - begin, np.int64(TEXT)
    behind = _after_word(data, at, end, _NULL)
    if behind >= 0:
        return behind, at, np.int64(0), np.int64(NULL)
    behind = _after_word(data, at, end, _UNSUPPORTED)
    if behind >= 0:
        behind = _after_word(data, behind, end, _TYPE)
        if behind >= 0:
            return behind, at, np.int64(0), np.int64(UNSUPPORTED)
    begin = at
    while at < end and _in_name(data[at]):
        at += 1
    kind = _call(data, begin, at - begin)
    at = _blanks(data, at, end)
    if kind == BROKEN or at >= end or data[at] != 40:
        return at, at, np.int64(0), np.int64(BROKEN)
    at = _blanks(data, at + 1, end)
    text, size = at, np.int64(0)
    first = True
    while at < end and data[at] != 41:  # its arguments: the value, and perhaps a format
        if data[at] != 39 or (kind == EMPTY_LOB):
            return at, at, np.int64(0), np.int64(BROKEN)
        behind = _after_quoted(data, at, end, 39)
        if behind == 0 or (behind < 0 and kind != UNISTR):  # a date has no quotes inside
            return at, at, np.int64(0), np.int64(BROKEN)
        behind = abs(behind)
        if first:
            text, size, first = at + 1, behind - at - 2, False
        at = _blanks(data, behind, end)
        if at < end and data[at] == 44:
            at = _blanks(data, at + 1, end)
            if at >= end or data[at] != 39:
                return at, at, np.int64(0), np.int64(BROKEN)
        elif at >= end or data[at] != 41:
            return at, at, np.int64(0), np.int64(BROKEN)
    if at >= end or (first and kind != EMPTY_LOB):
        return at, at, np.int64(0), np.int64(BROKEN)
    return _blanks(data, at + 1, end), text, size, kind


@numba.njit
def _value(data, at, end):  # type: ignore[no-untyped-def]
    """A literal, or several that are joined by ||: then the text is that of the whole expression."""
    begin = at
    at, text, size, kind = _literal(data, at, end)
    if kind == BROKEN:
        return at, text, size, kind
    last = at
    at = _blanks(data, at, end)
    joined = False
    while at + 1 < end and data[at] == 124 and data[at + 1] == 124:
        joined = True
        at, text, size, other = _literal(data, _blanks(data, at + 2, end), end)
        if (
            other == BROKEN
            or not (kind == TEXT or kind == ESCAPED or kind == UNISTR)
            or not (other == TEXT or other == ESCAPED or other == UNISTR)
        ):
            return at, at, np.int64(0), np.int64(BROKEN)
        last = at
        at = _blanks(data, at, end)
    if joined:
        return at, begin, last - begin, np.int64(JOINED)
    return at, text, size, kind


@numba.njit
def _column(data, at, size, names, bounds, likely):  # type: ignore[no-untyped-def]
    """The number of the column whose name stands there, as it is written between quotes; -1: there is none."""
    count = bounds.shape[0] - 1
    for tried in range(count):
        column = likely + tried
        if column >= count:
            column -= count
        begin = bounds[column]
        if bounds[column + 1] - begin == size:
            same = True
            for place in range(size):
                if data[at + place] != names[begin + place]:
                    same = False
                    break
            if same:
                return np.int64(column)
    return np.int64(-1)


@numba.njit
def _assignments(data, at, end, row, names, bounds, first, places, sizes, kinds, where):  # type: ignore[no-untyped-def]
    """`"A" = …` with commas between, or with AND where they are conditions: (behind them, what is wrong)"""
    likely = np.int64(0)
    while True:
        if at >= end:
            return at, NO_STATEMENT
        if data[at] != 34:
            behind = _after_word(data, at, end, _ROWID) if where else np.int64(-1)
            if behind < 0 or behind >= end or data[behind] != 61:
                return at, NO_STATEMENT
            at, text, size, kind = _value(data, _blanks(data, behind + 1, end), end)
            if kind != TEXT:
                return at, NO_STATEMENT
        else:
            behind = abs(_after_quoted(data, at, end, 34))
            if behind == 0:
                return at, NO_STATEMENT
            column = _column(data, at + 1, behind - at - 2, names, bounds, likely)
            if column < 0:
                return at, UNKNOWN_COLUMN
            likely = column + 1
            if likely >= bounds.shape[0] - 1:
                likely = np.int64(0)
            at = _blanks(data, behind, end)
            if at < end and data[at] == 61:
                at, text, size, kind = _value(data, _blanks(data, at + 1, end), end)
            else:
                behind = _after_word(data, at, end, _IS) if where else np.int64(-1)
                behind = _after_word(data, behind, end, _NULL) if behind >= 0 else behind
                if behind < 0:
                    return at, NO_STATEMENT
                at, text, size, kind = behind, at, np.int64(0), np.int64(NULL)
            if kind == BROKEN:
                return at, NO_STATEMENT
            if kinds[first + column, row] != ABSENT:
                return at, TWICE
            places[first + column, row], sizes[first + column, row] = text, size
            kinds[first + column, row] = np.uint8(kind)
        if where:
            if at >= end:
                return at, WHOLE
            at = _after_word(data, at, end, _AND)
            if at < 0:
                return np.int64(0), NO_STATEMENT
        else:
            if at >= end or data[at] != 44:
                return at, WHOLE
            at = _blanks(data, at + 1, end)


@numba.njit
def _insert(data, at, end, row, names, bounds, order, places, sizes, kinds):  # type: ignore[no-untyped-def]
    count = 0
    if at >= end or data[at] != 40:
        return NO_STATEMENT
    while True:
        at = _blanks(data, at + 1, end)
        if at >= end or data[at] != 34:
            return NO_STATEMENT
        behind = abs(_after_quoted(data, at, end, 34))
        if behind == 0:
            return NO_STATEMENT
        column = _column(data, at + 1, behind - at - 2, names, bounds, count % (bounds.shape[0] - 1))
        if column < 0:
            return UNKNOWN_COLUMN
        if count >= order.shape[0]:
            return TWICE
        order[count] = column
        count += 1
        at = _blanks(data, behind, end)
        if at < end and data[at] == 41:
            break
        if at >= end or data[at] != 44:
            return NO_STATEMENT
    at = _after_word(data, at + 1, end, _VALUES)
    if at < 0 or at >= end or data[at] != 40:
        return NO_STATEMENT
    for place in range(count):
        column = order[place]
        at, text, size, kind = _value(data, _blanks(data, at + 1, end), end)
        if kind == BROKEN or at >= end or data[at] != (41 if place == count - 1 else 44):
            return NO_STATEMENT
        if kinds[column, row] != ABSENT:
            return TWICE
        places[column, row], sizes[column, row], kinds[column, row] = text, size, np.uint8(kind)
    return WHOLE if at + 1 == end else NO_STATEMENT


@numba.njit
def _after_table(data, at, end):  # type: ignore[no-untyped-def]
    """Behind "OWNER"."TABLE" and blanks; -1: there is none."""
    for part_of_name in range(2):
        if at < 0 or at >= end or data[at] != 34:
            return np.int64(-1)
        at = abs(_after_quoted(data, at, end, 34))
        if at == 0:
            return np.int64(-1)
        if part_of_name == 0:
            if at >= end or data[at] != 46:
                return np.int64(-1)
            at += 1
    return _blanks(data, at, end)


@kernel(
    numba.int64(
        _BYTES,
        _PLACES,
        _BYTES,
        _PLACES,
        numba.int64[:, ::1],
        numba.int64[:, ::1],
        numba.uint8[:, ::1],
        numba.uint8[::1],
    )
)
def split_redo(data, bounds, names, name_bounds, places, sizes, kinds, found):  # type: ignore[no-untyped-def]
    """Statements data[bounds[i]:bounds[i + 1]] → where each value's text starts, its bytes, and what it is.

    names[name_bounds[c]:name_bounds[c + 1]] is the name of column c as it stands between quotes.  places, sizes, kinds:
    rows are the columns' values after the change, then those before it; kinds must be all ABSENT.  Of an UPDATE, a
    value that SET does not name is that of WHERE.  `found`: of each statement WHOLE, or what is wrong with it.  Returns
    how many are not WHOLE.  Nothing outside a statement is ever read.
    """
    columns = name_bounds.shape[0] - 1
    order = np.empty(columns, np.int64)
    bad = 0
    for row in range(bounds.shape[0] - 1):
        end = bounds[row + 1]
        begin = _blanks(data, bounds[row], end)
        while end > begin and (data[end - 1] == 59 or data[end - 1] == 32 or 9 <= data[end - 1] <= 13):
            end -= 1
        what = NO_STATEMENT
        first = data[begin] | 32 if begin < end else 0
        if first == 105:
            at = _after_word(data, begin, end, _INSERT)
            at = _after_word(data, at, end, _INTO) if at >= 0 else at
            at = _after_table(data, at, end) if at >= 0 else at
            if at >= 0:
                what = _insert(data, at, end, row, names, name_bounds, order, places, sizes, kinds)
        elif first == 100 or first == 102:  # or where a large object's row lies: `redo_frame`
            at = _after_word(data, begin, end, _DELETE) if first == 100 else begin
            at = _after_word(data, at, end, _FROM) if at >= 0 else at
            at = _after_table(data, at, end) if at >= 0 else at
            at = _after_word(data, at, end, _WHERE) if at >= 0 else at
            if at >= 0:
                at, what = _assignments(data, at, end, row, names, name_bounds, columns, places, sizes, kinds, True)
        elif first == 117:
            at = _after_word(data, begin, end, _UPDATE)
            at = _after_table(data, at, end) if at >= 0 else at
            at = _after_word(data, at, end, _SET) if at >= 0 else at
            if at >= 0:
                at, what = _assignments(data, at, end, row, names, name_bounds, 0, places, sizes, kinds, False)
                if what == WHOLE and at < end:
                    what = NO_STATEMENT
                    at = _after_word(data, at, end, _WHERE)
                    if at >= 0:
                        at, what = _assignments(
                            data, at, end, row, names, name_bounds, columns, places, sizes, kinds, True
                        )
                for column in range(columns):
                    if kinds[column, row] == ABSENT:
                        other = columns + column
                        places[column, row], sizes[column, row] = places[other, row], sizes[other, row]
                        kinds[column, row] = kinds[other, row]
        found[row] = np.uint8(what)
        bad += what != WHOLE
    return bad
