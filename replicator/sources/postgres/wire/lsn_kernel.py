"""Places of the log as text, compiled.

One kernel per file: numba does not notice that a helper in another file has changed.
"""

# ruff: noqa: ANN001, ANN201 - compiled: types are in the decorators
from __future__ import annotations

import numba
import numpy as np

from replicator.kernels import kernel

MAX_LSN_LENGTH = 17


@kernel(numba.void(numba.int64[::1], numba.int32[::1], numba.uint8[::1]))
def write_lsns(lsns, offsets, out):  # type: ignore[no-untyped-def]
    """Each as `offset.lsn_text` has it, to out[offsets[i]:offsets[i+1]], where there is room for the LONGEST of
    each.
    """
    at = np.int32(0)
    for row in range(lsns.shape[0]):
        offsets[row] = at
        for half in range(2):
            value = lsns[row] >> 32 if half == 0 else lsns[row] & 0xFFFFFFFF
            shift = 28
            while shift > 0 and value >> shift == 0:
                shift -= 4
            while shift >= 0:
                digit = value >> shift & 15
                out[at] = digit + 48 if digit < 10 else digit + 55  # noqa: PLR2004 - 0-9, A-F
                at += 1
                shift -= 4
            if half == 0:
                out[at] = 47  # /
                at += 1
    offsets[lsns.shape[0]] = at
