"""Where the tuples of row messages begin, compiled: an old tuple stands before the new one, and is as long as its
values.

One kernel per file: numba does not notice that a helper in another file has changed.
"""

# ruff: noqa: PLR1714, PLR2004 - numba has no fast `in`; the numbers are the protocol's own: see messages
from __future__ import annotations

import numba
import numpy as np

from replicator.kernels import kernel


@kernel(numba.int64(numba.uint8[::1], numba.int64[::1], numba.int64[::1], numba.int64[::1], numba.uint8[::1]))
def locate(data, bounds, old, new, kinds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, C901, PLR0911, PLR0912
    """Row messages data[bounds[i]:bounds[i+1]] (`I`, `U` or `D`, relation, tuples) → where their tuples begin.

    old[i], new[i]: place of a tuple's count of columns, -1 where there is none; kinds[i]: K (the identity's columns) or
    O (all) of the old tuple, else 0.  Returns the number of the first message that is none of these, -1 where all are.
    """
    for i in range(len(bounds) - 1):
        at, end = bounds[i], bounds[i + 1]
        old[i] = new[i] = -1
        kinds[i] = 0
        if end - at < 8:
            return i
        operation = data[at]
        at += 5
        if operation != 73:  # I
            kind = data[at]
            if kind == 75 or kind == 79:  # K, O
                kinds[i] = kind
                old[i] = at + 1
                at += 1
                if end - at < 2:
                    return i
                columns = np.int64(data[at]) << 8 | np.int64(data[at + 1])
                at += 2
                for _ in range(columns):
                    if at >= end:
                        return i
                    form = data[at]
                    at += 1
                    if form == 116 or form == 98:  # t, b
                        if end - at < 4:
                            return i
                        size = np.int64(0)
                        for byte in range(4):
                            size = size << 8 | np.int64(data[at + byte])
                        at += 4 + size
                        if at > end:
                            return i
            elif operation == 68:  # D
                return i
        if operation != 68:
            if end - at < 3 or data[at] != 78:  # N
                return i
            new[i] = at + 1
            at = end
        if at != end:
            return i
    return -1
