"""What a batch of changes says, one entry per message and still in columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import ValuesLost
from replicator.folding.key_moves import moves
from replicator.model.change import Operation
from replicator.model.schema import BEFORE, COMMIT_TS, OFFSET, OPERATION, SEQUENCE, TXN_ID, UNCHANGED, TableSchema

CREATE, UPDATE, DELETE, READ, TRUNCATE = "c", "u", "d", "r", "t"  # Debezium's words
_OPS = {
    Operation.INSERT: CREATE,
    Operation.UPDATE: UPDATE,
    Operation.DELETE: DELETE,
    Operation.READ: READ,
}
ABOUT = (SEQUENCE, COMMIT_TS, TXN_ID, OFFSET)
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Events:
    """An UPDATE that moves its row's key is two: a delete of the old one and a create of the new one, as Debezium has
    it.

    before, after    the row's columns under their own names; they count where `has_before` and `has_after` say so
    key              the key's columns; none of a table without key
    about            _sequence_num, _commit_ts, _txn_id, _offset
    unchanged        of each entry the names of the columns that an UPDATE left out; None where the schema knows no such
                     thing
    """

    op: list[str]
    before: pa.RecordBatch
    after: pa.RecordBatch
    has_before: Mask
    has_after: Mask
    key: pa.RecordBatch
    about: pa.RecordBatch
    unchanged: list[list[str]] | None

    @property
    def counts(self) -> tuple[int, int, int]:
        """Rows that came, changed, went; a row that moved is one of each."""
        return self.op.count(CREATE) + self.op.count(READ), self.op.count(UPDATE), self.op.count(DELETE)


def columns(schema: TableSchema) -> list[str]:
    """What is read of a segment."""
    row = [*schema.names, *(BEFORE + name for name in schema.names)]
    return [SEQUENCE, OPERATION, COMMIT_TS, TXN_ID, OFFSET, *row, *[UNCHANGED] * schema.partial]


def events(batch: pa.RecordBatch, schema: TableSchema, *, flat: bool = False) -> Events:
    """In the batch's order.  flat: a message has one row, so that an UPDATE without a key is two, too.

    Raises ValuesLost where a row that moved its key leaves values out: they are nowhere in its new place.
    """
    operation = np.asarray(batch.column(OPERATION).to_pylist(), object)
    updated = operation == Operation.UPDATE
    moved = moves(batch, schema.key) if schema.key else updated & flat
    lacking = _lacking(batch, schema)
    if lacking is not None and any(lacking[place] for place in np.flatnonzero(moved)):
        message = f"An UPDATE of {schema.table} changed the key of a row and omits its unchanged values."
        raise ValuesLost(message, table=str(schema.table))
    places = np.repeat(np.arange(batch.num_rows), 1 + moved)
    op = np.array([_OPS[Operation(one)] for one in operation], object)[places]
    if moved.any():
        arrives = np.zeros(len(places), np.bool_)
        arrives[1:] = places[1:] == places[:-1]
        halves = moved[places]
        op[halves & ~arrives], op[halves & arrives] = DELETE, CREATE
    return _events(batch.take(pa.array(places)) if moved.any() else batch, schema, op, lacking, places)


def _events(
    batch: pa.RecordBatch,
    schema: TableSchema,
    op: npt.NDArray[np.object_],
    lacking: list[list[str]] | None,
    places: Mask,
) -> Events:
    names = list(schema.names)
    before = pa.RecordBatch.from_arrays([batch.column(BEFORE + name) for name in names], names=names)
    after = pa.RecordBatch.from_arrays([batch.column(name) for name in names], names=names)
    gone = op == DELETE
    mask = pa.array(gone.astype(bool))
    keys = [pc.if_else(mask, before.column(name), after.column(name)) for name in schema.key]
    return Events(
        op=op.tolist(),
        before=before,
        after=after,
        has_before=(gone | (op == UPDATE)).astype(bool),
        has_after=~gone.astype(bool),
        key=pa.RecordBatch.from_arrays(keys, names=list(schema.key)),
        about=batch.select(list(ABOUT)),
        unchanged=None if lacking is None else [lacking[place] for place in places],
    )


def _lacking(batch: pa.RecordBatch, schema: TableSchema) -> list[list[str]] | None:
    if not schema.partial:
        return None
    return [[schema.names[place] for place in places or ()] for places in batch.column(UNCHANGED).to_pylist()]
