"""Splitting tuples of pgoutput and rows of COPY BINARY, compiled.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html (TupleData) and the section "Binary
Format" of https://www.postgresql.org/docs/current/sql-copy.html.  One kernel per file: numba does not notice that a
helper in another file has changed.  Compiled code has no bounds checks except those written here: bytes outside `data`
are never read.
"""

# ruff: noqa: ANN001, ANN201, ANN202, PLR2004, PLR0911 - compiled: types are in the decorators; the numbers are the
# protocol's own
from __future__ import annotations

import numba
import numpy as np

from replicator.kernel_bytes import copy_bytes
from replicator.kernels import kernel, part

MORE, FULL, END, BAD = 0, 1, 2, 3  # why `split_copy` stopped
_NULL, _UNCHANGED, _TEXT, _BINARY = 0x6E, 0x75, 0x74, 0x62  # n u t b
_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_STOPPED = numba.types.Tuple((numba.int64, numba.int64, numba.int64))


@part
def _int32(data, at):  # type: ignore[no-untyped-def]
    """Big endian, signed; the caller has checked that there are four bytes."""
    high = (np.int64(data[at]) << 24) | (np.int64(data[at + 1]) << 16)
    value = high | (np.int64(data[at + 2]) << 8) | np.int64(data[at + 3])
    return value - (np.int64(1) << 32) if value >= np.int64(1) << 31 else value


@kernel(
    numba.int64(
        _BYTES,
        _PLACES,
        numba.uint8[:, ::1],
        numba.int64[:, ::1],
        numba.int64[:, ::1],
        numba.int64[::1],
    )
)
def split_tuples(data, offsets, kinds, starts, lengths, ends):  # type: ignore[no-untyped-def]
    """TupleData at each of `offsets` → for each column the kind of its value, where it starts and how long it is (0 for
    n and u).

    `kinds`, `starts`, `lengths` have the shape (columns, tuples); `ends` becomes where each tuple ends.  Returns the
    number of the first tuple that is none, or that has another number of columns; -1 where all are whole.
    """
    columns, tuples = kinds.shape
    end = data.shape[0]
    for row in range(tuples):
        at = offsets[row]
        if at < 0 or at > end - 2 or (np.int64(data[at]) << 8 | np.int64(data[at + 1])) != columns:
            return row
        at += 2
        for column in range(columns):
            if at >= end:
                return row
            kind = data[at]
            at += 1
            length = np.int64(0)
            if kind in (_TEXT, _BINARY):
                if at > end - 4:
                    return row
                length = _int32(data, at)
                at += 4
                if length < 0 or length > end - at:
                    return row
            elif kind not in (_NULL, _UNCHANGED):
                return row
            kinds[column, row] = kind
            starts[column, row] = at
            lengths[column, row] = length
            at += length
        ends[row] = at
    return -1


@kernel(numba.int64(_BYTES, _PLACES, numba.int64[::1]))
def tuple_ends(data, offsets, ends):  # type: ignore[no-untyped-def]
    """Where each TupleData that begins at `offsets` ends, with any number of columns.

    Returns as `split_tuples`.
    """
    end = data.shape[0]
    for row in range(offsets.shape[0]):
        at = offsets[row]
        if at < 0 or at > end - 2:
            return row
        columns = np.int64(data[at]) << 8 | np.int64(data[at + 1])
        at += 2
        for _ in range(columns):
            if at >= end:
                return row
            kind = data[at]
            at += 1
            if kind in (_TEXT, _BINARY):
                if at > end - 4:
                    return row
                length = _int32(data, at)
                at += 4
                if length < 0 or length > end - at:
                    return row
                at += length
            elif kind not in (_NULL, _UNCHANGED):
                return row
        ends[row] = at
    return -1


@kernel(_STOPPED(_BYTES, numba.int64, numba.int64[:, ::1], numba.int64[:, ::1]))
def split_copy(data, at, starts, lengths):  # type: ignore[no-untyped-def]
    """Rows of COPY BINARY from data[at] on → where each value starts and how long it is (-1: NULL).

    `starts` and `lengths` have the shape (columns, rows of a batch).  Returns (where it stopped, rows, why): MORE bytes
    are needed for the row there, the batch is FULL, the trailer is there: END, or a row that is none: BAD.
    """
    columns, capacity = starts.shape
    end = data.shape[0]
    row = 0
    while True:
        if at > end - 2:
            return at, row, MORE
        fields = np.int64(data[at]) << 8 | np.int64(data[at + 1])
        if fields == 0xFFFF:
            return at + 2, row, END
        if fields != columns:
            return at, row, BAD
        if row == capacity:
            return at, row, FULL
        place = at + 2
        for column in range(columns):
            if place > end - 4:
                return at, row, MORE
            length = _int32(data, place)
            place += 4
            if length < -1:
                return at, row, BAD
            starts[column, row] = place
            lengths[column, row] = length
            if length > 0:
                if length > end - place:
                    return at, row, MORE
                place += length
        row += 1
        at = place


@kernel(numba.void(_BYTES, _PLACES, _PLACES, _PLACES, numba.uint8[::1]))
def gather(data, starts, lengths, offsets, out):  # type: ignore[no-untyped-def]
    """Copy the values of one column one after the other, to where `offsets` says."""
    for row in range(starts.shape[0]):
        if lengths[row] > 0:
            copy_bytes(out, offsets[row], data, starts[row], lengths[row])
