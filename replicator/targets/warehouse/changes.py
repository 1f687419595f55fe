"""Append, merge, replace and delete: what changes rows.  Each is one transaction with the position, or nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import SupportsInt

import pyarrow as pa

from replicator.errors import TargetConflict, TidemarkError, ValuesLost
from replicator.faults import reach
from replicator.folding import changelog, staged_changes
from replicator.folding.unchanged_values import UNBOUNDED, ValuesUnknown
from replicator.model.mode import CURRENT, DELETED, DELETED_AT, VALID_FROM, VALID_TO, Mode
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import EventKind, Segment
from replicator.targets.base import (
    Append,
    Counts,
    DeleteBelow,
    Merge,
    Position,
    Replace,
)
from replicator.targets.warehouse import folds
from replicator.targets.warehouse.dialect import Dialect, Session
from replicator.targets.warehouse.folds import Merging
from replicator.targets.warehouse.position import OpenTable, Positions

MEMORY = 128 * 1024 * 1024  # of changes that are folded at a time
SKIPPED = "skip"
Outcome = tuple[str, Counts]


def changes_read() -> None:
    reach("apply.read.after")


def _to_be_staged() -> None:
    reach("apply.stage.before")


@contextmanager
def published(session: Session) -> Iterator[None]:
    """What the block does is visible at its end, all at once."""
    with session.transaction():
        yield
        reach("apply.publish.before")
    reach("apply.publish.after")


@dataclass(frozen=True)
class RowsByMode(ABC):
    """Changes of rows of one replicator's tables, as the mode says.

    The changes, and where they leave the table, are those of `targets.base.remaining`.
    """

    positions: Positions
    storage: Storage

    def append(self, session: Session, table: OpenTable, change: Append, after: Position) -> Outcome:
        """READ rows, as they are."""
        rows = self._read(change.segments, change.schema, table.position.loaded, table.mode)
        return "append", Counts(self._put(session, table, change, after, rows))

    def merge(self, session: Session, table: OpenTable, change: Merge, after: Position) -> Outcome:
        """Fold, and apply.

        In parts: a batch that is cut anywhere gives the same rows (ADR 25).  A value that an UPDATE left out may be
        where only a later part tells that it does not count: then all are one.
        """
        if table.mode is Mode.CHANGELOG:
            return "append", Counts(self._put(session, table, change, after, self._unfolded(table, change)))
        return self._merge(session, table, change, after)

    @abstractmethod
    def replace(self, session: Session, table: OpenTable, change: Replace, after: Position) -> Outcome:
        """The rows become exactly those of the segments; a changelog gets them, and a marker of what is over."""

    @abstractmethod
    def delete_below(self, session: Session, table: OpenTable, change: DeleteBelow, after: Position) -> Outcome:
        """Rows with a smaller number go, or end."""

    @abstractmethod
    def _merge(self, session: Session, table: OpenTable, change: Merge, after: Position) -> Outcome:
        """Of any mode but the changelog."""

    @abstractmethod
    def _put(
        self, session: Session, table: OpenTable, change: Append | Merge, after: Position, rows: Iterable[pa.Table]
    ) -> int:
        """Rows of the change, in the order of their numbers, without looking at the table; how many."""

    def _read(self, segments: Sequence[Segment], schema: TableSchema, above: int, mode: Mode) -> Iterator[pa.Table]:
        for segment in segments:
            for batch in staged_changes.rows(self.storage, segment, schema, above):
                yield staged_changes.as_read(batch, segment, mode)

    def _unfolded(self, table: OpenTable, change: Merge) -> Iterator[pa.Table]:
        for segment in change.segments:
            yield from staged_changes.unfolded(self.storage, segment, change.schema, table.position.applied)

    def _values_lost(self, session: Session, table: OpenTable, change: Merge) -> TidemarkError:
        """What an UPDATE left out is nowhere; or another worker's commit has changed the rows meanwhile."""
        message = (
            f"{table.name} has diverged from its source: changed rows have values that the source's log omitted as"
            " unchanged and that are missing in the target."
        )
        return self._unless_overtaken(session, table, ValuesLost(message, table=str(change.schema.table)))

    def _unless_overtaken(self, session: Session, table: OpenTable, error: TidemarkError) -> TidemarkError:
        """What is wrong with the rows that were read outside of the transaction; a conflict where another worker has
        committed since.
        """
        now = self.positions.look(session, table.name)
        if now is None or now.position != table.position:
            return TargetConflict(f"Another worker committed to {table.name}.", table=str(table.name))
        return error


