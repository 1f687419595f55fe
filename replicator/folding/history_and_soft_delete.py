"""The folds of tables that keep what goes, in memory and without Spark (`targets/iceberg/spark/history_fold.py` and
`soft_delete_fold.py` have their rules).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.folding.fold import NO_KEY, Numbers, numbered
from replicator.model.change import Operation
from replicator.model.mode import CURRENT, DELETED, DELETED_AT, VALID_FROM, VALID_TO
from replicator.model.schema import BEFORE, COMMIT_TS, OPERATION, SEQUENCE, TableSchema

Flags = npt.NDArray[np.bool_]
TIME = pa.timestamp("us", tz="UTC")
NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class RowVersions:
    """Rows to write: `rows` are places in the changes followed by the held rows, `own` the columns that differ from
    theirs.

    gone: places, among the held rows, of those that they replace.  new: how many replace none.
    """

    rows: Numbers
    own: Mapping[str, pa.Array]
    gone: Numbers
    new: int


@dataclass(frozen=True)
class _KeyHistory:
    """What happened at each key, by key, number, and of a number's two halves the arrival last; held rows at their own
    number.

    row: as in `RowVersions`.  at: microseconds, or NEVER.
    """

    key: Numbers
    seq: Numbers
    at: Numbers
    row: Numbers
    arrives: Flags
    read: Flags
    held: Flags

    def take(self, places: Numbers) -> _KeyHistory:
        return _KeyHistory(*(getattr(self, name)[places] for name in self.__dataclass_fields__))

    @property
    def first(self) -> Flags:
        """Of its key."""
        return np.append(True, self.key[1:] != self.key[:-1])[: len(self.key)]

    @property
    def last(self) -> Flags:
        """Of its key."""
        return np.append(self.key[1:] != self.key[:-1], True)[: len(self.key)]


def soft_deleted(changes: pa.Table, held: pa.Table, schema: TableSchema) -> RowVersions:
    """changes: timed (`batches.changes`).  held: the target's rows under the keys that they touch."""
    events = _events(changes, held, schema, np.ones(held.num_rows, np.bool_), np.full(held.num_rows, NEVER))
    bearing = np.where(events.arrives, np.arange(len(events.key)), -1)
    known = _running(bearing, events.first)  # the last event whose row the key has, or had
    newest = np.flatnonzero(events.last & ~events.held & (known >= 0))
    chosen, values = events.take(newest), events.row[known[newest]]
    replaced = events.held & np.isin(events.key, chosen.key)
    return RowVersions(
        values,
        {
            SEQUENCE: pa.array(chosen.seq),
            DELETED: pa.array(~chosen.arrives),
            DELETED_AT: _times(np.where(chosen.arrives, NEVER, chosen.at)),
        },
        events.row[replaced] - changes.num_rows,
        len(newest) - int(replaced.sum()),
    )


def versions(changes: pa.Table, held: pa.Table, schema: TableSchema) -> RowVersions:
    """As above; held: all versions under these keys."""
    begun, ended = _micros(held.column(VALID_FROM)), _micros(held.column(VALID_TO))
    current = held.column(CURRENT).to_numpy()
    events = _events(changes, held, schema, current, np.where(ended == NEVER, begun, ended))
    time = _running(events.at, events.first)
    again = events.read & ~events.first & np.append(False, events.arrives[:-1])[: len(events.key)]
    again[again] = _equal(changes, held, schema, events.row[np.flatnonzero(again) - 1], events.row[again])
    states = np.flatnonzero(~again)
    ends = np.append(states[1:], len(events.key))[: len(states)]
    one = events.take(states)
    follows = ~one.last
    ending = np.where(follows, time[np.minimum(ends, len(time) - 1)], NEVER)
    number = events.seq[ends - 1]
    put = one.arrives & (~one.held | follows | (number != one.seq))
    start = np.where(
        one.held, np.append(begun, NEVER)[np.where(one.held, one.row - changes.num_rows, -1)], time[states]
    )
    own = {
        SEQUENCE: pa.array(number[put]),
        VALID_FROM: _times(start[put]),
        VALID_TO: _times(ending[put]),
        CURRENT: pa.array(~follows[put]),
    }
    gone = one.row[put & one.held] - changes.num_rows
    return RowVersions(one.row[put], own, gone, int(put.sum()) - len(gone))


