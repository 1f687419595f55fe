"""Small changes without Spark: rows found and files written by pyarrow, one commit through Iceberg's Java API.

What it cannot do it leaves to Spark, and says why (`FallBackToSpark`): of what it may have written nothing stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from replicator.folding import fold, staged_changes, unchanged_values
from replicator.folding.footers import KeyColumnRange
from replicator.model.mode import DELETED, Mode
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import Counts, Merge, Position
from replicator.targets.iceberg.direct import history_writer
from replicator.targets.iceberg.direct.data_files import LakeFiles, Unreadable, lake_files, new_data_file, target_schema
from replicator.targets.iceberg.direct.key_lookup import Lookup, RowsToDelete, forget_positions, remember_positions
from replicator.targets.iceberg.direct.manifest_entries import data_files, delete_files
from replicator.targets.iceberg.direct.partitions import Partition, present_spec
from replicator.targets.iceberg.direct.read_rows import read_rows
from replicator.targets.iceberg.direct.scan_plan import carry_on
from replicator.targets.iceberg.jvm import content_files
from replicator.targets.iceberg.jvm.table_states import table_states
from replicator.targets.iceberg.spark.changes import opened
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.commit import commit_directly, staging
from replicator.targets.iceberg.table.layout import format_version
from replicator.targets.iceberg.table.parts import keeps_columns
from replicator.targets.parquet_files import Split, Written, shaped, write_stream

ROWS = 1_000_000


@dataclass(frozen=True)
class DirectLimits:
    """Up to where a merge is done directly: changes, bytes of their files, bytes that they take in memory."""

    rows: int = field(default_factory=lambda: ROWS)
    file_bytes: int = 128 * 1024 * 1024
    memory: int = 256 * 1024 * 1024

    def first(self, change: Merge) -> Merge:
        """The first of its segments that are within the limits, by what the journal says of them."""
        rows = size = count = 0
        for segment in change.segments:
            rows, size = rows + segment.rows, size + segment.size
            if rows > self.rows or size > self.file_bytes:
                break
            count += 1
        return up_to(change, count)


WRITERS = 2  # of an initial load
UPLOADS = 8  # of the files of one merge
MAX_FILES = 500  # data files of a commit, of a partitioned table
Rows = Callable[[Segment], Iterator[pa.Table]]
Part = tuple[Partition, pa.Table]
Item = TypeVar("Item")
SPARK_ONLY = DirectLimits(-1, -1, -1)


class FallBackToSpark(Exception):
    """Spark must do it, because …"""


class TooLarge(FallBackToSpark):
    """… unless there are fewer changes."""


def up_to(change: Merge, count: int) -> Merge:
    """The first `count` of the segments, or as many more as cannot be parted from them; at least one."""
    segments, count = change.segments, max(count, 1)
    while count < len(segments) and segments[count].first_sequence <= change.whole_to:
        count += 1
    if count >= len(segments):
        return change
    return replace(change, segments=segments[:count], upto=segments[count - 1].last_sequence, emptied=False)


class Direct:
    """Direct changes of one table, as it was read."""

    def __init__(self, storage: Storage, table: IcebergTable, files: LakeFiles, limits: DirectLimits) -> None:
        """`storage`: the segments'; `files`: the target's."""
        self._storage, self._table, self._files, self._limits = storage, table, files, limits
        self._spec, self._target = present_spec(table), target_schema(table)
        self._written: list[str] = []

    @classmethod
    def of(cls, storage: Storage, table: IcebergTable, limits: DirectLimits) -> Direct:
        """Raises FallBackToSpark."""
        files = lake_files(table)
        if files is None:
            raise FallBackToSpark("warehouse")
        if limits.rows < 0:
            raise FallBackToSpark("switched off")
        with _readable():
            return cls(storage, table, files, limits)

    @property
    def mode(self) -> Mode:
        """The table's."""
        return self._table.mode

    def nothing(self, after: Position) -> None:
        """A commit that moves the position only."""
        staging()
        snapshot = commit_directly(self._table, after, lambda transaction: transaction.newFastAppend(), self._discard)
        carry_on(self._table, snapshot, (), ())

    def merge(
        self,
        schema: TableSchema,
        segments: Sequence[Segment],
        ranges: Sequence[KeyColumnRange],
        at: Position,
        after: Position,
        *,
        partial: bool = False,
    ) -> Counts:
        """Fold, find, write, commit.  A table without key: only where nothing leaves it.  Raises FallBackToSpark.

        partial: UPDATEs may have left values out.
        """
        self._within_limits(schema, segments)
        keeps, most = self.mode is not Mode.MIRROR, self._limits.memory
        changes = staged_changes.changes(
            self._storage, segments, schema, at.applied, most, timed=keeps, partial=partial
        )
        if changes is None:
            raise TooLarge("memory")
        opened()
        if partial:
            changes = self._filled(schema, changes, ranges)
        folded = fold.fold(changes, schema)
        if self.mode is Mode.HISTORY or (keeps and len(folded.seq) > folded.stays.num_rows):
            return self._keep(schema, changes, ranges, after)  # what goes is read whole; arrivals alone are a mirror's
        with _readable():
            found = Lookup(self._files, self._table, schema).find(folded.keys, folded.seq, ranges)
        staying = folded.stays.num_rows
        if keeps_columns(self._table, schema) and found.older[:staying].any():
            raise FallBackToSpark("kept columns")  # their values are in the rows that would be written again
        put = folded.stays.filter(pa.array(~found.present[:staying] | found.older[:staying]))
        counts = Counts(
            int(np.count_nonzero(~found.present[:staying])),
            int(np.count_nonzero(found.older[:staying])),
            int(np.count_nonzero(found.older[staying:])),
        )
        staging()
        with self._writing():
            if keeps:
                put = put.append_column(DELETED, pa.repeat(pa.scalar(False), put.num_rows))  # noqa: FBT003
            written, deletes = self._rows(put, schema), self._deletes(found.to_delete)
        self._commit(written, found.to_delete, deletes, after)
        return counts

    def _filled(self, schema: TableSchema, changes: pa.Table, ranges: Sequence[KeyColumnRange]) -> pa.Table:
        """With the values that UPDATEs left out."""
        names = {*schema.key, SEQUENCE, *(schema.names[place] for place in unchanged_values.places(changes))}
        columns = pa.schema([field for field in self._target if field.name in names])
        with _readable():
            hits = Lookup(self._files, self._table, schema).held(unchanged_values.concerned(changes, schema), ranges)
        held = read_rows(self._files, hits, columns, self._limits.memory)
        if held is None:
            raise TooLarge("rows to read")
        newest = self.mode is Mode.MIRROR
        filled = unchanged_values.filled(changes, held, schema, self._limits.memory, newest=newest)
        if filled is None:
            raise FallBackToSpark("values left out")
        return filled

    def _keep(
        self, schema: TableSchema, changes: pa.Table, ranges: Sequence[KeyColumnRange], after: Position
    ) -> Counts:
        """The same where rows that go are kept."""
        with _readable():
            kept = history_writer.fold(self._files, self._table, schema, changes, ranges, self._limits.memory)
        if kept is None:
            raise TooLarge("rows to read")
        if keeps_columns(self._table, schema) and self.mode is Mode.SOFT_DELETE and kept.to_delete:
            raise FallBackToSpark("kept columns")
        staging()
        with self._writing():
            written, deletes = self._rows(kept.put, schema), self._deletes(kept.to_delete)
        self._commit(written, kept.to_delete, deletes, after)
        return Counts(kept.new, kept.put.num_rows - kept.new, 0)

    def delete_below(self, below: int, after: Position) -> Counts:
        """Rows with a smaller sequence number go, of a shared table those of the part.  Raises FallBackToSpark."""
        lookup, to_delete = Lookup(self._files, self._table), []
        with _readable():
            for one in lookup.below(below):
                to_delete.append(one)
                if sum(each.rows.nbytes for each in to_delete) > self._limits.memory:
                    raise FallBackToSpark("memory")
        if not to_delete:
            self.nothing(after)
            return Counts()
        gone = sum(len(one.rows) - len(lookup.deleted(one.file)) for one in to_delete)
        staging()
        with self._writing():
            deletes = self._deletes(to_delete)
        self._commit([], to_delete, deletes, after)
        return Counts(deleted=gone)

    def _within_limits(self, schema: TableSchema, segments: Sequence[Segment]) -> None:
        rows, size = sum(segment.rows for segment in segments), sum(segment.size for segment in segments)
        if rows > self._limits.rows:
            raise TooLarge(f"{rows:,} changes")
        if size > self._limits.file_bytes:
            raise TooLarge(f"{size >> 20} MiB")
        if not fold.comparable(schema):
            raise FallBackToSpark("key type")

    def append(self, schema: TableSchema, segments: Sequence[Segment], at: Position, after: Position) -> Counts:
        """The READ rows of these segments, of any number: streamed."""

        def rows(segment: Segment) -> Iterator[pa.Table]:
            for batch in staged_changes.rows(self._storage, segment, schema, at.loaded):
                yield staged_changes.as_read(batch, segment, self.mode)

        return self._append(segments, rows, after)

    def append_changes(self, schema: TableSchema, segments: Sequence[Segment], at: Position, after: Position) -> Counts:
        """The changes of these segments as rows of a changelog, of any number."""
        return self._append(
            segments, lambda segment: staged_changes.unfolded(self._storage, segment, schema, at.applied), after
        )

    def _append(self, segments: Sequence[Segment], rows: Rows, after: Position) -> Counts:
        staging()
        share = -(-len(segments) // WRITERS) or 1  # neighbours together: their keys often are
        parts = [segments[place : place + share] for place in range(0, len(segments), share)]
        with self._writing(), ThreadPoolExecutor(WRITERS) as pool:
            written = [one for part in pool.map(lambda part: self._stream(part, rows), parts) for one in part]
        self._commit(written, [], {}, after)
        return Counts(inserted=sum(one.rows for one in written))

    def _stream(self, segments: Sequence[Segment], rows: Rows) -> list[Written]:
        found = (shaped(part, self._target) for segment in segments for part in rows(segment))
        return write_stream(self._files, self._new_data_file, self._target, found, split=self._split)

    def _rows(self, rows: pa.Table, schema: TableSchema) -> list[Written]:
        if not rows.num_rows:
            return []
        whole, lookup = shaped(rows, self._target), Lookup(self._files, self._table, schema)
        parts = [((), whole)] if self._split is None else self._split(whole)

        def write(uri: str, part: Part) -> Written:
            written = self._files.write_rows(uri, part[1], part[0])
            lookup.remember(written, part[1])
            return written

        return _each(write, self._named(parts))

    @property
    def _split(self) -> Split | None:
        return self._spec.split if self._spec.fields else None

    def _named(self, parts: Iterable[Part]) -> Iterator[tuple[str, Part]]:
        for part in parts:
            yield self._new_data_file(), part

    def _commit(
        self,
        written: Sequence[Written],
        to_delete: Sequence[RowsToDelete],
        deletes: Mapping[str, Written],
        after: Position,
    ) -> None:
        """`deletes`: by data file; one to delete that has none there goes as a whole."""
        with self._writing():
            worn = [(one.file, deletes[one.file.uri]) for one in to_delete if one.file.uri in deletes]
            new, positions = data_files(self._table, written), delete_files(self._table, worn)
        gone = [
            one
            for hit in to_delete
            for one in (hit.file.objects if hit.file.uri not in deletes else hit.file.objects[1:])
        ]
        added, engine = [one.java for one in new] + [one.java for one in positions.values()], self._table.engine

        def build(transaction: Any) -> Any:
            # Since this snapshot: older vectors of a file are in its new one.
            update = table_states(engine).rowDelta(transaction, self._table.snapshot)
            content_files.add(engine, update, added)
            content_files.remove(engine, update, gone)
            return update

        snapshot = commit_directly(self._table, after, build, self._discard, len(gone))
        kept = [replace(file, deletes=(positions[file.uri],)) for file, _ in worn]
        carry_on(self._table, snapshot, {one.file.uri for one in to_delete}, [*kept, *new])
        forget_positions(one for hit in to_delete for one in hit.file.own_deletes)

    def _deletes(self, to_delete: Iterable[RowsToDelete]) -> dict[str, Written]:
        """By data file, of those that keep rows."""
        rows = {one.file.uri: one.rows for one in to_delete if len(one.rows) < one.file.rows}
        if not rows:
            return {}
        if format_version(self._table) > 2:  # noqa: PLR2004 - position deletes are version 2's
            found = self._files.write_vectors(self._new_file("puffin"), rows)
        else:
            named = [(self._new_file(), one) for one in rows.items()]
            written = _each(lambda uri, one: self._files.write_positions(uri, *one), named)
            found = dict(zip(rows, written, strict=True))
        for uri, one in found.items():
            remember_positions(one, uri, rows[uri])
        return found

    def _new_data_file(self) -> str:
        if self._spec.fields and len(self._written) >= MAX_FILES:
            message = f"more than {MAX_FILES} files for its partitions"
            raise FallBackToSpark(message)
        return self._new_file()

    def _new_file(self, ending: str = "parquet") -> str:
        self._written.append(new_data_file(self._table, ending))
        return self._written[-1]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Delete the written files where the block fails: no commit will name them."""
        try:
            yield
        except Exception:
            self._discard()
            raise

    def _discard(self) -> None:
        self._files.delete(self._written)


def _each(write: Callable[[str, Item], Written], items: Iterable[tuple[str, Item]]) -> list[Written]:
    """Several at a time, and no more in memory."""
    found: list[Written] = []
    with ThreadPoolExecutor(UPLOADS) as pool:  # it starts threads as they are needed
        waiting = iter(items)
        while some := list(islice(waiting, UPLOADS)):
            found += [write(*some[0])] if len(some) == 1 else pool.map(write, *zip(*some, strict=True))
    return found


@contextmanager
def _readable() -> Iterator[None]:
    """What only Iceberg's own readers understand is Spark's."""
    try:
        yield
    except Unreadable as error:
        raise FallBackToSpark(str(error)) from None
