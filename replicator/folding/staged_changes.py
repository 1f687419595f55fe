"""Staged segments as Arrow tables, for batches that are small enough to be held in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from replicator.folding import changelog
from replicator.model.change import Operation
from replicator.model.mode import CURRENT, DELETED, VALID_FROM, Mode
from replicator.model.schema import BEFORE, COMMIT_TS, OPERATION, SEQUENCE, TXN_ID, UNCHANGED, TableSchema
from replicator.staging.reader import read
from replicator.staging.storage import Storage
from replicator.state.journal import Segment


def changes(
    storage: Storage,
    segments: Sequence[Segment],
    schema: TableSchema,
    above: int,
    most: int,
    *,
    timed: bool = False,
    partial: bool = False,
) -> pa.Table | None:
    """Changes with a sequence number greater than `above` (invariant 3); None where they take more than `most` bytes of
    memory.

    Columns as in the segments: _sequence_num, _operation, the row's, and of the before image the key's; if `timed`
    _commit_ts, which of READ rows is the time of the read; if `partial` _unchanged.
    """
    found: list[pa.RecordBatch] = []
    size = 0
    names = _wanted(schema, schema.key, timed=timed, partial=partial)
    for batch in _newer(storage, segments, schema, above, names):
        size += batch.nbytes
        if size > most:
            return None
        found.append(batch)
    return _whole(found, schema, names)


def parts(
    storage: Storage,
    segments: Sequence[Segment],
    schema: TableSchema,
    above: int,
    most: int,
    *,
    timed: bool = False,
    partial: bool = False,
    told_apart: bool = False,
) -> Iterator[pa.Table]:
    """As `changes`, in order, in parts of about `most` bytes; of a table without key with the whole before image.

    told_apart: with _txn_id, which is null where the source does not tell transactions apart.
    """
    names = _wanted(schema, schema.key or schema.names, timed=timed, partial=partial) + [TXN_ID] * told_apart
    found: list[pa.RecordBatch] = []
    size = 0
    for batch in _newer(storage, segments, schema, above, names):
        if found and size + batch.nbytes > most:
            yield _whole(found, schema, names)
            found, size = [], 0
        found.append(batch)
        size += batch.nbytes
    if found:
        yield _whole(found, schema, names)


def _wanted(schema: TableSchema, before: Sequence[str], *, timed: bool, partial: bool) -> list[str]:
    names = [SEQUENCE, OPERATION, *schema.names, *(BEFORE + name for name in before)]
    return names + [COMMIT_TS] * timed + [UNCHANGED] * partial


def _newer(
    storage: Storage, segments: Sequence[Segment], schema: TableSchema, above: int, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    for batch in _batches(storage, segments, schema, names):
        newer = pc.greater(batch.column(SEQUENCE), above)
        yield batch if pc.all(newer).as_py() else batch.filter(newer)


def _whole(found: Sequence[pa.RecordBatch], schema: TableSchema, names: Sequence[str]) -> pa.Table:
    arrow = schema.change_arrow
    return pa.Table.from_batches(found, pa.schema([arrow.field(name) for name in names])).combine_chunks()


def rows(storage: Storage, segment: Segment, schema: TableSchema, above: int) -> Iterator[pa.RecordBatch]:
    """READ rows above a sequence number, as they come: the row's columns, and _sequence_num last."""
    names = [*schema.names, SEQUENCE]
    for batch in read(storage, segment, schema, [*names, OPERATION]):
        wanted = pc.and_(
            pc.greater(batch.column(SEQUENCE), above), pc.equal(batch.column(OPERATION), Operation.READ.value)
        )
        found = batch.select(names)
        yield found if pc.all(wanted).as_py() else found.filter(wanted)


def unfolded(storage: Storage, segment: Segment, schema: TableSchema, above: int) -> Iterator[pa.Table]:
    """All changes above a sequence number as rows of a changelog, as they come."""
    for batch in read(storage, segment, schema, changelog.wanted(schema)):
        kept = batch.filter(pc.greater(batch.column(SEQUENCE), above))
        if kept.num_rows:
            yield changelog.in_arrow(kept, schema)


def as_read(rows: pa.RecordBatch, segment: Segment, mode: Mode) -> pa.Table:
    """READ rows with what the mode says of such."""
    said = {
        DELETED: pa.scalar(False),  # noqa: FBT003
        VALID_FROM: pa.scalar(segment.journaled_at, pa.timestamp("us", tz="UTC")),
        CURRENT: pa.scalar(True),  # noqa: FBT003
        OPERATION: pa.scalar(Operation.READ.value),
    }
    table = pa.table(rows)
    for name in said.keys() & mode.columns.keys():  # in another mode it may be a column of the source
        table = table.append_column(name, pa.repeat(said[name], table.num_rows))
    return table


def _batches(
    storage: Storage, segments: Sequence[Segment], schema: TableSchema, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    for segment in segments:
        for batch in read(storage, segment, schema, names):
            yield _timed(batch, segment) if COMMIT_TS in names and segment.reads else batch


def _timed(batch: pa.RecordBatch, segment: Segment) -> pa.RecordBatch:
    place = batch.schema.get_field_index(COMMIT_TS)
    field = batch.schema.field(place)
    known = batch.column(place).fill_null(pa.scalar(segment.journaled_at, field.type))
    return batch.set_column(place, field, known)
