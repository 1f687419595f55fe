"""Row events → columns.

No object per row or value: images are split, and become arrays, by kernels (DESIGN: the way of the data).

Layout of a body: MySQL's libs/mysql/binlog/event/rows_event.h; compressed rows: MariaDB's sql/log_event.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator.errors import TableError
from replicator.model.change import Operation, UndecodableRow
from replicator.model.schema import TableSchema
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.rows.columns import Bytes, ColumnArrays, Places, numbered_texts
from replicator.sources.mysql.rows.incomplete import incomplete
from replicator.sources.mysql.rows.partial_json import split_partial
from replicator.sources.mysql.rows.row_images import Images
from replicator.sources.mysql.rows.table_map import LogColumn
from replicator.sources.mysql.rows.values import shape_of
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire import frame_kernel as f
from replicator.sources.mysql.wire.bounded_slices import inflate, part
from replicator.sources.mysql.wire.events import BinlogEvent, length_encoded
from replicator.sources.shared.undecodable_rows import bisect_undecodable, undecodable_row

DUMMY_TABLE = 0xFFFFFF  # a rows event that only ends a statement
_OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)  # as frame_kernel counts them
Events = npt.NDArray[np.int64]


class Image(NamedTuple):
    """A rows event taken apart: `rows` is the part with the row images."""

    operation: Operation
    partial: bool
    present: tuple[bytes, ...]
    columns: int
    rows: bytes
    at: int


def open_rows(event: BinlogEvent) -> Image:
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


class RowEventRun(NamedTuple):
    """Rows events in their order: `events` as frame_kernel has them, with images in `data`.

    names[i]: of the transactions in the range number i, up to the number.
    """

    data: Bytes
    events: Events
    names: Sequence[str]
    file: str


class _Group(NamedTuple):
    """Rows events of one table, from one run."""

    events: Events
    names: Sequence[str]
    file: str


class GatheringMark(NamedTuple):
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
        self.zero_dates = 0  # of the last `take`, as is `undecodable`
        self.undecodable: list[UndecodableRow] = []
        self._keep_undecodable = options.keep_undecodable
        self.log_columns = columns
        # The log's order may differ from the schema's where the table was reordered since.
        place = {column.name: index for index, column in enumerate(columns)}
        self._columns = [
            (place[column.name], ColumnArrays(columns[place[column.name]], column, options))
            for column in schema.columns
        ]
        self._images = Images([shape_of(column) for column in columns])
        self._groups: list[_Group] = []

    def add(self, event: BinlogEvent, ordinal: int, commit_us: int, txn: str) -> int:
        """The rows of one event; the first gets `ordinal`.  Returns their number; RowImageIncomplete."""
        image = open_rows(event)
        self._check(image)
        operation = _OPERATIONS.index(image.operation)
        fields = (operation, 0, image.at, len(image.rows), event.start, 0, -1, commit_us, 0, ordinal)
        events = np.array(fields, np.int64).reshape(-1, 1)
        if image.partial:
            events[f.ROWS] = split_partial(self._images, image.rows, image.at, self.log_columns)
        else:
            data = np.frombuffer(image.rows, np.uint8)
            self._images.add(data, events[f.BEGIN], events[f.END], events[f.OPERATION], events[f.ROWS])
        count = int(events[f.ROWS, 0])
        if count:
            self._groups.append(_Group(events, [txn], event.file))
            self.rows += count
            self.bytes += len(image.rows)
        return count

    def add_run(self, run: RowEventRun, first: int, last: int) -> None:
        """The rows of its events from `first` up to `last`, whose numbers of rows are set; until `take`, the ordinals
        must be.
        """
        events = run.events[:, first:last]
        begins, ends, rows = events[f.BEGIN], events[f.END], events[f.ROWS]
        self._images.add(run.data, begins, ends, events[f.OPERATION], rows)
        self._groups.append(_Group(events, run.names, run.file))
        self.rows += int(rows.sum())
        self.bytes += int(ends.sum() - begins.sum())

    def _check(self, image: Image) -> None:
        if image.columns != len(self.log_columns):
            message = f"rows of {image.columns} columns"
            raise IndexError(message)
        every = (1 << len(self.log_columns)) - 1
        for present in image.present:
            if int.from_bytes(present, "little") & every != every:
                message = f"A row event of {self.schema.table} does not hold all columns."
                raise incomplete(message, str(self.schema.table))

    def mark(self) -> GatheringMark:
        """The present end, for `truncate`."""
        return GatheringMark(len(self._groups), self.rows, self.bytes, self._images.mark())

    def truncate(self, mark: GatheringMark) -> None:
        """Forget what came after `mark` (a rollback in the log); `take` must not have been called since."""
        del self._groups[mark.groups :]
        self.rows, self.bytes = mark.rows, mark.bytes
        self._images.truncate(mark.images)

    def restamp(self, mark: GatheringMark, commit_us: int) -> None:
        """Another commit time for what came after `mark`."""
        for group in self._groups[mark.groups :]:
            group.events[f.TIME] = commit_us

    @property
    def room(self) -> int:
        """Bytes of memory that are taken."""
        return self._images.room

    def clear(self, *, release: bool = False) -> None:
        """The gathering starts again; `release`: in no more room than it needs."""
        self.rows = self.bytes = 0
        self._groups = []
        self._images.clear(release=release)

    def take(self) -> pa.RecordBatch:
        """All rows as a batch with the schema's `change_arrow`; the gathering starts again.

        A row that cannot be decoded is in `undecodable` instead, or raises ValueDoesNotFit.
        """
        self.undecodable = []
        try:
            return self._batch(_Rows(self._groups).which(self.schema.change_arrow))
        except TableError:
            if not self._keep_undecodable:
                raise
            return self._without_bad(_Rows(self._groups).which(self.schema.change_arrow))
        finally:
            self.clear()

    def _without_bad(self, rows: _Which) -> pa.RecordBatch:
        zero_dates = 0

        def convert(places: Places) -> pa.RecordBatch:
            nonlocal zero_dates
            batch = self._batch(rows.at(places))
            zero_dates += self.zero_dates
            return batch

        found = bisect_undecodable(len(rows.new), convert, self.schema.change_arrow)
        for place, error in found.bad:
            one = rows.at(np.array([place]))
            images = [image for image in (int(one.old[0]), int(one.new[0])) if image >= 0]
            data = self._images.bytes_of(images[0], images[-1])
            self.undecodable.append(undecodable_row(one.stamps, error, data, partial(self._keys_of, one)))
        self.zero_dates = zero_dates
        return found.batch

    def _keys_of(self, one: _Which) -> list[dict[str, Any]]:
        """Of a single row, before and after its change.  TableError."""
        columns = zip(self._columns, self.schema.names, strict=True)
        key = [(index, column, name) for (index, column), name in columns if name in self.schema.key]
        return [
            {name: column.convert(self._images.cells(index, images))[0].as_py() for index, column, name in key}
            for images in (one.old, one.kept)
            if key and images[0] >= 0
        ]

    def _batch(self, rows: _Which) -> pa.RecordBatch:
        """ValueDoesNotFit."""
        schema = self.schema.change_arrow
        row: list[pa.Array] = []
        before: list[pa.Array] = []
        self.zero_dates = 0
        for (index, column), name in zip(self._columns, self.schema.names, strict=True):
            key = not self.schema.key or name in self.schema.key
            cells = self._images.cells(index, rows.kept if key else rows.new)
            row.append(column.convert(cells))
            if column.bad is not None:
                self.zero_dates += int((column.bad & (rows.new >= 0)).sum())
            count = len(rows.new)
            before.append(pa.nulls(count, row[-1].type) if rows.inserts else column.convert(cells.of(rows.old)))
        return pa.RecordBatch.from_arrays([*rows.stamps, *row, *before], schema=schema)


class _Which(NamedTuple):
    """Rows, as `_Rows` has them: the image of each before and after the change, that of its key, and the columns that
    every change has.
    """

    old: Places
    new: Places
    kept: Places
    inserts: bool
    stamps: list[pa.Array]

    def at(self, places: Places) -> _Which:
        """Some of them."""
        stamps = [stamp.take(pa.array(places)) for stamp in self.stamps]
        return _Which(self.old[places], self.new[places], self.kept[places], self.inserts, stamps)


class _Rows:
    """Which images each row is made of, -1: of none.  An UPDATE's are the old, then the new; a DELETE's is the old one.

    A DELETE's row columns hold its key only (CDAP's staging contract): `kept` is the image of key columns.  `inserts`:
    there is nothing else.
    """

    def __init__(self, groups: Sequence[_Group]) -> None:
        self._groups = groups
        self._events = np.concatenate(
            [group.events for group in groups] or [np.empty((f.EVENT_FIELDS, 0), np.int64)], 1
        )
        counts = self._counts = self._events[f.ROWS]
        self._rows = int(counts.sum())
        self._single = self._rows == len(counts) and bool((counts == 1).all())
        each = 1 + (self._events[f.OPERATION] == f.UPDATE)
        operations = self._operations = self._of_rows(self._events[f.OPERATION])
        self.inserts = not operations.any()
        images = np.cumsum(counts * each) - counts * each
        self.old = self._of_rows(images) + self._within() * self._of_rows(each)
        self.kept = self.old + (operations == f.UPDATE)
        self.new = np.where(operations == f.DELETE, -1, self.kept)
        self.old = np.where(operations == f.INSERT, -1, self.old)

    def which(self, schema: pa.Schema) -> _Which:
        """All of them."""
        return _Which(self.old, self.new, self.kept, self.inserts, self.stamps(schema))

    def _of_rows(self, of_events: Places) -> Places:
        of_rows: Places = of_events if self._single else np.repeat(of_events, self._counts)
        return of_rows

    def _within(self) -> Places:
        """The number of each row in its event."""
        if self._single:
            return np.zeros(self._rows, np.int64)
        before: Places = np.cumsum(self._counts) - self._counts
        return np.arange(self._rows) - np.repeat(before, self._counts)

    def stamps(self, schema: pa.Schema) -> list[pa.Array]:
        """The columns that every change has."""
        groups = self._groups
        return [
            pa.array(self._of_rows(self._events[f.FIRST]) + self._within()),
            numbered_texts(_OPERATIONS, self._operations, np.full(self._rows, -1)),
            pa.array(self._of_rows(self._events[f.TIME])).view(schema.field(2).type),
            self._numbered([group.names for group in groups], self._events[f.RANGE], f.NUMBER),
            self._numbered([(f"{group.file}:",) for group in groups], np.int64(0), f.PLACE),
        ]

    def _numbered(self, texts: Sequence[Sequence[str]], within: Places | np.int64, field: int) -> pa.Array:
        """Of each row a text and a number (none: negative): the text of its group that `within` says."""
        firsts = np.cumsum([0, *map(len, texts)])[:-1]
        which = self._of_rows(np.repeat(firsts, [group.events.shape[1] for group in self._groups]) + within)
        return numbered_texts([text for some in texts for text in some], which, self._of_rows(self._events[field]))
