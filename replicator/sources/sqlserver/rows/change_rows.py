"""Rows of change tables as changes: old and new images in one row, as change batches have them.

Source: learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql: 1 is a delete,
2 an insert, 3 and 4 an update's row before and after it.  An old row (3) lacks large values that the update left alone;
the update mask tells which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import EventUndecodable
from replicator.model.change import Operation
from replicator.sources.sqlserver.catalog.table_description import CaptureInstance, TableDescription
from replicator.sources.sqlserver.dialect import quoted
from replicator.sources.sqlserver.offset import LSN_BYTES, lsn_text
from replicator.sources.sqlserver.rows.values import converted, select_list

DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4
META = ("__$start_lsn", "__$command_id", "__$seqval", "__$operation", "__$update_mask")
ORDER = ", ".join(map(quoted, META[:4]))
_OPERATIONS = {DELETE: Operation.DELETE, INSERT: Operation.INSERT, AFTER: Operation.UPDATE}
Places = npt.NDArray[np.int64]
LSN = np.dtype([("high", ">u8"), ("low", ">u2")])


@dataclass(frozen=True)
class Transactions:
    """Of one window.  times: of their commits, UTC."""

    lsns: pa.Array
    texts: pa.Array
    times: pa.Array

    @classmethod
    def of(cls, commits: Mapping[bytes, datetime]) -> Transactions:
        """By the LSN of their commit."""
        lsns, times = list(commits), list(commits.values())
        texts = pa.array([lsn_text(lsn) for lsn in lsns], pa.string())
        return cls(pa.array(lsns, pa.binary(LSN_BYTES)), texts, pa.array(times, pa.timestamp("us", "UTC")))


def change_select(description: TableDescription, instance: CaptureInstance) -> str:
    """The SELECT list of a change table, for `framed`."""
    names = dict(instance.columns)
    columns = select_list(description.definitions, [quoted(names[one.number]) for one in description.definitions])
    return ", ".join([*map(quoted, META), columns])


def change_table(instance: CaptureInstance) -> str:
    """Its name in SQL."""
    return quoted("cdc", f"{instance.name}_CT")


def lsn_column(array: pa.Array) -> npt.NDArray[np.void]:
    """Of 10 bytes each, as LSN."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    fixed = array.cast(pa.binary(LSN_BYTES))
    data = fixed.buffers()[1]
    return np.frombuffer(data, LSN, len(fixed), fixed.offset * LSN_BYTES)


def sort_keys(rows: pa.Table) -> list[npt.NDArray[np.generic]]:
    """Keys for numpy's lexsort, the least important first: commit, command, place in the transaction, operation."""
    lsn, seq = lsn_column(rows.column(0)), lsn_column(rows.column(2))
    command = rows.column(1).fill_null(0).to_numpy()
    operation = rows.column(3).to_numpy()
    return [operation, seq["low"], seq["high"], command, lsn["low"], lsn["high"]]


@dataclass(frozen=True)
class Framed:
    """Changes among rows of a change table: places of the row that each is (of a delete the old row), and of its old
    row (-1: none).
    """

    rows: pa.Table
    at: Places
    before: Places

    def __len__(self) -> int:
        return len(self.at)


def framed(rows: pa.Table, table: str) -> Framed:
    """EventUndecodable where an update's two rows do not stand beside each other."""
    operation = rows.column(3).to_numpy().astype(np.int64)
    at = np.flatnonzero(operation != BEFORE)
    kinds = operation[at]
    halves = at[kinds == AFTER]
    if np.count_nonzero(operation == BEFORE) != len(halves) or (
        len(halves) and (operation[halves - 1] != BEFORE).any()
    ):
        raise EventUndecodable(f"The log has an update of {table} without its old row.", table=table)
    before = np.where(kinds == INSERT, -1, np.where(kinds == AFTER, at - 1, at))
    return Framed(rows, at, before)


def change_batch(
    found: Framed,
    description: TableDescription,
    instance: CaptureInstance,
    ordinals: Places,
    transactions: Transactions,
) -> pa.RecordBatch:
    """With `schema.change_arrow`; `ordinals`: of each change.  ValueDoesNotFit."""
    schema = description.schema
    arrow = schema.change_arrow
    operation = found.rows.column(3).to_numpy().astype(np.int64)[found.at]
    stamps = _stamps(found, operation, ordinals, transactions)
    arrays = list(stamps)
    columns = [
        converted(found.rows.column(len(META) + place).combine_chunks(), column, str(schema.table))
        for place, column in enumerate(schema.columns)
    ]
    gone = operation == DELETE
    identifying = frozenset(schema.key or schema.names)
    for column, values in zip(schema.columns, columns, strict=True):
        hidden = gone if column.name not in identifying else np.zeros(len(gone), np.bool_)
        arrays.append(_taken(values, found.at, hidden))
    known = _Masks(found)
    for definition, values in zip(description.definitions, columns, strict=True):
        before = found.before
        if definition.large:
            before = known.kept(instance.place(definition) or 0, values, before, operation)
        arrays.append(_taken(values, before, before < 0))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def _stamps(found: Framed, operation: Places, ordinals: Places, transactions: Transactions) -> tuple[pa.Array, ...]:
    lsns = found.rows.column(0).combine_chunks().cast(pa.binary(LSN_BYTES)).take(pa.array(found.at))
    places = pc.index_in(lsns, value_set=transactions.lsns)
    names = pa.array([str(_OPERATIONS.get(code, "")) for code in range(AFTER + 1)])
    commits = transactions.texts.take(places)
    return (
        pa.array(ordinals, pa.int64()),
        names.take(pa.array(operation)),
        transactions.times.take(places),
        commits,
        commits,
    )


def _taken(values: pa.Array, places: Places, hidden: npt.NDArray[np.bool_]) -> pa.Array:
    """Null where hidden."""
    return values.take(pa.array(places, pa.int64(), mask=hidden if hidden.any() else None))


class _Masks:
    """Update masks: the bit of a column, from the last byte on."""

    def __init__(self, found: Framed) -> None:
        self._found = found

    def kept(self, place: int, values: pa.Array, before: Places, operation: Places) -> Places:
        """Where an update's old row has null for a value that it did not change, the new row's."""
        masks = self._found.rows.column(4).combine_chunks().take(pa.array(self._found.at))
        changed = np.array(
            [mask is not None and _bit(mask, place) for mask in masks.to_pylist()], np.bool_
        )  # few rows have large values
        absent = ~values.is_valid().to_numpy(zero_copy_only=False)[np.maximum(before, 0)]
        return np.where((operation == AFTER) & ~changed & absent, self._found.at, before)


def _bit(mask: bytes, place: int) -> bool:
    byte = len(mask) - 1 - place // 8
    return byte >= 0 and bool(mask[byte] >> place % 8 & 1)
