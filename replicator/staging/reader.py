"""A segment's changes as Arrow, from a file with all columns or a bare one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replicator.model.change import Operation
from replicator.model.schema import OPERATION, SEQUENCE, TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment

Batches = Iterator[pa.RecordBatch]


BATCH_BYTES = 8 * 1024 * 1024
MIN_ROWS, MAX_ROWS = 2048, 65_536


def read(storage: Storage, segment: Segment, schema: TableSchema, names: Sequence[str], *, since: int = -1) -> Batches:
    """These columns of `schema.change_arrow`, in this order, in batches of some MiB.  Raises StagingError.

    since: rows with a smaller sequence number are not wanted; row groups that have no others are passed over.
    """
    arrow = pa.schema([schema.change_arrow.field(name) for name in names])
    there = [name for name in names if not segment.bare or name in schema.names]
    with storage.open(segment.path) as file:
        groups, place = _from(file, segment, since)
        columns = there or list(schema.names[:1])
        # By name from the batch: `columns=` also takes what begins with the name and a dot.  A bare file always has a
        # column.
        for batch in file.iter_batches(_batch_rows(file), columns=columns, row_groups=groups):
            yield _typed(_whole(batch, segment, arrow, place) if segment.bare else batch.select(there), arrow)
            place += batch.num_rows


def _from(file: pq.ParquetFile, segment: Segment, since: int) -> tuple[list[int], int]:
    """Row groups from the first one that has a wanted row, and its place in the file."""
    place = 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        last = segment.first_sequence + place + group.num_rows - 1 if segment.bare else _greatest(group)
        if last is None or last >= since:
            return list(range(number, file.metadata.num_row_groups)), place
        place += group.num_rows
    return [], place


def _greatest(group: pq.RowGroupMetaData) -> int | None:
    """Sequence number; None where the footer does not tell."""
    column = group.column(0)
    statistics = column.statistics
    if column.path_in_schema != SEQUENCE or statistics is None or not statistics.has_min_max:
        return None
    return int(statistics.max)


def _batch_rows(file: pq.ParquetFile) -> int:
    """Return the number of rows of a batch.

    It is small where values may come from a dictionary: repeated values are small in the file and large in memory.
    """
    metadata = file.metadata
    if metadata.num_rows <= MIN_ROWS:
        return MIN_ROWS
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = range(metadata.num_columns)
    if any(group.column(number).has_dictionary_page for group in groups for number in columns):
        return MIN_ROWS
    each: int = sum(group.total_byte_size for group in groups) // metadata.num_rows + 1
    return max(MIN_ROWS, min(MAX_ROWS, BATCH_BYTES // each))


def _typed(rows: pa.RecordBatch, arrow: pa.Schema) -> pa.RecordBatch:
    """A column may be wanted wider than it was staged."""
    return rows if rows.schema.types == arrow.types else rows.cast(arrow)


def _whole(rows: pa.RecordBatch, segment: Segment, arrow: pa.Schema, place: int) -> pa.RecordBatch:
    """Rows of a bare file from `place` on, with what its segment says of them."""
    count = rows.num_rows
    made: dict[str, Callable[[], pa.Array]] = {
        SEQUENCE: lambda: pa.array(np.arange(count) + (segment.first_sequence + place), pa.int64()),
        OPERATION: lambda: pa.repeat(Operation.READ.value, count),
    }
    there = dict(zip(rows.schema.names, rows.columns, strict=True))
    arrays = [
        there[field.name].cast(field.type)
        if field.name in there
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
