"""The target's rows under a batch's keys, found without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replicator.folding.footers import KeyColumnRange
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.model.types import BIGINT, STRING
from replicator.targets.iceberg.direct.data_files import LakeFiles, by_id, field_ids, readable, sequence_id
from replicator.targets.iceberg.direct.file_cache import MEMORY
from replicator.targets.iceberg.direct.key_index import KeyIndex, Places, Wanted, ascending
from replicator.targets.iceberg.direct.partitions import KeyPartitions, specs
from replicator.targets.iceberg.direct.scan_plan import Deletes, PlannedFile, planned
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.parquet_files import Written

Flags = npt.NDArray[np.bool_]
_SMALL = 512  # bytes: about what a layout's row group takes


@dataclass(frozen=True)
class RowsToDelete:
    """Rows of a data file that are deleted after the change: those that were before among them; ascending."""

    file: PlannedFile
    rows: Places


@dataclass(frozen=True)
class MatchedRows:
    """Rows of a data file that have not been deleted, under keys that were looked for."""

    file: PlannedFile
    rows: Places


@dataclass(frozen=True)
class LookupResult:
    """For each wanted key: is there a row; is there one that is older than its change.  And the rows that go."""

    present: Flags
    older: Flags
    to_delete: list[RowsToDelete]


@dataclass(frozen=True)
class _RowGroup:
    """A row group: its first row, its number of rows, the codes of its keys where known, its sequence numbers where
    known.
    """

    first: int
    rows: int
    low: int | None
    high: int | None
    oldest: int | None
    newest: int | None


class Lookup:
    """Of keys in one table.  What it learns of a file is kept in `MEMORY`: files never change."""

    def __init__(self, files: LakeFiles, table: IcebergTable, schema: TableSchema | None = None) -> None:
        """Reads nothing.  schema: not needed to find rows by their sequence numbers.  Raises Unreadable."""
        self._files, self._table = files, table
        ids = {field["name"]: int(field["id"]) for field in table.fields}
        key = () if schema is None else tuple(schema.column(name) for name in schema.key)
        self._keys = tuple(ids[column.name] for column in key)
        self._types = tuple(column.type.arrow for column in key)
        self._sequence, self._part = sequence_id(table), ids.get(table.name.tenant[0])
        self._specs = specs(table)

    def find(self, keys: pa.Table, seq: Places, ranges: Sequence[KeyColumnRange]) -> LookupResult:
        """seq: the sequence number of each key's change; a row is only deleted by a greater one than its own
        (invariants 4 and 5).

        Raises Unreadable.
        """
        found = LookupResult(np.zeros(len(seq), bool), np.zeros(len(seq), bool), [])
        if len(seq) and keys.num_columns:
            near = KeyPartitions(self._specs, self._keys, Wanted.of(keys))
            for file in planned(self._table, ranges):
                self._look_into(file, near.within(file.spec, file.partition), seq, found)
        return found

    def held(self, keys: pa.Table, ranges: Sequence[KeyColumnRange]) -> list[MatchedRows]:
        """All rows under these keys, ascending in each file.  Raises Unreadable."""
        near, found = KeyPartitions(self._specs, self._keys, Wanted.of(keys)), []
        for file in planned(self._table, ranges):
            wanted = near.within(file.spec, file.partition)
            parts = [rows + group.first for _, group, _, rows in self._live(file, wanted)]
            if len(rows := ascending(parts)):
                found.append(MatchedRows(file, rows))
        return found

    def below(self, sequence: int) -> Iterator[RowsToDelete]:
        """Rows with a smaller number, of each file that has any left; of a shared table those of the part.

        Raises Unreadable.
        """
        ranges = [KeyColumnRange(SEQUENCE, BIGINT, 0, sequence - 1)]
        column, value = self._table.name.tenant
        if column:
            ranges.append(KeyColumnRange(column, STRING, value, value))
        for file in planned(self._table, ranges):
            parts = [
                group.first + self._rows_below(file, number, group, sequence)
                for number, group in enumerate(self._layout(file))
            ]
            rows = ascending(parts)
            if not _among(rows, self.deleted(file)).all():
                yield self.to_delete(file, rows)

    def _rows_below(self, file: PlannedFile, number: int, group: _RowGroup, sequence: int) -> Places:
        rows = self._all_below(file, number, group, sequence)
        return rows[self._of_part(file, number)[rows]] if self._part is not None and len(rows) else rows

    def _of_part(self, file: PlannedFile, number: int) -> Flags:
        assert self._part is not None
        with self._files.open(file.uri) as opened:
            if self._part not in field_ids(opened.schema_arrow):  # older than the column: no row is the part's
                return np.zeros(opened.metadata.row_group(number).num_rows, bool)
            values = _read(opened, number, [self._part]).column(0)
        return np.asarray(pc.fill_null(pc.equal(values, self._table.name.tenant[1]), fill_value=False))

    def _all_below(self, file: PlannedFile, number: int, group: _RowGroup, sequence: int) -> Places:
        if group.oldest is not None and group.oldest >= sequence:
            return np.zeros(0, np.int64)
        if group.newest is not None and group.newest < sequence:
            return np.arange(group.rows)
        return np.flatnonzero(self._numbers(file, number) < sequence)

    def to_delete(self, file: PlannedFile, rows: Places) -> RowsToDelete:
        """These rows of the file go."""
        return RowsToDelete(file, ascending([self.deleted(file), rows]))

    def _live(self, file: PlannedFile, wanted: Wanted) -> Iterator[tuple[int, _RowGroup, Places, Places]]:
        """Of each row group that has wanted keys: its number, itself, places of keys, and their rows in it."""
        gone: Places | None = None
        if not len(wanted.codes):
            return
        for number, group in enumerate(self._layout(file)):
            if (
                wanted.exact
                and group.low is not None
                and group.high is not None
                and not wanted.between(group.low, group.high)
            ):
                continue
            places, rows = self._index(file, number).find(wanted)
            if not len(rows):
                continue
            if gone is None:
                gone = self.deleted(file)
            live = ~_among(rows + group.first, gone)
            yield number, group, places[live], rows[live]

    def _look_into(self, file: PlannedFile, wanted: Wanted, seq: Places, found: LookupResult) -> None:
        to_delete: list[Places] = []
        for number, group, places, rows in self._live(file, wanted):
            older = self._older(file, number, group, rows, seq[places])
            found.present[places] = True
            found.older[places[older]] = True
            to_delete.append(rows[older] + group.first)
        if to_delete and len(new := np.concatenate(to_delete)):
            found.to_delete.append(self.to_delete(file, new))

    def deleted(self, file: PlannedFile) -> Places:
        """Rows that the table has deleted already, ascending."""
        return deleted(self._files, file)

    def _older(self, file: PlannedFile, number: int, group: _RowGroup, rows: Places, seq: Places) -> Flags:
        if group.newest is not None and len(seq) and group.newest < seq.min():
            return np.ones(len(rows), bool)
        return np.asarray(self._numbers(file, number)[rows] < seq)

    def _numbers(self, file: PlannedFile, number: int) -> Places:
        """The rows' sequence numbers."""
        with self._files.open(file.uri, file.size) as opened:
            return np.asarray(_read(opened, number, [self._sequence]).column(0).to_numpy())

    def _layout(self, file: PlannedFile) -> tuple[_RowGroup, ...]:
        def read() -> tuple[_RowGroup, ...]:
            with self._files.open(file.uri, file.size) as opened:
                readable(opened.schema_arrow, self._specs[file.spec].identities)
                return _layout(opened.schema_arrow, opened.metadata, self._keys, self._types, self._sequence)

        return MEMORY.get(self._layout_place(file.uri), read, _layout_size)

    def _layout_place(self, uri: str) -> tuple[object, ...]:
        return "layout", uri, self._keys, self._types

    def _index(self, file: PlannedFile, number: int) -> KeyIndex:
        def read() -> KeyIndex:
            with self._files.open(file.uri, file.size) as opened:
                return self._indexed(_read(opened, number, self._keys))

        return MEMORY.get(self._index_place(file.uri, number), read, _index_size)

    def _index_place(self, uri: str, number: int) -> tuple[object, ...]:
        return "keys", uri, number, self._keys, self._types

    def _indexed(self, keys: pa.Table) -> KeyIndex:
        return KeyIndex.of([c.combine_chunks().cast(kind) for c, kind in zip(keys.columns, self._types, strict=True)])

    def remember(self, written: Written, rows: pa.Table) -> None:
        """What would be read of a file that was just written, for as long as it has one row group."""
        if written.metadata is None or written.metadata.num_row_groups != 1 or not self._keys:
            return
        layout = _layout(rows.schema, written.metadata, self._keys, self._types, self._sequence)
        index = self._indexed(by_id(rows, self._keys))
        MEMORY.put(self._layout_place(written.uri), layout, _layout_size(layout))
        MEMORY.put(self._index_place(written.uri, 0), index, _index_size(index))


