"""Changes of a table without key as what they come to: rows that are put in, and how many of which rows go.

Rows are equal when all their columns are: null is equal to null, floats by their bits (every NaN is the same NaN).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.folding.fold import Numbers
from replicator.folding.history_and_soft_delete import bits
from replicator.model.change import Operation
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, TableSchema


@dataclass(frozen=True)
class Multiset:
    """added: the row's columns and _sequence_num.  removed: different rows; need: how many of each go."""

    added: pa.Table
    removed: pa.Table
    need: Numbers


def fold(changes: pa.Table, schema: TableSchema) -> Multiset:
    """INSERT and READ add a row, DELETE takes one like its before image, UPDATE does both; what cancels is gone.

    changes: with all columns of the before image.  Of equal rows that stay, the newest numbers stay.
    """
    operation, names = changes.column(OPERATION), list(schema.names)
    arrives = pc.not_equal(operation, Operation.DELETE.value).to_numpy()
    leaves = pc.is_in(operation, pa.array([Operation.DELETE.value, Operation.UPDATE.value])).to_numpy()
    came = changes.select([*names, SEQUENCE]).filter(pa.array(arrives))
    left = changes.select([BEFORE + name for name in names]).filter(pa.array(leaves)).rename_columns(names)
    arrived, gone = numbered_rows([came.select(names), left])
    size = int(max(arrived.max(initial=-1), gone.max(initial=-1))) + 1
    net = np.bincount(arrived, minlength=size) - np.bincount(gone, minlength=size)
    order = np.lexsort((-came.column(SEQUENCE).to_numpy(), arrived))
    ordered = arrived[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    staying = np.sort(order[rank < net[ordered]])
    wanted, first = np.unique(gone, return_index=True)
    short = net[wanted] < 0
    return Multiset(
        came.take(pa.array(staying)).combine_chunks(),
        left.take(pa.array(first[short])).combine_chunks(),
        -net[wanted[short]],
    )


class RowsToTake:
    """Finds the rows that go, wherever they come up, until there are as many as are needed."""

    def __init__(self, multiset: Multiset) -> None:
        self._rows = _compared(multiset.removed)
        self._values = [column.unique() for column in self._rows.columns]
        self._need = multiset.need.copy()

    @property
    def lacking(self) -> int:
        """How many have not been found."""
        return int(self._need.sum())

    def take(self, rows: pa.Table) -> Numbers:
        """Places of rows that go, ascending."""
        asked = _compared(rows.select(self._rows.column_names))
        places = np.arange(asked.num_rows)
        for number, values in enumerate(self._values):
            there = pc.is_in(asked.column(number).take(pa.array(places)), value_set=values)
            places = places[there.to_numpy()]
        if not len(places):
            return places
        own, other = _numbers([self._rows, asked.take(pa.array(places))])
        entry = np.full(int(max(own.max(), other.max())) + 1, -1)
        entry[own] = np.arange(len(own))
        entries = entry[other]
        places, entries = places[entries >= 0], entries[entries >= 0]
        order = np.argsort(entries, kind="stable")
        ordered = entries[order]
        rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
        chosen = order[rank < self._need[ordered]]
        np.subtract.at(self._need, entries[chosen], 1)
        return np.sort(places[chosen])


def numbered_rows(tables: Sequence[pa.Table]) -> list[Numbers]:
    """A number from 0 for each row, the same for equal ones and for no others."""
    return _numbers([_compared(one) for one in tables])


def _compared(rows: pa.Table) -> pa.Table:
    """Floats as their bits."""
    columns = {name: bits(column) for name, column in zip(rows.column_names, rows.columns, strict=True)}
    return pa.table(columns) if columns else rows


def _numbers(tables: Sequence[pa.Table]) -> list[Numbers]:
    sizes = [one.num_rows for one in tables]
    numbers = np.zeros(sum(sizes), np.int64)
    for columns in zip(*(one.columns for one in tables), strict=True):
        whole = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
        encoded = whole.combine_chunks().dictionary_encode(null_encoding="encode")
        ranks = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        pairs = numbers * (int(ranks.max(initial=0)) + 1) + ranks
        numbers = np.asarray(np.unique(pairs, return_inverse=True)[1], np.int64)
    return list(np.split(numbers, np.cumsum(sizes)[:-1]))
