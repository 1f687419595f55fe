"""A segment's changes as Arrow, whatever its file has of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from replicator.model.change import Operation
from replicator.model.schema import OPERATION, SEQUENCE, TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment

Batches = Iterator[pa.RecordBatch]


def read(storage: Storage, segment: Segment, schema: TableSchema, names: Sequence[str], batch_rows: int) -> Batches:
    """These columns of `schema.change_arrow`, in this order; batches of at most `batch_rows` rows.  Raises StagingError."""
    arrow = pa.schema([schema.change_arrow.field(name) for name in names])
    there = [name for name in names if not segment.bare or name in schema.names]
    place = 0
    with storage.open(segment.path) as file:
        # By name from the batch: `columns=` also takes what begins with the name and a dot.  A bare file always has a column.
        for batch in file.iter_batches(batch_rows, columns=there or list(schema.names[:1])):
            yield _whole(batch, segment, arrow, place) if segment.bare else batch.select(there)
            place += batch.num_rows


def _whole(rows: pa.RecordBatch, segment: Segment, arrow: pa.Schema, place: int) -> pa.RecordBatch:
    """Rows of a bare file from `place` on, with what its segment says of them."""
    count = rows.num_rows
    made: dict[str, Callable[[], pa.Array]] = {
        SEQUENCE: lambda: pa.array(np.arange(count) + (segment.first_sequence + place), pa.int64()),
        OPERATION: lambda: pa.repeat(Operation.READ.value, count),
    }
    arrays = [
        rows.column(field.name)
        if field.name in rows.schema.names
        else made.get(field.name, lambda field=field: pa.nulls(count, field.type))()
        for field in arrow
    ]
    whole = pa.RecordBatch.from_arrays(arrays, schema=arrow)
    gone = [one - place for one in segment.without if place <= one < place + count]
    if not gone:
        return whole
    kept = np.ones(count, np.bool_)
    kept[gone] = False
    return whole.filter(pa.array(kept))
