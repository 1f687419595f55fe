"""Splitting rows of the text protocol, compiled: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset_row.html

One kernel per file: numba does not notice that a helper in another file has changed.
"""

# ruff: noqa: PLR2004 - the numbers are the protocol's own, explained by the page above
from __future__ import annotations

import numba
import numpy as np

from replicator.kernel_bytes import copy_bytes
from replicator.kernels import kernel

MORE, FULL, END, LARGE, BAD = 0, 1, 2, 3, 4  # why `split_rows` stopped
_VIEWS = numba.types.Tuple((numba.int64, numba.int64, numba.int64))


@kernel(_VIEWS(numba.uint8[::1], numba.int64, numba.int64, numba.int64, numba.int64[:, ::1], numba.int64[:, ::1]))
def split_rows(data, at, end, row, starts, lengths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, C901, PLR0911, PLR0912
    """Packets in data[at:end] → where each value starts and how long it is (-1: NULL), from row number `row` on.

    `starts` and `lengths` have the shape (columns, rows of a batch).  Returns (where it stopped, rows, why).  MORE:
    bytes are missing.  FULL: the batch is full.  END: the packet there is the end, or an error.  LARGE: it has 2^24-1
    bytes and continues in the next.  BAD: its values do not fill it exactly.  Compiled code has no bounds checks except
    those here: bytes outside a packet are never read.
    """
    columns, capacity = starts.shape
    while True:
        if row == capacity:
            return at, row, FULL
        if at + 5 > end:
            return at, row, MORE
        size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        first = data[at + 4]
        if first == 0xFF or (first == 0xFE and size < 9):
            return at, row, END
        if size == 0xFFFFFF:
            return at, row, LARGE
        if at + 4 + size > end:
            return at, row, MORE
        place, limit = at + 4, at + 4 + size
        for column in range(columns):
            if place >= limit:
                return at, row, BAD
            length = np.int64(data[place])
            place += 1
            if length == 0xFB:
                length = np.int64(-1)
            elif length > 0xFB:
                width = 2 if length == 0xFC else 3 if length == 0xFD else 8
                if length == 0xFF or width > limit - place:
                    return at, row, BAD
                length = np.int64(0)
                for byte in range(width):
                    length |= np.int64(data[place + byte]) << (8 * byte)
                place += width
                if length < 0:
                    return at, row, BAD
            starts[column, row] = place
            lengths[column, row] = length
            if length > 0:
                if length > limit - place:
                    return at, row, BAD
                place += length
        if place != limit:
            return at, row, BAD
        row += 1
        at += 4 + size


@kernel(numba.void(numba.uint8[::1], numba.int64[::1], numba.int64[::1], numba.int64[::1], numba.uint8[::1]))
def gather(data, starts, lengths, offsets, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Copy the values of one column one after the other, to where `offsets` says."""
    for row in range(starts.shape[0]):
        if lengths[row] > 0:
            copy_bytes(out, offsets[row], data, starts[row], lengths[row])