def deleted(files: LakeFiles, file: PlannedFile) -> Places:
    """Rows of the file that the table has deleted, ascending."""
    nothing = np.zeros(0, np.int64)
    return ascending([_positions(files, one, file.uri).get(file.uri, nothing) for one in file.deletes])


def _positions(files: LakeFiles, deletes: Deletes, data_file: str) -> Mapping[str, Places]:
    """By data file: a vector is of one."""

    def read() -> Mapping[str, Places]:
        if deletes.blob is not None:
            return {data_file: files.vector(deletes.uri, deletes.blob)}
        return files.positions(deletes.uri)

    def size(made: Mapping[str, Places]) -> int:
        return sum(rows.nbytes + _SMALL for rows in made.values())

    return MEMORY.get(("positions", *deletes.place), read, size)


def forget_positions(gone: Iterable[Deletes]) -> None:
    """Deletes that the table no longer has."""
    MEMORY.forget(("positions", *one.place) for one in gone)


def remember_positions(written: Written, data_file: str, rows: Places) -> None:
    """Deletes that were just written need not be read."""
    MEMORY.put(("positions", *written.place), {data_file: rows}, rows.nbytes + _SMALL)


def _layout_size(made: Sequence[_RowGroup]) -> int:
    return _SMALL * (len(made) + 1)


