"""Changes as rows of a changelog, none of them folded.

One row for each change.  An UPDATE that moves its row to another key is two, both with its number: the DELETE of the
old key comes first. A DELETE has the values of its before image (all of them, or the key, as the source logs them).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.folding import key_moves
from replicator.model.change import Operation
from replicator.model.mode import BELOW
from replicator.model.schema import BEFORE, COMMIT_TS, OPERATION, SEQUENCE, UNCHANGED, TableSchema
from replicator.state.journal import EventKind


def wanted(schema: TableSchema) -> list[str]:
    """The columns of a segment that `in_arrow` needs."""
    names = [SEQUENCE, OPERATION, COMMIT_TS, *schema.names, *(BEFORE + name for name in schema.names)]
    return [*names, *[UNCHANGED] * schema.partial]


def in_arrow(changes: pa.RecordBatch, schema: TableSchema) -> pa.Table:
    """The row's columns, _sequence_num, _operation, _commit_ts, and _unchanged: the names (a JSON list) of values left
    out.
    """
    table = pa.table(changes)
    deletes = pc.equal(table.column(OPERATION), Operation.DELETE.value).to_numpy()
    moves = key_moves.moves(table, schema.key)
    places = np.repeat(np.arange(len(deletes)), 1 + moves)
    first = np.append(True, places[1:] != places[:-1])[: len(places)]
    deletes = deletes[places] | (moves[places] & first)
    table, mask = table.take(places), pa.array(deletes)
    columns = {name: pc.if_else(mask, table.column(BEFORE + name), table.column(name)) for name in schema.names}
    columns[SEQUENCE] = table.column(SEQUENCE)
    columns[OPERATION] = pc.if_else(mask, Operation.DELETE.value, table.column(OPERATION))
    columns[COMMIT_TS] = table.column(COMMIT_TS)
    if schema.partial:
        columns[UNCHANGED] = pc.if_else(mask, pa.scalar(None, pa.string()), _named(table.column(UNCHANGED), schema))
    return pa.table(columns)


def marker(upto: int, below: int, operation: str, at: datetime | None = None) -> pa.Table:
    """A TRUNCATE or a sweep, whose number is `upto`: a row without values.  What is below `below` is over.

    at: its time in the source; a sweep has none.
    """
    told = at.astimezone(UTC) if at is not None and operation != EventKind.SWEEP else None
    return pa.table(
        {
            SEQUENCE: pa.array([upto], pa.int64()),
            OPERATION: pa.array([str(operation)]),
            COMMIT_TS: pa.array([told], pa.timestamp("us", tz="UTC")),
            BELOW: pa.array([below], pa.int64()),
        }
    )


def _named(places: pa.ChunkedArray, schema: TableSchema) -> pa.Array:
    names = [
        json.dumps([schema.names[place] for place in listed], ensure_ascii=False, separators=(",", ":"))
        if listed
        else None
        for listed in places.to_pylist()
    ]
    return pa.array(names, pa.string())
