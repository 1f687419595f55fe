"""A part of a batch as staged edits: the folds that all targets share, in staging tables of the target.

What is read of the target's rows is read before the transaction that changes them.  The compare-and-set of the
position, which begins that transaction, says that they are still the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replicator.errors import TableError
from replicator.folding import history_and_soft_delete, keyless, unchanged_values
from replicator.folding.fold import fold
from replicator.folding.kept_columns import carried
from replicator.model.mode import Mode
from replicator.model.schema import OPERATION, SEQUENCE, TableSchema
from replicator.targets.base import Counts
from replicator.targets.parquet_files import shaped
from replicator.targets.warehouse.dialect import DELETE, PUT, Dialect, Session
from replicator.targets.warehouse.position import OpenTable


@dataclass(frozen=True)
class RowsHeld(ABC):
    """A merge under way: of what, and the rows that the target has."""

    table: OpenTable
    schema: TableSchema

    def held(self, keys: pa.Table, names: list[str]) -> pa.Table:
        """The target's rows under these keys; repetitions and nulls among the keys count for nothing."""
        wanted = keys.drop_null().group_by(keys.column_names).aggregate([])
        fields = pa.schema([self.table.arrow.field(name) for name in names])
        return self._found(wanted, fields) if wanted.num_rows else fields.empty_table()

    @abstractmethod
    def _found(self, keys: pa.Table, fields: pa.Schema) -> pa.Table:
        """keys: each once, none of them null."""


@dataclass(frozen=True)
class Merging(RowsHeld):
    """And where it is staged."""

    dialect: Dialect
    session: Session

    def stage(self, rows: pa.Table) -> str:
        return self.dialect.stage(self.session, self.table.name, rows)

    def _found(self, keys: pa.Table, fields: pa.Schema) -> pa.Table:
        return self.dialect.held(self.session, self.table.name, keys, fields)


class StagedEdits(ABC):
    """Edits that lie in staging tables; `apply` makes them, in the transaction that has moved the position."""

    @abstractmethod
    def apply(self) -> Callable[[], Counts]:
        """The counts are known once the transaction has ended."""


def stage(merging: Merging, changes: pa.Table, *, emptied: bool) -> StagedEdits:
    """Of any mode but the changelog.  Raises ValuesUnknown, TableError."""
    if not merging.schema.key:
        return _Multiset.of(merging, changes)
    changes = filled(merging, changes, emptied=emptied)
    if merging.table.mode is Mode.MIRROR:
        return _Newest.of(merging, changes)
    return _Versions.of(merging, changes)


def filled(merging: RowsHeld, changes: pa.Table, *, emptied: bool) -> pa.Table:
    """Of a table with a key: with the values that UPDATEs left out.  Raises ValuesUnknown."""
    schema = merging.schema
    if not schema.partial:
        return changes
    newest = merging.table.mode is Mode.MIRROR
    return unchanged_values.completed(changes, schema, merging.held, newest=newest, guess=emptied)


def versions(merging: RowsHeld, changes: pa.Table) -> tuple[pa.Table, pa.Table, int]:
    """Where rows that go are kept: the rows to put, with all columns; those that go for them; how many replace none.

    The target's rows under the keys take part in the fold.
    """
    schema, table = merging.schema, merging.table
    held = merging.held(history_and_soft_delete.touched(changes, schema), table.arrow.names).combine_chunks()
    history = table.mode is Mode.HISTORY
    by_mode = history_and_soft_delete.versions if history else history_and_soft_delete.soft_deleted
    kept = by_mode(changes, held, schema)
    put = pa.concat_tables([shaped(changes, table.arrow), held]).take(pa.array(kept.rows))
    for name, values in kept.own.items():
        place = put.schema.get_field_index(name)
        put = put.set_column(place, put.schema.field(place), values)
    replaced = held.take(pa.array(kept.gone, pa.int64()))
    more = [name for name, _ in table.columns if name not in schema.names]
    if more and not history and replaced.num_rows:
        put = carried(put, replaced, schema, more)
    return put, replaced, kept.new


