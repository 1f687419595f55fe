"""Row events → columns.  No object per row or value: images are split, and become arrays, by kernels (DESIGN: the way of the data).

Layout of a body: MySQL's libs/mysql/binlog/event/rows_event.h; compressed rows: MariaDB's sql/log_event.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import RowImageIncomplete
from replicator.model.change import Operation
from replicator.model.schema import TableSchema
from replicator.sources.base import ReadOptions
from replicator.sources.mysql import events as e
from replicator.sources.mysql.column_arrays import Bytes, ColumnArrays, Places
from replicator.sources.mysql.column_values import shape_of
from replicator.sources.mysql.events import Event, length_encoded
from replicator.sources.mysql.images import Images
from replicator.sources.mysql.partial_json import split_partial
from replicator.sources.mysql.pieces import inflate, part
from replicator.sources.mysql.table_map import LogColumn

DUMMY_TABLE = 0xFFFFFF  # a rows event that only ends a statement
_OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
_INSERT, _UPDATE, _DELETE = range(3)


class Image(NamedTuple):
    """A rows event taken apart: `rows` is the part with the row images."""

    operation: Operation
    partial: bool
    present: tuple[bytes, ...]
    columns: int
    rows: bytes
    at: int


def open_rows(event: Event) -> Image:
    """The head of a rows event, version 1 or 2, compressed or not."""
    kind, body, at = event.type, event.body, 8
    if kind in e.ROWS_V2:
        more = int.from_bytes(part(body, 8, 2), "little")
        part(body, 8, more)
        at += max(more, 2)
    count, at = length_encoded(body, at)
    size = (count + 7) // 8
    operation = Operation.UPDATE if kind in e.UPDATES else Operation.INSERT if kind in e.WRITES else Operation.DELETE
    images = 2 if operation is Operation.UPDATE else 1
    present = tuple(part(body, at + i * size, size) for i in range(images))
    at += images * size
    if kind in e.COMPRESSED_ROWS:
        body, at = inflate(body[at:]), 0
    return Image(operation, kind == e.PARTIAL_UPDATE, present, count, body, at)


class Committed(NamedTuple):
    """Whole transactions in their order: GTID, how many rows events there are up to the end, place behind it, commit time in microseconds."""

    gtids: list[str]
    ends: Places
    places: Places
    times: Places


class Run(NamedTuple):
    """Rows events in their order: operation (as in TableRows), number of the known table, row images data[begin:end], place."""

    data: Bytes
    operations: Places
    slots: Places
    begins: Places
    ends: Places
    places: Places
    file: str
    committed: Committed


@dataclass
class _Events:
    """Rows events in their order.  operations: places in _OPERATIONS; owners: of each its transaction, by number."""

    operations: Places
    firsts: Places
    counts: Places
    places: Places
    file: str
    owners: Places
    txns: Sequence[str]
    times: Places


class Mark(NamedTuple):
    """Where a gathering stands."""

    groups: int
    rows: int
    bytes: int
    images: tuple[int, int]


class TableRows:
    """Changes of one table under one schema, gathered until `take`."""

    def __init__(self, schema: TableSchema, columns: Sequence[LogColumn], options: ReadOptions) -> None:
        """`columns` as the log has them, with those left out; UnsupportedType, UnsupportedCharset."""
        self.schema = schema
        self.rows = 0
        self.bytes = 0
        self.zero_dates = 0  # of the last `take`
        self.log_columns = columns
        # The log's order may differ from the schema's where the table was reordered since.
        place = {column.name: index for index, column in enumerate(columns)}
        self._columns = [
            (place[column.name], ColumnArrays(columns[place[column.name]], column, options))
            for column in schema.columns
        ]
        self._images = Images([shape_of(column) for column in columns])
        self._groups: list[_Events] = []

    def add(self, event: Event, ordinal: int, commit_us: int, txn: str) -> int:
        """The rows of one event; the first gets `ordinal`.  Returns their number; RowImageIncomplete."""
        image = open_rows(event)
        self._check(image)
        if image.partial:
            count = split_partial(self._images, image.rows, image.at, self.log_columns)
        else:
            data = np.frombuffer(image.rows, np.uint8)
            images = 2 if image.operation is Operation.UPDATE else 1
            [count] = self._images.add(data, _one(image.at), _one(len(data)), _one(images)).tolist()
        if count:
            operation = _one(_OPERATIONS.index(image.operation))
            places = _one(event.start)
            self._groups.append(
                _Events(operation, _one(ordinal), _one(count), places, event.file, _one(0), [txn], _one(commit_us))
            )
            self.rows += count
            self.bytes += len(image.rows)
        return count

    def add_run(self, run: Run, chosen: Places, owners: Places, txns: Sequence[str], times: Places) -> Places:
        """The rows of the `chosen` events of a run.  Returns their numbers; `number` gives them their ordinals.

        owners: of each event of the run its transaction, by its place in `txns` and `times` (of its commit).
        """
        operations, begins, ends = run.operations[chosen], run.begins[chosen], run.ends[chosen]
        counts = self._images.add(run.data, begins, ends, 1 + (operations == _UPDATE))
        places = run.places[chosen]
        self._groups.append(_Events(operations, counts, counts, places, run.file, owners[chosen], txns, times))
        self.rows += int(counts.sum())
        self.bytes += int((ends - begins).sum())
        return counts

    def number(self, firsts: Places) -> None:
        """The ordinals of the first rows of the events that were added last."""
        self._groups[-1].firsts = firsts

    def _check(self, image: Image) -> None:
        if image.columns != len(self.log_columns):
            message = f"rows of {image.columns} columns"
            raise IndexError(message)
        every = (1 << len(self.log_columns)) - 1
        for present in image.present:
            if int.from_bytes(present, "little") & every != every:
                message = f"A row event of {self.schema.table} does not hold all columns."
                raise RowImageIncomplete(message, table=str(self.schema.table))

    def mark(self) -> Mark:
        """The present end, for `truncate`."""
        return Mark(len(self._groups), self.rows, self.bytes, self._images.mark())

    def truncate(self, mark: Mark) -> None:
        """Forget what came after `mark` (a rollback in the log); `take` must not have been called since."""
        del self._groups[mark.groups :]
        self.rows, self.bytes = mark.rows, mark.bytes
        self._images.truncate(mark.images)

    def restamp(self, mark: Mark, commit_us: int) -> None:
        """Another commit time for what came after `mark`."""
        for group in self._groups[mark.groups :]:
            group.times = np.full_like(group.times, commit_us)

    def clear(self) -> None:
        """The gathering starts anew."""
        self.rows = self.bytes = 0
        self._groups = []
        self._images.clear()

    def take(self) -> pa.RecordBatch:
        """All rows as a batch with the schema's `change_arrow`; the gathering starts anew.  ValueDoesNotFit."""
        try:
            return self._taken()
        finally:
            self.clear()

    def _taken(self) -> pa.RecordBatch:
        schema = self.schema.change_arrow
        rows = _Rows(self._groups)
        row: list[pa.Array] = []
        before: list[pa.Array] = []
        self.zero_dates = 0
        for (index, column), name in zip(self._columns, self.schema.names, strict=True):
            values = column.convert(self._images.cells(index))
            if column.bad is not None:
                self.zero_dates += int(column.bad[rows.new[rows.new >= 0]].sum())
            row.append(rows.row(values, key=not self.schema.key or name in self.schema.key))
            before.append(rows.before(values))
        return pa.RecordBatch.from_arrays([*rows.stamps(schema), *row, *before], schema=schema)


