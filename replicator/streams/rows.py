"""A part's rows of one shard, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator.folding.key_moves import moves, updates
from replicator.model.change import Operation
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, TableSchema
from replicator.staging import reader
from replicator.staging.storage import Storage
from replicator.streams.feed import StreamSegment
from replicator.streams.position import ROW, StreamPosition
from replicator.streams.sharding import shards_of

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
AS_IS, LEAVES, ARRIVES = 0, 0, 1  # offsets behind ROW


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of `part` in the order of their places; `data` has the change schema."""

    part: StreamSegment
    data: pa.RecordBatch
    sequences: Numbers
    offsets: Numbers

    def between(self, begin: int, end: int) -> Rows:
        """Those at these places in the batch."""
        kept = slice(begin, end)
        return Rows(self.part, self.data.slice(begin, end - begin), self.sequences[kept], self.offsets[kept])

    def below(self, position: StreamPosition) -> int:
        """How many lie before it."""
        first = int(np.searchsorted(self.sequences, position.sequence, "left"))
        last = int(np.searchsorted(self.sequences, position.sequence, "right"))
        return first + int(np.searchsorted(self.offsets[first:last], position.offset, "left"))


@dataclass(frozen=True, slots=True)
class Read:
    """One batch of the file: `rows` of the shard, of `scanned` bytes; nothing before `known` is still to come."""

    rows: Rows
    scanned: int
    known: StreamPosition


def read(storage: Storage, part: StreamSegment, start: StreamPosition, shard: int, shards: int) -> Iterator[Read]:
    """From `start` on, in order.  Raises StagingError."""
    since = start.sequence if part.place is None else -1
    given = 1  # 0 is a LOAD's
    for batch in reader.read(storage, part.segment, part.schema, part.schema.change_arrow.names, since=since):
        size = batch.nbytes
        if not batch.num_rows:
            continue
        if part.place is None:
            known = StreamPosition(_last(batch) + 1)
            rows = _of_shard(part, batch, shard, shards)
        else:
            whole = batch if shard == 0 else batch.slice(0, 0)  # a table without key
            rows = _placed(part, part.place, whole, given)
            given += whole.num_rows
            known = StreamPosition(part.place, given)
        yield Read(rows.between(rows.below(start), rows.data.num_rows), size, known)


def _last(batch: pa.RecordBatch) -> int:
    return int(batch.column(SEQUENCE)[batch.num_rows - 1].as_py())


def _placed(part: StreamSegment, place: int, batch: pa.RecordBatch, given: int) -> Rows:
    count = batch.num_rows
    return Rows(part, batch, np.full(count, place, np.int64), np.arange(given, given + count, dtype=np.int64))


def _of_shard(part: StreamSegment, batch: pa.RecordBatch, shard: int, shards: int) -> Rows:
    """An UPDATE that changes the key, or one of a table without a key, is a DELETE in the old key's shard and an INSERT
    in the new key's, whether they are one or two.
    """
    key, count = part.schema.key, batch.num_rows
    at = shards_of([batch.column(name) for name in key], shards, count)
    numbers = np.asarray(batch.column(SEQUENCE).to_numpy(), np.int64)
    here = (at == shard) & (numbers > part.above)
    moved = moves(batch, key) if key else updates(batch)
    if not moved.any():
        data = batch if here.all() else batch.filter(pa.array(here))
        return Rows(part, data, numbers[here], np.full(data.num_rows, ROW + AS_IS, np.int64))
    was = shards_of([batch.column(BEFORE + name) for name in key], shards, count)
    leaving = np.flatnonzero(moved & (was == shard) & (numbers > part.above))
    arriving = np.flatnonzero(moved & here)
    staying = np.flatnonzero(here & ~moved)
    halves = [batch.take(pa.array(staying)), _left(batch.take(pa.array(leaving)), part.schema)]
    halves.append(_as(batch.take(pa.array(arriving)), Operation.INSERT))
    offsets = [
        np.full(one.num_rows, ROW + offset) for one, offset in zip(halves, (AS_IS, LEAVES, ARRIVES), strict=True)
    ]
    sequences, offset = numbers[np.concatenate([staying, leaving, arriving])], np.concatenate(offsets).astype(np.int64)
    order = np.lexsort((offset, sequences))
    table = pa.Table.from_batches(halves, batch.schema).take(pa.array(order)).combine_chunks()
    data = next(iter(table.to_batches()), batch.slice(0, 0))
    return Rows(part, data, sequences[order], offset[order])


def _left(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The leaving half: as any DELETE has it, of the row columns only the key (all where there is none), as it was."""
    kept = schema.key or schema.names
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in schema.names:
        arrays[name] = arrays[BEFORE + name] if name in kept else pa.nulls(batch.num_rows, arrays[name].type)
    return _as(pa.RecordBatch.from_arrays(list(arrays.values()), schema=batch.schema), Operation.DELETE)


def _as(batch: pa.RecordBatch, operation: Operation) -> pa.RecordBatch:
    place = batch.schema.get_field_index(OPERATION)
    words = pa.array([operation.value] * batch.num_rows, pa.string())
    return batch.set_column(place, batch.schema.field(OPERATION), words)