def touched(changes: pa.Table, schema: TableSchema) -> pa.Table:
    """Keys that the changes touch, with repetitions."""
    after = changes.select(list(schema.key))
    leaving = pc.is_in(changes.column(OPERATION), pa.array([Operation.DELETE.value, Operation.UPDATE.value]))
    before = changes.filter(leaving).select([BEFORE + name for name in schema.key])
    return pa.concat_tables([after, before.rename_columns(list(schema.key))]).combine_chunks()


def _events(changes: pa.Table, held: pa.Table, schema: TableSchema, there: Flags, ended: Numbers) -> _KeyHistory:
    """there: whether the row of each held one is there still; ended: its newest time."""
    keys = list(schema.key)
    before = changes.select([BEFORE + name for name in keys]).rename_columns(keys)
    came, left, known = numbered([changes.select(keys), before, held.select(keys)])
    operation = changes.column(OPERATION)
    deleted = pc.equal(operation, Operation.DELETE.value).to_numpy()
    updated = pc.equal(operation, Operation.UPDATE.value).to_numpy()
    arriving = np.flatnonzero(~deleted)
    leaving = np.flatnonzero((deleted | (updated & (came != left))) & (left != NO_KEY))
    sequence, at = changes.column(SEQUENCE).to_numpy(), _micros(changes.column(COMMIT_TS))
    own = held.column(SEQUENCE).to_numpy()
    counts = [len(arriving), len(leaving), len(own)]
    events = _KeyHistory(
        np.concatenate([came[arriving], left[leaving], known]),
        np.concatenate([sequence[arriving], sequence[leaving], own]),
        np.concatenate([at[arriving], at[leaving], ended]),
        np.concatenate([arriving, leaving, changes.num_rows + np.arange(len(own))]),
        np.concatenate([np.ones(counts[0], np.bool_), np.zeros(counts[1], np.bool_), there]),
        np.concatenate(
            [pc.equal(operation, Operation.READ.value).to_numpy()[arriving], np.zeros(sum(counts[1:]), np.bool_)]
        ),
        np.repeat([False, False, True], counts),
    )
    events = events.take(np.lexsort((events.arrives, events.seq, events.key)))
    newest = _running(np.where(events.held, np.arange(len(events.key)), -1)[::-1], events.last[::-1])[::-1]
    return events.take(np.flatnonzero(newest <= np.arange(len(events.key)))) if len(own) else events


def _running(values: Numbers, first: Flags) -> Numbers:
    """The greatest value so far, of each key's own.  Ranks keep the sums small."""
    if not len(values):
        return values
    unique, ranks = np.unique(values, return_inverse=True)
    offset = np.cumsum(first) * len(unique)
    return np.asarray(unique[np.maximum.accumulate(ranks + offset) - offset], np.int64)


def _equal(changes: pa.Table, held: pa.Table, schema: TableSchema, one: Numbers, other: Numbers) -> Flags:
    """Are the rows at these places the same in all columns?  Floats by their bits, null equal to null."""
    names = list(schema.names)
    pool = pa.concat_tables([changes.select(names), held.select(names)]).combine_chunks()
    same = np.ones(len(one), np.bool_)
    for column in pool.columns:
        left, right = (bits(pc.take(column, pa.array(places))) for places in (one, other))
        equal = pc.equal(left, right).fill_null(False)  # noqa: FBT003
        same &= pc.or_(equal, pc.and_(left.is_null(), right.is_null())).to_numpy()
    return same


def bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Every NaN is the same NaN; the zeros differ."""
    if not pa.types.is_floating(column.type):
        return column
    plain = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)
    width = pa.int32() if pa.types.is_float32(column.type) else pa.int64()
    return pa.chunked_array([chunk.view(width) for chunk in plain.chunks], width)


def _micros(column: pa.ChunkedArray) -> Numbers:
    return np.asarray(column.cast(TIME).cast(pa.int64()).fill_null(NEVER).to_numpy(), np.int64)


def _times(values: Numbers) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == NEVER).cast(TIME)