def _index_size(made: KeyIndex) -> int:
    return made.nbytes + _SMALL


def _layout(
    schema: pa.Schema, metadata: pq.FileMetaData, keys: Sequence[int], types: Sequence[pa.DataType], sequence: int
) -> tuple[_RowGroup, ...]:
    """None where a key column is younger than the file: none of its rows has such a key."""
    places = {number: place for place, number in enumerate(field_ids(schema))}
    if not set(keys) <= places.keys():
        return ()
    found, first = [], 0
    for number in range(metadata.num_row_groups):
        info = metadata.row_group(number)
        low, high = _bounds(info.column(places[keys[0]]), types[0]) if len(keys) == 1 else (None, None)
        found.append(_RowGroup(first, info.num_rows, low, high, *_bounds(info.column(places[sequence]), pa.int64())))
        first += info.num_rows
    return tuple(found)


def _bounds(column: pq.ColumnChunkMetaData, kind: pa.DataType) -> tuple[int | None, int | None]:
    """Codes of the least and greatest value, for whole numbers and days: as they are in the file, years beyond Python's
    too.
    """
    statistics = column.statistics
    plain = pa.types.is_integer(kind) or pa.types.is_date32(kind)
    if not plain or statistics is None or not statistics.has_min_max:
        return None, None
    return int(statistics.min_raw), int(statistics.max_raw)


def _read(file: pq.ParquetFile, group: int, ids: Sequence[int]) -> pa.Table:
    names = [
        field.name
        for field, number in zip(file.schema_arrow, field_ids(file.schema_arrow), strict=True)
        if number in ids
    ]
    return by_id(file.read_row_group(group, columns=names), ids)


def _among(rows: Places, others: Places) -> Flags:
    """Which of `rows` are in the ascending `others`?"""
    if not len(others):
        return np.zeros(len(rows), bool)
    at = np.minimum(np.searchsorted(others, rows), len(others) - 1)
    return np.asarray(others[at] == rows)