class _Rows:
    """Which images each row is made of: the ones of an UPDATE are the old, then the new."""

    def __init__(self, groups: Sequence[_Events]) -> None:
        self._groups = groups
        self._operations = _joined([group.operations for group in groups])
        self._counts = _joined([group.counts for group in groups])
        self._rows = int(self._counts.sum())
        self._single = self._rows == len(self._counts)
        each = 1 + (self._operations == _UPDATE)
        firsts = np.cumsum(self._counts * each) - self._counts * each
        self._operation = self._of_rows(self._operations)
        first = self._of_rows(firsts) + self._within() * self._of_rows(each)
        self.new = np.where(self._operation == _DELETE, -1, first + (self._operation == _UPDATE))
        self._old = np.where(self._operation == _INSERT, -1, first)
        self._inserts = bool((self._operations == _INSERT).all())

    def _of_rows(self, of_events: Places) -> Places:
        return of_events if self._single else np.repeat(of_events, self._counts)

    def _within(self) -> Places:
        """The number of each row in its event."""
        if self._single:
            return np.zeros(self._rows, np.int64)
        return np.arange(self._rows) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)

    def row(self, values: pa.Array, *, key: bool) -> pa.Array:
        """A DELETE's row columns hold its key only (CDAP's staging contract); the whole row is in the before image."""
        if self._inserts:
            return values
        return values.take(_indices(np.where(self.new < 0, self._old, self.new) if key else self.new))

    def before(self, values: pa.Array) -> pa.Array:
        return pa.nulls(self._rows, values.type) if self._inserts else values.take(_indices(self._old))

    def stamps(self, schema: pa.Schema) -> list[pa.Array]:
        """The columns that every change has."""
        firsts = _joined([group.firsts for group in self._groups])
        groups = self._groups
        before = np.cumsum([0, *(len(group.txns) for group in groups)])
        owners = _joined([group.owners + base for group, base in zip(groups, before, strict=False)])
        owner = pa.array(self._of_rows(owners))
        places = pa.array(self._of_rows(_joined([group.places for group in groups]))).cast(pa.string())
        times = pa.array(_joined([group.times for group in groups])).view(schema.field(2).type)
        files = pa.array([group.file for group in groups for _ in group.txns], pa.string())
        return [
            pa.array(self._of_rows(firsts) + self._within()),
            pa.array([operation.value for operation in _OPERATIONS]).take(pa.array(self._operation)),
            times.take(owner),
            pa.array([txn for group in groups for txn in group.txns], pa.string()).take(owner),
            pc.binary_join_element_wise(files.take(owner), places, ":"),
        ]


def _joined(parts: Sequence[Places]) -> Places:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _indices(places: Places) -> pa.Array:
    return pa.array(places, mask=places < 0)


def _one(value: int) -> Places:
    return np.array([value], np.int64)
