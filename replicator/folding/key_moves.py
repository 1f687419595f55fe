"""Which UPDATEs move their row to another key: one rule for all targets and streams.

Keys are compared as in the source's unique index: NaN equals NaN, and zeros are equal regardless of their sign.  Where
the log has no earlier key, the key has not changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.model.change import Operation
from replicator.model.schema import BEFORE, OPERATION

Mask = npt.NDArray[np.bool_]


def moves(changes: pa.RecordBatch | pa.Table, key: Sequence[str]) -> Mask:
    """Return a flag for each change: does it move its row?

    changes: _operation, the key's columns, and their before images; key: without one, no row moves.
    """
    updated = updates(changes)
    if not key or not updated.any():
        return np.zeros(changes.num_rows, np.bool_)
    other = np.zeros(changes.num_rows, np.bool_)
    for name in key:
        other |= _differ(changes.column(name), changes.column(BEFORE + name))
    return np.asarray(updated & other)


def updates(changes: pa.RecordBatch | pa.Table) -> Mask:
    """Which changes are UPDATEs: one flag for each."""
    return _mask(pc.equal(changes.column(OPERATION), Operation.UPDATE.value))


def _differ(after: pa.Array | pa.ChunkedArray, before: pa.Array | pa.ChunkedArray) -> Mask:
    differ = pc.not_equal(after, before)
    if pa.types.is_floating(after.type):
        differ = pc.and_(differ, pc.invert(pc.and_(pc.is_nan(after), pc.is_nan(before))))
    return _mask(pc.fill_null(differ, fill_value=False))


def _mask(column: pa.Array | pa.ChunkedArray) -> Mask:
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.to_numpy(), np.bool_)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
