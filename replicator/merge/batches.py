"""Staged segments as Arrow tables, for batches that are small enough to be held in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from replicator.merge.changes import opened
from replicator.model.change import Operation
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, TableSchema
from replicator.staging.reader import read
from replicator.staging.storage import Storage
from replicator.state.journal import Segment

ROWS_AT_A_TIME = 2048  # values that a dictionary repeats are small in the file and large in memory: looked at often


def changes(
    storage: Storage, segments: Sequence[Segment], schema: TableSchema, above: int, most: int
) -> pa.Table | None:
    """Changes with a sequence number greater than `above` (invariant 3); None where they take more than `most` bytes of memory.

    Columns as in the segments: _sequence_num, _operation, the row's, and of the before image the key's.
    """
    names = [SEQUENCE, OPERATION, *schema.names, *(BEFORE + name for name in schema.key)]
    found: list[pa.RecordBatch] = []
    size = 0
    for batch in _batches(storage, segments, schema, names):
        kept = batch.filter(pc.greater(batch.column(SEQUENCE), above))
        size += kept.nbytes
        if size > most:
            return None
        found.append(kept)
    arrow = schema.change_arrow
    opened()
    return pa.Table.from_batches(found, pa.schema([arrow.field(name) for name in names])).combine_chunks()


def rows(storage: Storage, segment: Segment, schema: TableSchema, above: int) -> Iterator[pa.RecordBatch]:
    """READ rows above a sequence number, as they come: the row's columns, and _sequence_num last."""
    names = [*schema.names, SEQUENCE]
    for batch in read(storage, segment, schema, [*names, OPERATION], ROWS_AT_A_TIME):
        wanted = pc.and_(
            pc.greater(batch.column(SEQUENCE), above), pc.equal(batch.column(OPERATION), Operation.READ.value)
        )
        yield batch.select(names).filter(wanted)


def _batches(
    storage: Storage, segments: Sequence[Segment], schema: TableSchema, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    for segment in segments:
        yield from read(storage, segment, schema, names, ROWS_AT_A_TIME)