@dataclass(frozen=True)
class _Newest(StagedEdits):
    """A mirror: the newest change of each key."""

    merging: Merging
    staged: str
    kept: list[str]

    @classmethod
    def of(cls, merging: Merging, changes: pa.Table) -> _Newest:
        schema = merging.schema
        folded = fold(changes, schema)
        kept = [name for name, _ in merging.table.columns if name not in schema.names]
        going = len(folded.seq) - folded.stays.num_rows
        gone = folded.keys.slice(folded.stays.num_rows)
        gone = gone.append_column(SEQUENCE, pa.array(folded.seq[folded.stays.num_rows :], pa.int64()))
        fields = [merging.table.arrow.field(name) for name in (*schema.names, *kept, SEQUENCE)]
        rows = pa.concat_tables([shaped(folded.stays, pa.schema(fields)), shaped(gone, pa.schema(fields))])
        does = pa.array(np.repeat([PUT, DELETE], [folded.stays.num_rows, going]), pa.string())
        return cls(merging, merging.stage(rows.append_column(OPERATION, does)), kept)

    def apply(self) -> Callable[[], Counts]:
        dialect, session, table = self.merging.dialect, self.merging.session, self.merging.table.name
        schema = self.merging.schema
        dialect.drop_older(session, table, self.staged, schema.key)
        if self.kept:
            dialect.carry(session, table, self.staged, schema.key, self.kept)
        updated, deleted = dialect.delete_matching(session, table, self.staged, schema.key)
        names = [*schema.names, *self.kept, SEQUENCE]
        put = dialect.insert(session, table, self.staged, names, marked=True)
        return lambda: Counts(int(put) - int(updated), int(updated), int(deleted))


@dataclass(frozen=True)
class _Versions(StagedEdits):
    """Where rows that go are kept: those under the keys take part in the fold."""

    merging: Merging
    gone: str
    put: str
    names: list[str]
    counts: Counts

    @classmethod
    def of(cls, merging: Merging, changes: pa.Table) -> _Versions:
        put, replaced, new = versions(merging, changes)
        gone = merging.stage(replaced.select([*merging.schema.key, SEQUENCE]))
        counts = Counts(new, put.num_rows - new)
        return cls(merging, gone, merging.stage(put), put.column_names, counts)

    def apply(self) -> Callable[[], Counts]:
        dialect, session, table = self.merging.dialect, self.merging.session, self.merging.table
        dialect.delete_versions(session, table.name, self.gone, self.merging.schema.key)
        dialect.insert(session, table.name, self.put, self.names, marked=False)
        return lambda: self.counts


@dataclass(frozen=True)
class _Multiset(StagedEdits):
    """A table without key: as many equal rows go as are to go."""

    merging: Merging
    removed: str
    added: str
    needed: int

    @classmethod
    def of(cls, merging: Merging, changes: pa.Table) -> _Multiset:
        multiset = keyless.fold(changes, merging.schema)
        places = np.repeat(np.arange(multiset.removed.num_rows), multiset.need)
        removed = multiset.removed.take(pa.array(places, pa.int64()))
        needed = removed.num_rows
        return cls(merging, merging.stage(removed) if needed else "", merging.stage(multiset.added), needed)

    def apply(self) -> Callable[[], Counts]:
        dialect, session, table = self.merging.dialect, self.merging.session, self.merging.table.name
        names = self.merging.schema.names
        if self.needed:
            deleted = dialect.delete_equal(session, table, self.removed, names)
            dialect.require(session, deleted, self.needed, self._diverged)
        added = dialect.insert(session, table, self.added, [*names, SEQUENCE], marked=False)
        return lambda: Counts(int(added), 0, self.needed)

    def _diverged(self, deleted: int) -> TableError:
        lacking, table = self.needed - deleted, self.merging.table.name
        message = f"{table} has diverged from its source: {lacking} of {self.needed} rows to delete were not found."
        return TableError(message, table=str(self.merging.schema.table))
