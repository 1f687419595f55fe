"""The fold of a keyed table's changes (`fold.py` has its rules), in memory and without Spark: for small batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.model.change import Operation
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, TableSchema
from replicator.model.types import Kind

Numbers = npt.NDArray[np.int64]
NO_KEY = -1
# Keys of these types are equal in Arrow when they are in Spark; floats are not (signed zeros, NaN).
FOLDED_KEYS = frozenset(Kind) - {Kind.FLOAT, Kind.DOUBLE}


@dataclass(frozen=True)
class Folded:
    """One entry per key that the changes touch, rows to stay first, then keys to delete.

    stays  the row's columns and _sequence_num, under their own names
    keys   the key columns of all entries
    seq    the sequence number of each
    """

    stays: pa.Table
    keys: pa.Table
    seq: Numbers


def fold(changes: pa.Table, schema: TableSchema) -> Folded:
    """Newest change of each key: as `fold.fold` has it, key-moving UPDATEs and all; a key with a null matches none.

    A table without key: all rows, which must be arrivals.
    """
    sequence = changes.column(SEQUENCE).to_numpy()
    if not schema.key:
        return Folded(changes.select([*schema.names, SEQUENCE]), pa.table({}), sequence)
    operation = changes.column(OPERATION)
    deleted = pc.equal(operation, Operation.DELETE.value).to_numpy()
    updated = pc.equal(operation, Operation.UPDATE.value).to_numpy()
    after = changes.select(list(schema.key))
    before = changes.select([BEFORE + name for name in schema.key]).rename_columns(list(schema.key))
    came, left = numbered([after, before])
    arriving = np.flatnonzero(~deleted)
    leaving = np.flatnonzero((deleted | (updated & (came != left))) & (left != NO_KEY))
    newest = _newest(
        np.concatenate([came[arriving], left[leaving]]),
        np.concatenate([sequence[arriving], sequence[leaving]]),
        np.repeat([1, 0], [len(arriving), len(leaving)]),
    )
    staying = arriving[newest[newest < len(arriving)]]
    going = leaving[newest[newest >= len(arriving)] - len(arriving)]
    return Folded(
        changes.select([*schema.names, SEQUENCE]).take(staying).combine_chunks(),
        pa.concat_tables([after.take(staying), before.take(going)]).combine_chunks(),
        sequence[np.concatenate([staying, going])],
    )


def _newest(keys: Numbers, sequence: Numbers, arrives: Numbers) -> Numbers:
    """Place of the newest event of each key, in the keys' order; of one event's two halves at the same key the arrival
    counts.
    """
    order = np.lexsort((arrives, sequence, keys))
    ordered = keys[order]
    last = np.append(ordered[1:] != ordered[:-1], True) if len(order) else np.zeros(0, bool)
    return np.asarray(order[last], np.int64)


def numbered(keys: Sequence[pa.Table]) -> list[Numbers]:
    """A number for each key, the same for equal ones and for no others; NO_KEY where a column of it is null."""
    sizes = [table.num_rows for table in keys]
    numbers = np.zeros(sum(sizes), np.int64)
    missing = np.zeros(sum(sizes), bool)
    for place, columns in enumerate(zip(*(table.columns for table in keys), strict=True)):
        all_of_it = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
        own, null = _ranks(all_of_it)
        missing |= null
        numbers = own if place == 0 else _paired(numbers, own)
    numbers[missing] = NO_KEY
    return list(np.split(numbers, np.cumsum(sizes)[:-1]))


def _ranks(column: pa.ChunkedArray) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Rank the values from 0; whole numbers and days in the order of their values, so that they are written sorted.

    Zeros are equal regardless of their sign, as in a source's unique index.
    """
    null = column.is_null().to_numpy()
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    if pa.types.is_integer(column.type) or pa.types.is_date32(column.type):
        plain = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
        values = plain.fill_null(0).to_numpy()
        return np.asarray(np.unique(values, return_inverse=True)[1], np.int64), null
    indices = column.combine_chunks().dictionary_encode()
    if isinstance(indices, pa.ChunkedArray):
        indices = indices.combine_chunks()
    return indices.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), null


def _paired(one: Numbers, other: Numbers) -> Numbers:
    """Both are below the number of events, so that their product fits; renumbered from 0."""
    pairs = one * (int(other.max(initial=0)) + 1) + other
    return np.asarray(np.unique(pairs, return_inverse=True)[1], np.int64)


def comparable(schema: TableSchema) -> bool:
    """Can keys of this table be compared without Spark?"""
    return all(schema.column(name).type.kind in FOLDED_KEYS for name in schema.key)
