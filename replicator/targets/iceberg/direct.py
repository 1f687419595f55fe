"""Small changes without Spark: rows found and files written by pyarrow, one commit through Iceberg's Java API.

What it cannot do it leaves to Spark, and says why (`NotDirectly`), before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from replicator.merge import arrow_fold, batches
from replicator.merge.ranges import KeyRange
from replicator.model.schema import TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import Position
from replicator.targets.iceberg.catalog import LakeTable
from replicator.targets.iceberg.commit import commit_directly, staging
from replicator.targets.iceberg.content import data_files, delete_files
from replicator.targets.iceberg.files import (
    LakeFiles,
    Written,
    lake_files,
    new_data_file,
    shaped,
    target_schema,
    write_stream,
)
from replicator.targets.iceberg.lookup import Doomed, Lookup, forget_positions, remember_positions
from replicator.targets.iceberg.plan import Unreadable, carry_on


@dataclass(frozen=True)
class Limits:
    """Up to where a merge is done directly: changes, bytes of their files, bytes that they take in memory."""

    rows: int = 200_000
    file_bytes: int = 64 * 1024 * 1024
    memory: int = 256 * 1024 * 1024


WRITERS = 2
SPARK_ONLY = Limits(-1, -1, -1)


class NotDirectly(Exception):
    """Spark must do it, because …"""


@dataclass(frozen=True)
class Counts:
    """Rows."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


class Direct:
    """Direct changes of one table, as it was read."""

    def __init__(self, storage: Storage, table: LakeTable, files: LakeFiles, limits: Limits) -> None:
        """`storage`: the segments'; `files`: the target's."""
        self._storage, self._table, self._files, self._limits = storage, table, files, limits
        self._written: list[str] = []

    @classmethod
    def of(cls, storage: Storage, table: LakeTable, warehouse: str, limits: Limits) -> Direct:
        """Raises NotDirectly."""
        files = lake_files(warehouse)
        if files is None:
            raise NotDirectly("warehouse")
        if limits.rows < 0:
            raise NotDirectly("switched off")
        if any(spec["fields"] for spec in table.metadata["partition-specs"]):
            raise NotDirectly("partitions")
        return cls(storage, table, files, limits)

    def nothing(self, after: Position) -> None:
        """A commit that moves the position only."""
        staging()
        snapshot = commit_directly(self._table, after, lambda transaction: transaction.newFastAppend(), self._discard)
        carry_on(self._table, snapshot, (), ())

    def merge(
        self,
        schema: TableSchema,
        segments: Sequence[Segment],
        ranges: Sequence[KeyRange],
        at: Position,
        after: Position,
    ) -> Counts:
        """Fold, find, write, commit.  A table without key: only where nothing leaves it.  Raises NotDirectly."""
        self._within_limits(schema, segments)
        changes = batches.changes(self._storage, segments, schema, at.applied, self._limits.memory)
        if changes is None:
            raise NotDirectly("memory")
        folded = arrow_fold.fold(changes, schema)
        try:
            found = Lookup(self._files, self._table, schema).find(folded.keys, folded.seq, ranges)
        except Unreadable as error:
            raise NotDirectly(str(error)) from None
        staying = folded.stays.num_rows
        if len(self._table.columns) > len(schema.columns) and found.older[:staying].any():
            raise NotDirectly("kept columns")  # their values are in the rows that would be written anew
        put = folded.stays.filter(pa.array(~found.present[:staying] | found.older[:staying]))
        counts = Counts(
            int(np.count_nonzero(~found.present[:staying])),
            int(np.count_nonzero(found.older[:staying])),
            int(np.count_nonzero(found.older[staying:])),
        )
        staging()
        with self._writing():
            written = self._rows(put)
            deletes = {one.file.uri: self._delete(one) for one in found.doomed if len(one.rows) < one.file.rows}
        self._commit(written, found.doomed, deletes, after)
        return counts

    def _within_limits(self, schema: TableSchema, segments: Sequence[Segment]) -> None:
        rows, size = sum(segment.rows for segment in segments), sum(segment.size for segment in segments)
        if rows > self._limits.rows:
            raise NotDirectly(f"{rows:,} changes")
        if size > self._limits.file_bytes:
            raise NotDirectly(f"{size >> 20} MiB")
        if not arrow_fold.comparable(schema):
            raise NotDirectly("key type")

    def append(self, schema: TableSchema, segments: Sequence[Segment], at: Position, after: Position) -> Counts:
        """The READ rows of these segments, of any number: streamed."""
        staging()
        share = -(-len(segments) // WRITERS) or 1  # neighbours together: their keys often are
        parts = [segments[place : place + share] for place in range(0, len(segments), share)]
        with self._writing(), ThreadPoolExecutor(WRITERS) as pool:
            written = [one for part in pool.map(lambda part: self._stream(schema, part, at), parts) for one in part]
        self._commit(written, [], {}, after)
        return Counts(inserted=sum(one.rows for one in written))

    def _stream(self, schema: TableSchema, segments: Sequence[Segment], at: Position) -> list[Written]:
        target = target_schema(self._table)
        rows = (
            shaped(pa.Table.from_batches([batch]), target)
            for segment in segments
            for batch in batches.rows(self._storage, segment, schema, at.loaded)
        )
        return write_stream(self._files, self._new_file, target, rows)

    def _rows(self, rows: pa.Table) -> list[Written]:
        if not rows.num_rows:
            return []
        return [self._files.write_rows(self._new_file(), shaped(rows, target_schema(self._table)))]

    def _commit(
        self, written: Sequence[Written], doomed: Sequence[Doomed], deletes: Mapping[str, Written], after: Position
    ) -> None:
        """`deletes`: by data file; a doomed one that has none there goes as a whole."""
        with self._writing():
            new, positions = data_files(self._table, written), delete_files(self._table, deletes)

        def build(transaction: Any) -> Any:
            update = transaction.newRowDelta()
            for file in new:
                update.addRows(file.java)
            for one in positions.values():
                update.addDeletes(one.java)
            for hit in doomed:
                if hit.file.uri not in deletes:
                    update.removeRows(hit.file.java)
                for one in hit.file.deletes:
                    update.removeDeletes(one.java)
            return update

        snapshot = commit_directly(self._table, after, build, self._discard)
        worn = [replace(one.file, deletes=(positions[one.file.uri],)) for one in doomed if one.file.uri in deletes]
        carry_on(self._table, snapshot, {one.file.uri for one in doomed}, [*worn, *new])
        forget_positions(one.uri for hit in doomed for one in hit.file.deletes)

    def _delete(self, one: Doomed) -> Written:
        written = self._files.write_positions(self._new_file(), one.file.uri, one.rows)
        remember_positions(written.uri, one.rows)
        return written

    def _new_file(self) -> str:
        self._written.append(new_data_file(self._table))
        return self._written[-1]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Files that nobody will name are removed."""
        try:
            yield
        except Exception:
            self._discard()
            raise

    def _discard(self) -> None:
        self._files.delete(self._written)
