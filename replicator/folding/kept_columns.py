"""Columns that the source no longer has and the target keeps: rows that are replaced hand their values on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replicator.folding.fold import NO_KEY, numbered
from replicator.model.schema import TableSchema


def carried(put: pa.Table, replaced: pa.Table, schema: TableSchema, kept: list[str]) -> pa.Table:
    """`put` with the values of the columns `kept`, from the rows under the same keys that are replaced."""
    keys = list(schema.key)
    new, old = numbered([put.select(keys), replaced.select(keys)])
    place = np.full(int(max(new.max(initial=0), old.max(initial=0))) + 2, NO_KEY)
    place[old] = np.arange(len(old))
    taken = pa.array(place[new], mask=place[new] == NO_KEY)
    for name in kept:
        values = replaced.column(name).take(taken)
        put = put.append_column(name, values) if name not in put.column_names else put.set_column(
            put.schema.get_field_index(name), name, values
        )  # fmt: skip
    return put
