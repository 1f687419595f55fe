"""Row events → columns.  Rows never become objects: each value goes straight to its column's list (DESIGN: the way of the data).

The work is `type vector + body bytes → columns`, so that a compiled kernel can take its place.
Layout of a body: MySQL's libs/mysql/binlog/event/rows_event.h; compressed rows: MariaDB's sql/log_event.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import RowImageIncomplete
from replicator.model.change import Operation
from replicator.model.schema import CHANGE_FIELDS, TableSchema
from replicator.sources.base import ReadOptions
from replicator.sources.mysql import events as e
from replicator.sources.mysql import jsonb
from replicator.sources.mysql.column_values import ColumnReader, column_reader
from replicator.sources.mysql.events import Event, length_encoded
from replicator.sources.mysql.pieces import inflate, part
from replicator.sources.mysql.table_map import JSON, LogColumn
from replicator.sources.mysql.temporal_values import NO_DATE, Append, Read

DUMMY_TABLE = 0xFFFFFF  # a rows event that only ends a statement
_PARTIAL_JSON = 1


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


class _Run(NamedTuple):
    """Rows of one event."""

    operation: str
    first: int
    rows: int
    commit_us: int
    txn: str
    offset: str


def _ignore(_value: object) -> None:
    """Takes the values of columns that are left out."""


Mark = tuple[int, int, int, int]


class TableRows:
    """Changes of one table under one schema, gathered until `take`."""

    def __init__(self, schema: TableSchema, columns: Sequence[LogColumn], options: ReadOptions) -> None:
        """`columns` as the log has them, with those left out; UnsupportedType, UnsupportedCharset."""
        self.schema = schema
        self.rows = 0
        self.bytes = 0
        self.zero_dates = 0  # of the last `take`
        self.log_columns = columns
        known = {column.name: column for column in schema.columns}
        readers = [column_reader(column, known.get(column.name), options) for column in columns]
        self._null_bytes = (len(columns) + 7) // 8
        self._all = (1 << len(columns)) - 1
        # The log's order may differ from the schema's where the table was reordered since.
        order = {column.name: place for place, column in enumerate(schema.columns)}
        self._place = [order.get(column.name, -1) for column in columns]
        self._readers = readers
        self._finish = self._in_schema_order(readers)
        self._runs: list[_Run] = []
        self._start_lists()

    def _in_schema_order(self, readers: Sequence[ColumnReader]) -> list[ColumnReader]:
        by_place = {place: reader for place, reader in zip(self._place, readers, strict=True) if place >= 0}
        return [by_place[place] for place in range(len(self.schema.columns))]

    def _start_lists(self) -> None:
        self.rows = self.bytes = 0
        self._runs = []
        width = len(self.schema.columns)
        self._row: list[list[Any]] = [[] for _ in range(width)]
        self._before: list[list[Any]] = [[] for _ in range(width)]
        self._row_pairs = self._pairs(self._row)
        self._before_pairs = self._pairs(self._before)

    def _pairs(self, lists: list[list[Any]]) -> list[tuple[Read, Append]]:
        targets: list[Append] = [lists[place].append if place >= 0 else _ignore for place in self._place]
        return [(reader.read, target) for reader, target in zip(self._readers, targets, strict=True)]

    def add(self, event: Event, ordinal: int, commit_us: int, txn: str) -> int:
        """The rows of one event; the first gets `ordinal`.  Returns their number; RowImageIncomplete, ValueDoesNotFit."""
        image = open_rows(event)
        self._check(image)
        if image.partial:
            count, end = self._partial_updates(image)
        elif image.operation is Operation.INSERT:
            count, end = self._inserts(image.rows, image.at)
        elif image.operation is Operation.UPDATE:
            count, end = self._updates(image.rows, image.at)
        else:
            count, end = self._deletes(image.rows, image.at)
        if end != len(image.rows):  # a value that reaches beyond the event is less than it says: no other check sees it
            message = f"rows that end at {end} of {len(image.rows)} bytes"
            raise IndexError(message)
        if count:
            offset = f"{event.file}:{event.start}"
            self._runs.append(_Run(image.operation.value, ordinal, count, commit_us, txn, offset))
            self.rows += count
            self.bytes += len(image.rows)
        return count

    def _check(self, image: Image) -> None:
        if image.columns != len(self.log_columns):
            message = f"rows of {image.columns} columns"
            raise IndexError(message)
        for present in image.present:
            if int.from_bytes(present, "little") & self._all != self._all:
                message = f"A row event of {self.schema.table} does not hold all columns."
                raise RowImageIncomplete(message, table=str(self.schema.table))

    def _image(self, body: bytes, at: int, pairs: list[tuple[Read, Append]]) -> int:
        end = at + self._null_bytes
        nulls = int.from_bytes(body[at:end], "little") & self._all
        at = end
        if not nulls:
            for read, append in pairs:
                at = read(body, at, append)
            return at
        for read, append in pairs:
            if nulls & 1:
                append(None)
            else:
                at = read(body, at, append)
            nulls >>= 1
        return at

    # Each gives the number of rows and where they end.

    def _inserts(self, body: bytes, at: int) -> tuple[int, int]:
        count, end, image, pairs = 0, len(body), self._image, self._row_pairs
        while at < end:
            at = image(body, at, pairs)
            count += 1
        return count, at

    def _pad_before(self, rows: int) -> None:
        missing = rows - len(self._before[0]) if self._before else 0
        if missing:
            for values in self._before:
                values.extend([None] * missing)

    def _updates(self, body: bytes, at: int) -> tuple[int, int]:
        self._pad_before(self.rows)
        count, end, image, before, row = 0, len(body), self._image, self._before_pairs, self._row_pairs
        while at < end:
            at = image(body, image(body, at, before), row)
            count += 1
        return count, at

    def _deletes(self, body: bytes, at: int) -> tuple[int, int]:
        self._pad_before(self.rows)
        count, end, image, before = 0, len(body), self._image, self._before_pairs
        while at < end:
            at = image(body, at, before)
            count += 1
        if count:
            for values, old in zip(self._row, self._before, strict=True):
                values.extend(old[-count:])
        return count, at

    def _partial_updates(self, image: Image) -> tuple[int, int]:
        """PARTIAL_UPDATE_ROWS: the after image may hold JSON columns as differences to the before image."""
        self._pad_before(self.rows)
        body, at, count = image.rows, image.at, 0
        documents = [index for index, column in enumerate(self.log_columns) if column.type == JSON]
        while at < len(body):
            before: dict[int, bytes] = {}
            at = self._image_noting(body, at, before)
            options, at = length_encoded(body, at)
            partial: set[int] = set()
            if options & _PARTIAL_JSON:
                bits = int.from_bytes(part(body, at, (len(documents) + 7) // 8), "little")
                at += (len(documents) + 7) // 8
                partial = {index for place, index in enumerate(documents) if bits >> place & 1}
            at = self._partial_image(body, at, partial, before)
            count += 1
        return count, at

    def _image_noting(self, body: bytes, at: int, documents: dict[int, bytes]) -> int:
        nulls, at = int.from_bytes(body[at : at + self._null_bytes], "little"), at + self._null_bytes
        for index, (read, append) in enumerate(self._before_pairs):
            if nulls >> index & 1:
                append(None)
                continue
            end = read(body, at, append)
            if self.log_columns[index].type == JSON:
                documents[index] = body[at + 4 : end]
            at = end
        return at

    def _partial_image(self, body: bytes, at: int, partial: Iterable[int], documents: dict[int, bytes]) -> int:
        nulls, at = int.from_bytes(body[at : at + self._null_bytes], "little"), at + self._null_bytes
        for index, (read, append) in enumerate(self._row_pairs):
            if nulls >> index & 1:
                append(None)
            elif index not in partial:
                at = read(body, at, append)
            else:
                size, at = int.from_bytes(body[at : at + 4], "little"), at + 4
                if index not in documents:
                    message = f"A partial JSON update of {self.schema.table} has nothing to apply to."
                    raise RowImageIncomplete(message, table=str(self.schema.table))
                append(jsonb.apply_diffs(documents[index], part(body, at, size)))
                at += size
        return at

    def mark(self) -> Mark:
        """The present end, for `truncate`."""
        return len(self._runs), self.rows, self.bytes, len(self._before[0]) if self._before else 0

    def truncate(self, mark: Mark) -> None:
        """Forget what came after `mark` (a rollback in the log); `take` must not have been called since."""
        runs, self.rows, self.bytes, before = mark
        del self._runs[runs:]
        for values in self._row:
            del values[self.rows :]
        for values in self._before:
            del values[before:]

    def restamp(self, mark: Mark, commit_us: int) -> None:
        """Another commit time for what came after `mark`."""
        runs = self._runs
        runs[mark[0] :] = [run._replace(commit_us=commit_us) for run in runs[mark[0] :]]

    def take(self) -> pa.RecordBatch:
        """All rows as a batch with the schema's `change_arrow`; the gathering starts anew."""
        self._pad_before(self.rows)
        runs, schema = self._runs, self.schema.change_arrow
        self.zero_dates = self._count_zero_dates()
        counts = np.array([run.rows for run in runs], dtype=np.int64)
        expand = _expander(counts)
        firsts = np.array([run.first for run in runs], dtype=np.int64)
        begins = np.cumsum(counts) - counts
        sequence = np.repeat(firsts - begins, counts) + np.arange(self.rows, dtype=np.int64)
        arrays = [
            pa.array(sequence),
            expand(pa.array([run.operation for run in runs], pa.string())),
            expand(pa.array([run.commit_us for run in runs], pa.int64()).view(schema.field(2).type)),
            expand(pa.array([run.txn for run in runs], pa.string())),
            expand(pa.array([run.offset for run in runs], pa.string())),
        ]
        for lists in (self._row, self._before):
            arrays += [reader.finish(values) for reader, values in zip(self._finish, lists, strict=True)]
        self._start_lists()
        self._keep_key_of_deleted(arrays)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _count_zero_dates(self) -> int:
        """Dates that do not exist and became null, in rows as they are after their change."""
        count = 0
        for reader, values in zip(self._finish, self._row, strict=True):
            if reader.dated and NO_DATE in values:
                at = 0
                for run in self._runs:
                    if run.operation != Operation.DELETE.value:
                        count += values[at : at + run.rows].count(NO_DATE)
                    at += run.rows
        return count

    def _keep_key_of_deleted(self, arrays: list[pa.Array]) -> None:
        """A DELETE's row columns hold its key only (CDAP's staging contract); the whole row is in the before image."""
        deleted = pc.equal(arrays[1], Operation.DELETE.value)
        if self.schema.key and pc.any(deleted).as_py():
            for place, column in enumerate(self.schema.columns, len(CHANGE_FIELDS)):
                if column.name not in self.schema.key:
                    arrays[place] = pc.if_else(deleted, pa.scalar(None, arrays[place].type), arrays[place])


def _expander(counts: np.ndarray[Any, np.dtype[np.int64]]) -> Callable[[pa.Array], pa.Array]:
    if counts.size == 0 or counts.max() == 1:
        return lambda array: array
    indices = pa.array(np.repeat(np.arange(counts.size), counts))
    return lambda array: array.take(indices)
