"""Chunk rows that the log has overtaken with updates which left values out: the chunk alone has those values.

Such a row is not dropped like others that the log touched.  What the log says of it up to the high mark, and the rows
do not show, is laid over it, a change of its key included; the row is then whole, and stands for the high mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replicator.model.change import ChangeBatch, Operation
from replicator.model.schema import OPERATION, SEQUENCE, TXN_ID, UNCHANGED
from replicator.snapshot.window import Key, Shows, keys_of, tuples

Row = dict[str, Any]
Event = tuple[int, str, Key, Key, Row, frozenset[str]]


def overlaid(
    rows: pa.RecordBatch, key: tuple[str, ...], batches: Sequence[ChangeBatch], shows: Shows | None
) -> pa.RecordBatch:
    """Of `rows` (touched ones of a chunk) those that an update left values out of, as they are at the high mark.

    `batches`: the window's.  A row that was deleted, or written whole meanwhile, is not among them: the log has it.
    """
    present = dict(zip(tuples(rows, key), rows.to_pylist(), strict=True))
    lacking: set[Key] = set()
    for _, operation, before, after, values, left_out in sorted(_events(batches, shows), key=lambda event: event[0]):
        state = present.pop(before, None)
        lacking -= {before, after}
        if operation == Operation.UPDATE and left_out and state is not None:
            present[after] = {**state, **{name: value for name, value in values.items() if name not in left_out}}
            lacking.add(after)
        else:
            present.pop(after, None)
    return pa.RecordBatch.from_pylist([present[one] for one in present if one in lacking], schema=rows.schema)


def _events(batches: Sequence[ChangeBatch], shows: Shows | None) -> Iterator[Event]:
    """What the rows do not show: ordinal, operation, key before and after, values, names of the columns left out."""
    for batch in batches:
        hidden = [txn for txn in pc.unique(batch.data.column(TXN_ID)).to_pylist() if shows is None or not shows(txn)]
        data = batch.data.filter(pc.is_in(batch.data.column(TXN_ID), value_set=pa.array(hidden, pa.string())))
        names = batch.schema.names
        keys = list(keys_of(data, batch.schema.key))
        columns = (data.column(SEQUENCE), data.column(OPERATION), data.column(UNCHANGED))
        marks = zip(*(column.to_pylist() for column in columns), data.select(names).to_pylist(), strict=True)
        for place, (ordinal, operation, left_out, values) in enumerate(marks):
            left = frozenset(names[number] for number in left_out or ())
            yield ordinal, operation, keys[data.num_rows + place], keys[place], values, left