@dataclass(frozen=True)
class RowChanges(RowsByMode):
    """By the statements of an SQL dialect."""

    dialect: Dialect

    def _merge(self, session: Session, table: OpenTable, change: Merge, after: Position) -> Outcome:
        try:
            counts = self._fold(session, table, change, after, MEMORY)
        except ValuesUnknown:
            self.dialect.discard(session)
            counts = self._fold_as_one(session, table, change, after)
        return "merge" if counts.updated or counts.deleted else "append", counts

    def replace(self, session: Session, table: OpenTable, change: Replace, after: Position) -> Outcome:
        """See `RowsByMode`."""
        rows = self._read(change.segments, change.schema, -1, table.mode)
        place = self.dialect.place(table.name)
        deleted: SupportsInt = 0
        _to_be_staged()
        with published(session):
            if table.mode is not Mode.CHANGELOG:
                self.positions.move(session, table, after)
                deleted = self.dialect.delete_all(session, table.name)
                inserted = self._load(session, table, rows)
            else:
                over = session.query(f"SELECT 1 FROM {place} LIMIT 1")
                inserted = self._load(session, table, rows)
                if over:
                    marker = changelog.marker(change.applied, change.applied + 1, EventKind.SWEEP)
                    self._load(session, table, [marker])
                self.positions.move(session, table, after)
        return "replace", Counts(inserted, 0, int(deleted))

    def delete_below(self, session: Session, table: OpenTable, change: DeleteBelow, after: Position) -> Outcome:
        """See `RowsByMode`."""
        _to_be_staged()
        with published(session):
            self.positions.move(session, table, after)
            outcome = self._deleted_below(session, table, change)
        return outcome()

    def _deleted_below(self, session: Session, table: OpenTable, change: DeleteBelow) -> Callable[[], Outcome]:
        """The outcome is known once the transaction has ended."""
        place, below = self.dialect.place(table.name), self.dialect.literal(change.below)
        sequence, deleted, deleted_at, start, end, current = map(
            self.dialect.quoted, (SEQUENCE, DELETED, DELETED_AT, VALID_FROM, VALID_TO, CURRENT)
        )
        at = self.dialect.literal((change.at or datetime.now(UTC)).astimezone(UTC))
        match table.mode:
            case Mode.MIRROR:
                deleted_rows = session.execute(f"DELETE FROM {place} WHERE {sequence} < {below}")
                return lambda: ("delete", Counts(deleted=int(deleted_rows)))
            case Mode.CHANGELOG:
                marker = changelog.marker(change.upto, change.below, change.operation, change.at)
                loaded = session.load(place, marker, table.name)
                return lambda: ("append", Counts(loaded))
            case Mode.SOFT_DELETE:
                ends = f"{deleted} = TRUE, {deleted_at} = {at} WHERE NOT {deleted}"
            case Mode.HISTORY:
                last = f"CASE WHEN {start} > {at} THEN {start} ELSE {at} END"
                ends = f"{end} = {last}, {current} = FALSE WHERE {current}"
        updated = session.execute(f"UPDATE {place} SET {ends} AND {sequence} < {below}")
        return lambda: ("mark", Counts(updated=int(updated)))

    def _reserved(self, merging: Merging, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The first part is given out once it is known whether the transaction will stage others."""
        if not self.dialect.stepwise:
            yield from parts
            return
        first = next(parts, None)
        if first is None:
            return
        if (second := next(parts, None)) is not None:
            self.dialect.reserve(merging.session, merging.table.name)
        yield first
        if second is not None:
            yield second
        yield from parts

    def _put(
        self, session: Session, table: OpenTable, change: Append | Merge, after: Position, rows: Iterable[pa.Table]
    ) -> int:
        """Insert rows: no reader sees them before the commit, and the position is not locked while they are sent."""
        del change
        _to_be_staged()
        with published(session):
            count = self._load(session, table, rows)
            self.positions.move(session, table, after)
        return count

    def _load(self, session: Session, table: OpenTable, rows: Iterable[pa.Table]) -> int:
        place = self.dialect.place(table.name)
        return sum(session.load(place, one, table.name) for one in rows)

    def _fold_as_one(self, session: Session, table: OpenTable, change: Merge, after: Position) -> Counts:
        try:
            return self._fold(session, table, change, after, UNBOUNDED)
        except ValuesUnknown:
            raise self._values_lost(session, table, change) from None

    def _fold(self, session: Session, table: OpenTable, change: Merge, after: Position, memory: int) -> Counts:
        """The first part is staged before the transaction begins, so that no lock waits for files and network."""
        schema = change.schema
        merging = Merging(table, schema, self.dialect, session)
        parts = staged_changes.parts(
            self.storage, change.segments, schema, table.position.applied, memory,
            timed=table.mode is not Mode.MIRROR, partial=schema.partial,
        )  # fmt: skip
        staged = (folds.stage(merging, part, emptied=change.emptied) for part in self._reserved(merging, parts))
        _to_be_staged()
        edits = next(staged, None)
        with published(session):
            self.positions.move(session, table, after)
            counts = []
            while edits is not None:
                counts.append(edits.apply())
                edits = next(staged, None)
        return sum((one() for one in counts), Counts())
