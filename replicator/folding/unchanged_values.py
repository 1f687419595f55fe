"""Values that UPDATEs left out, found in memory and without Spark (`targets/iceberg/spark/unchanged_values.py` has the
rules).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.folding.fold import NO_KEY, Numbers, numbered
from replicator.model.change import Operation
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, UNCHANGED, TableSchema

Flags = npt.NDArray[np.bool_]
# What an event does to the row at its key; of events with one number the later in this order comes last.
_LEAVES, _CHANGES, _MOVES_IN, _ARRIVES, _HELD = range(5)
UNBOUNDED = 1 << 62  # bytes


class ValuesUnknown(Exception):
    """Values that UPDATEs left out are neither in this part nor in the target."""


def places(changes: pa.Table) -> list[int]:
    """Of the columns that some UPDATE left out, ascending."""
    return sorted(pc.unique(pc.list_flatten(changes.column(UNCHANGED))).to_pylist())


def concerned(changes: pa.Table, schema: TableSchema) -> pa.Table:
    """Keys of the UPDATEs that left something out, before and after images both, with repetitions."""
    partial = changes.filter(pc.greater(pc.list_value_length(changes.column(UNCHANGED)), 0))
    before = partial.select([BEFORE + name for name in schema.key]).rename_columns(list(schema.key))
    return pa.concat_tables([partial.select(list(schema.key)), before]).combine_chunks()


def filled(
    changes: pa.Table, held: pa.Table, schema: TableSchema, most: int, *, newest: bool, guess: bool = False
) -> pa.Table | None:
    """The changes with the values in their places, without `_unchanged`.

    held: the target's rows under `concerned` keys: key columns, those that may be left out, _sequence_num.
    newest: only of the newest change of each key; what the others left out stays null.
    guess: one that is nowhere to be found is null (its row is about to go).
    None where a value that counts is nowhere to be found, or where they take more than `most` bytes.
    """
    events = _Events.of(changes, held, schema)
    left_out = changes.column(UNCHANGED).combine_chunks()
    lacking_rows, lacking_places = pc.list_parent_indices(left_out).to_numpy(), pc.list_flatten(left_out).to_numpy()
    found = changes.drop_columns([UNCHANGED])
    for place in places(changes):
        lacks = np.zeros(changes.num_rows, np.bool_)
        lacks[lacking_rows[lacking_places == place]] = True
        wanted, sources = events.sources(lacks, newest=newest)
        if (sources < 0).any():
            if not guess:
                return None
            wanted, sources = wanted[sources >= 0], sources[sources >= 0]
        name = schema.names[place]
        at, column = found.schema.get_field_index(name), found.column(name)
        pool = pa.chunked_array([*column.chunks, *held.column(name).chunks], column.type)
        most -= _size(pool, sources)
        if most < 0:
            return None
        taken = np.arange(changes.num_rows)
        taken[wanted] = sources
        found = found.set_column(at, found.schema.field(at), pool.take(pa.array(taken)))
    return found


def completed(
    changes: pa.Table,
    schema: TableSchema,
    held: Callable[[pa.Table, list[str]], pa.Table],
    *,
    newest: bool,
    guess: bool,
) -> pa.Table:
    """`filled` without a bound of memory; held: the target's rows under keys (unique or not), with columns.

    Raises ValuesUnknown.
    """
    if not (left_out := places(changes)):
        return changes.drop_columns([UNCHANGED])
    names = list(dict.fromkeys([*schema.key, *(schema.names[place] for place in left_out), SEQUENCE]))
    rows = held(concerned(changes, schema), names)
    found = filled(changes, rows, schema, UNBOUNDED, newest=newest, guess=guess)
    if found is None:
        raise ValuesUnknown
    return found


class _Events:
    """What happened at each key, in order: arriving halves of changes, leaving halves, held rows.

    row: a change's place, or that of a held row behind all changes.
    before: place of the event at the same key before it, or -1.
    """

    def __init__(self, key: Numbers, seq: Numbers, kind: Numbers, row: Numbers, changes: int) -> None:
        order = np.lexsort((kind, seq, key))
        self.key, self.kind, self.row = key[order], kind[order], row[order]
        first = np.append(True, self.key[1:] != self.key[:-1])[: len(order)]
        self.before = np.where(first, -1, np.arange(len(order)) - 1)
        self.last = np.append(first[1:], True)[: len(order)]
        self._changes = changes

    @classmethod
    def of(cls, changes: pa.Table, held: pa.Table, schema: TableSchema) -> _Events:
        """Keys without nulls: they are primary keys, or what stands for them."""
        keys = list(schema.key)
        images = changes.select([BEFORE + name for name in keys]).rename_columns(keys)
        came, left, known = numbered([changes.select(keys), images, held.select(keys)])
        operation = changes.column(OPERATION)
        deleted = pc.equal(operation, Operation.DELETE.value).to_numpy()
        updated = pc.equal(operation, Operation.UPDATE.value).to_numpy()
        went = updated & (left != NO_KEY) & (came != left)
        arriving = np.flatnonzero(~deleted)
        leaving = np.flatnonzero(deleted | went)
        sequence, own = changes.column(SEQUENCE).to_numpy(), held.column(SEQUENCE).to_numpy()
        does = np.where(went, _MOVES_IN, np.where(updated, _CHANGES, _ARRIVES))[arriving]
        return cls(
            np.concatenate([came[arriving], left[leaving], known]),
            np.concatenate([sequence[arriving], sequence[leaving], own]),
            np.concatenate([does, np.full(len(leaving), _LEAVES), np.full(len(own), _HELD)]),
            np.concatenate([arriving, leaving, changes.num_rows + np.arange(len(own))]),
            changes.num_rows,
        )

    def sources(self, lacks: Flags, *, newest: bool) -> tuple[Numbers, Numbers]:
        """Changes that need a value of a column, and the row that has it: a change, a held row behind them, or -1 for
        none.

        lacks: by change, whether it left the column out.  Each event that does not tell points at the one before it of
        the same row, a move at what was at the row's old key; all follow their pointers at once, so that a chain of n
        takes log2(n) steps.
        """
        silent = np.isin(self.kind, (_CHANGES, _MOVES_IN)) & np.append(lacks, False)[np.minimum(self.row, len(lacks))]
        pointer = np.arange(len(self.kind))
        pointer[silent] = self.before[silent]
        moved = np.flatnonzero(silent & (self.kind == _MOVES_IN))
        halves = np.full(self._changes, -1)
        leaving = np.flatnonzero(self.kind == _LEAVES)
        halves[self.row[leaving]] = leaving
        pointer[moved] = self.before[halves[self.row[moved]]]
        while not np.array_equal(further := np.where(pointer < 0, -1, pointer[pointer]), pointer):
            pointer = further
        wanted = np.flatnonzero(silent & self.last if newest else silent)
        origin = pointer[wanted]
        nowhere = (origin < 0) | (self.kind[origin] == _LEAVES)
        return self.row[wanted], np.where(nowhere, -1, self.row[origin])


def _size(pool: pa.ChunkedArray, rows: Numbers) -> int:
    """Bytes of the values in these rows."""
    if not (pa.types.is_string(pool.type) or pa.types.is_binary(pool.type)):
        return 16 * len(rows)
    lengths = pc.binary_length(pool).fill_null(0).to_numpy()
    return int(lengths[rows].sum())
