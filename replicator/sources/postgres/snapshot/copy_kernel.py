"""The bytes of a COPY out of the messages that bring them, compiled.

https://www.postgresql.org/docs/current/protocol-message-formats.html, CopyData: a type, the size from there on, bytes.
One kernel per file: numba does not notice that a helper in another file has changed.
"""

# ruff: noqa: ANN001, ANN201, PLR2004 - compiled: types are in the decorators; sizes and codes of the wire format
from __future__ import annotations

import numba
import numpy as np

from replicator.kernel_bytes import copy_bytes
from replicator.kernels import kernel

MORE, FULL, OTHER = 0, 1, 2  # why `unframe` stopped
_BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)  # takes arrays that can be written, too
_STOPPED = numba.types.Tuple((numba.int64, numba.int64, numba.int64, numba.int64, numba.int64))


@kernel(_STOPPED(_BYTES, numba.int64, numba.int64, numba.int64, numba.uint8[::1], numba.int64, numba.int64))
def unframe(data, at, end, left, out, filled, messages):  # type: ignore[no-untyped-def]
    """What CopyData messages in data[at:end] say, to out[filled:]; of the first of them the head is gone, and `left`
    bytes are to come.

    At most `messages` begin here, and only such as `out` has room for.  Returns (where it stopped, what is left of the
    message there, what is filled, how many more may begin, why): MORE bytes are needed; `out` is FULL; the message at
    the place is an OTHER.
    """
    while True:
        size = min(left, end - at, out.shape[0] - filled)
        copy_bytes(out, filled, data, at, size)
        at += size
        filled += size
        left -= size
        if left > 0 or at > end - 5:
            return at, left, filled, messages, MORE
        if data[at] != 100:  # d
            return at, left, filled, messages, OTHER
        size = np.int64(data[at + 1]) << 24 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 8
        size = (size | np.int64(data[at + 4])) - 4
        if size < 0 or size > 0x7FFFFFFF - 4:
            return at, left, filled, messages, OTHER
        if messages == 0 or size > out.shape[0] - filled:
            return at, left, filled, messages, FULL
        at += 5
        left = size
        messages -= 1
