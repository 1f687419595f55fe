"""`_unchanged` of a batch (`replicator.model.schema`): which columns each change left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator.model.schema import UNCHANGED_FIELD


def unchanged_places(missing: Sequence[npt.NDArray[np.bool_] | None], rows: int) -> pa.Array:
    """missing: of each column, in which rows it is left out; None: in none.

    Of each row the places of those columns; null where there is none.
    """
    if not any(one is not None and one.any() for one in missing):
        return pa.nulls(rows, UNCHANGED_FIELD.type)
    table = np.array([np.zeros(rows, np.bool_) if one is None else one for one in missing]).T
    counts = table.sum(axis=1)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    places = pa.array(np.nonzero(table)[1].astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets), places, mask=pa.array(counts == 0))
