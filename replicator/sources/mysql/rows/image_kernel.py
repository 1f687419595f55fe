"""Split the row images of rows events, compiled (layout: MySQL's libs/mysql/binlog/event/rows_event.h).

One kernel per file: numba does not notice that a helper in another file has changed.  Compiled code has no bounds
checks except those written here: bytes outside an event are never read.
"""

# ruff: noqa: ANN001, ANN201 - compiled: types are in the decorators
from __future__ import annotations

import numba
import numpy as np

from replicator.kernel_bytes import copy_bytes
from replicator.kernels import kernel

DONE, FULL, BAD = 0, 1, 2  # why `split_images` stopped
UPDATE = 1  # an operation: see frame_kernel
_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_PLACES = numba.types.Array(numba.int64, 1, "C", readonly=True)
_STOPPED = numba.types.Tuple((numba.int64, numba.int64, numba.int64, numba.int64))


@kernel(
    _STOPPED(
        _BYTES,
        _PLACES,
        _PLACES,
        _PLACES,
        numba.int64,
        _PLACES,
        _PLACES,
        numba.int64,
        numba.int64,
        numba.uint8[::1],
        numba.int64[:, ::1],
        numba.int64[:, ::1],
        numba.int64[::1],
    )
)
def split_images(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0911, PLR0912, PLR0913, PLR0917 - one pass over the bytes
    data, begins, ends, operations, event, prefixes, sizes, image, used, out, starts, lengths, counts
):
    """Row images in data[begins[i]:ends[i]], from event number `event` on → where each value starts in `out`, how long
    it is (-1: NULL).

    operations[i]: UPDATE's rows are of two images, those of others of one.  prefixes: bytes before a value of the
    column that say its length, 0 where it has always `sizes`, which is the longest otherwise.  The images' bytes are
    copied to `out` from `used` on; `starts` and `lengths` have the shape (columns, images) and are filled from `image`
    on; counts[i] becomes the number of rows. Returns (event, image, used, why) of what is done: FULL where `out` or
    `starts` have no room for that event, BAD where it does not hold whole rows.
    """
    columns, capacity = starts.shape
    bitmap = (columns + 7) // 8
    while event < begins.shape[0]:
        end = used + ends[event] - begins[event]
        if end > out.shape[0]:
            return event, image, used, FULL
        copy_bytes(out, used, data, begins[event], ends[event] - begins[event])
        at, current, left, rows = used, image, np.int64(0), np.int64(0)
        images = 2 if operations[event] == UPDATE else 1
        while at < end:
            if current == capacity:
                return event, image, used, FULL
            nulls = at
            at += bitmap
            if at > end:
                return event, image, used, BAD
            for column in range(columns):
                starts[column, current] = at
                if out[nulls + column // 8] >> (column % 8) & 1:
                    lengths[column, current] = -1
                    continue
                prefix, size = prefixes[column], sizes[column]
                if prefix:
                    if prefix > end - at:
                        return event, image, used, BAD
                    length = np.int64(0)
                    for byte in range(prefix):
                        length |= np.int64(out[at + byte]) << (8 * byte)
                    if length > size:
                        return event, image, used, BAD
                    size = length
                    at += prefix
                    starts[column, current] = at
                if size > end - at:
                    return event, image, used, BAD
                lengths[column, current] = size
                at += size
            current += 1
            left += 1
            if left == images:
                left = np.int64(0)
                rows += 1
        if left:
            return event, image, used, BAD
        counts[event] = rows
        image, used = current, end
        event += 1
    return event, image, used, DONE
