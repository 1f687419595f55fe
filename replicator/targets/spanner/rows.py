"""Append, merge, replace and delete: mutations in the transaction that moves the position.

A commit of Spanner has its limits.  What is beyond them is done in several commits, each with the position that it
reaches: at ends of transactions of the source, as far as one of them fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.cloud.spanner_v1 import Mutation

from replicator.errors import TableError
from replicator.faults import reach
from replicator.folding import changelog, staged_changes
from replicator.folding.unchanged_values import UNBOUNDED, ValuesUnknown
from replicator.model.change import Operation
from replicator.model.mode import CURRENT, DELETED, DELETED_AT, VALID_FROM, VALID_TO, Mode
from replicator.model.schema import COMMIT_TS, OPERATION, SEQUENCE, TXN_ID, TableSchema
from replicator.state.journal import EventKind
from replicator.targets.base import Append, Counts, DeleteBelow, Merge, Position, Replace
from replicator.targets.spanner import connection
from replicator.targets.spanner.dialect import SpannerDialect, of, primary_key
from replicator.targets.spanner.edits import Edits, deleted, edits, stored
from replicator.targets.spanner.failures import TooManyMutations
from replicator.targets.spanner.names import ALIAS, api_name, column_name, quoted
from replicator.targets.spanner.positions import SpannerPositions
from replicator.targets.spanner.schema_update import Rebuild
from replicator.targets.spanner.values import Budget, encoded
from replicator.targets.warehouse import changes as warehouse
from replicator.targets.warehouse.changes import Outcome, RowsByMode
from replicator.targets.warehouse.dialect import Session
from replicator.targets.warehouse.position import OpenTable
from replicator.targets.warehouse.stepwise import moved

Item = TypeVar("Item")


def _to_be_staged() -> None:
    reach("apply.stage.before")


def _to_be_published() -> None:
    reach("apply.publish.before")


def _published() -> None:
    reach("apply.publish.after")


@dataclass(frozen=True)
class SpannerRows(RowsByMode):
    """See `RowsByMode`."""

    positions: SpannerPositions
    dialect: SpannerDialect
    budget: Budget = field(default_factory=Budget)

    def _commit(self, session: Session, table: OpenTable, to: Position, mutations: Sequence[Mutation]) -> OpenTable:
        """One transaction; the table as it is then."""
        move = self.positions.move_to(table, to)
        try:
            self.positions.commit(session, [move], mutations, _to_be_published)
        except TooManyMutations:
            self.budget.refused()
            raise
        _published()
        return replace(table, position=to)

    def _put(
        self, session: Session, table: OpenTable, change: Append | Merge, after: Position, rows: Iterable[pa.Table]
    ) -> int:
        _to_be_staged()
        count = 0
        for piece, last in _with_last(self.budget.gathered(rows)):
            number = pc.max(piece.column(SEQUENCE)).as_py()
            to = after if last else _on_the_way(table.position, change, number)
            table = self._commit(session, table, to, stored(table.name, piece))
            count += piece.num_rows
        if table.position != after:
            self._commit(session, table, after, [])
        return count

    def _merge(self, session: Session, table: OpenTable, change: Merge, after: Position) -> Outcome:
        schema, counts, commits = change.schema, Counts(), 0
        parts = staged_changes.parts(
            self.storage, change.segments, schema, table.position.applied, warehouse.MEMORY,
            timed=True, partial=schema.partial, told_apart=True,
        )  # fmt: skip
        _to_be_staged()
        for part, last in _with_last(self._at_ends(parts)):
            start = 0
            while start < part.num_rows:
                try:
                    stop, made = self._stretch(session, table, change, part.slice(start))
                except ValuesUnknown:
                    return self._merge_as_one(session, table, change, after, counts)
                start += stop
                whole = last and start == part.num_rows
                upto = part.column(SEQUENCE)[start - 1].as_py()
                to = after if whole else _on_the_way(table.position, change, upto)
                table = self._commit(session, table, to, made.made(table.name))
                counts, commits = counts + made.counts, commits + 1
        if table.position != after:
            self._commit(session, table, after, [])
        return _merged(counts, commits), counts

    def _at_ends(self, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The same changes in parts that end where a transaction does, unless one is larger than what is folded."""
        left: pa.Table | None = None
        for part, last in _with_last(parts):
            whole = part if left is None else pa.concat_tables([left, part]).combine_chunks()
            ends = np.flatnonzero(_ends(whole))
            count = whole.num_rows if last else int(ends[-1]) + 1 if len(ends) else 0
            if not count and whole.nbytes > max(warehouse.MEMORY, self.budget.nbytes):
                count = whole.num_rows
            if count:
                yield whole.slice(0, count)
            left = whole.slice(count)

    def _stretch(self, session: Session, table: OpenTable, change: Merge, changes: pa.Table) -> tuple[int, Edits]:
        """How many of the first changes one commit takes, and what they come to.  Raises ValuesUnknown.

        Up to the end of what was read while the table was loaded, if their edits fit: only all of it makes a state that
        the source had.
        """
        schema, emptied = change.schema, change.emptied
        most, least = max(self.budget.mutations // _mutations_of_a_change(table), 1), 0
        together = int(np.searchsorted(changes.column(SEQUENCE).to_numpy(), change.whole_to, "right"))
        while True:
            count = max(_first(changes, most, self.budget.nbytes), least, together)
            try:
                made = self._edits(session, table, schema, changes.slice(0, count), emptied=emptied)
            except ValuesUnknown:
                if count == changes.num_rows:
                    raise
                least = min(2 * count, changes.num_rows)  # a later change may take the place of one that does not tell
                continue
            if count == 1 or self.budget.fits(made.mutations, made.nbytes):
                return count, made
            if together == count:
                together = 0
                continue
            if least:
                return count, self._as_one(made, schema, count)
            most = count // 2  # the target's rows are larger than the changes

    def _edits(
        self, session: Session, table: OpenTable, schema: TableSchema, changes: pa.Table, *, emptied: bool
    ) -> Edits:
        try:
            return edits(of(session), table, schema, changes, emptied=emptied)
        except TableError as error:
            raise self._unless_overtaken(session, table, error) from None

    def _merge_as_one(
        self, session: Session, table: OpenTable, change: Merge, after: Position, counts: Counts
    ) -> Outcome:
        """A value that an UPDATE left out counts only if nothing later takes its place: all are one."""
        schema = change.schema
        (changes,) = staged_changes.parts(
            self.storage, change.segments, schema, table.position.applied, UNBOUNDED, timed=True, partial=True
        )
        try:
            made = self._edits(session, table, schema, changes, emptied=change.emptied)
        except ValuesUnknown:
            raise self._values_lost(session, table, change) from None
        self._commit(session, table, after, self._as_one(made, schema, changes.num_rows).made(table.name))
        return _merged(counts + made.counts, 1), counts + made.counts

    def _as_one(self, made: Edits, schema: TableSchema, changes: int) -> Edits:
        """TableError where one commit does not take them."""
        if not self.budget.fits(made.mutations // 2, made.nbytes // 2):
            message = (
                f"{schema.table}: {changes} changes made while the table was loaded omit unchanged values and cannot be"
                " parted, and Spanner does not take them in one commit."
            )
            remedy = f"ALTER TABLE {schema.table} REPLICA IDENTITY FULL; then resnapshot the table."
            raise TableError(message, table=str(schema.table), remedy=remedy)
        return made

    def replace(self, session: Session, table: OpenTable, change: Replace, after: Position) -> Outcome:
        """See `RowsByMode`.  Rows beyond one commit are put into a table beside it, which then takes its name."""
        rows = self.budget.gathered(self._read(change.segments, change.schema, -1, table.mode))
        _to_be_staged()
        if table.mode is Mode.CHANGELOG:
            return "replace", Counts(self._replace_changelog(session, table, change, after, rows))
        first = next(rows, None)
        second = next(rows, None)
        if second is None:
            mutations = [connection.delete(api_name(table.name), connection.ALL)]
            mutations += [] if first is None else stored(table.name, first)
            self._commit(session, table, after, mutations)
            return "replace", Counts(0 if first is None else first.num_rows)
        assert first is not None
        count = 0
        columns = list(table.fields)
        with Rebuild.of(session, self.positions, table).filling(columns, primary_key(columns, (), one=True)) as beside:
            for piece in (first, second, *rows):
                beside.put(piece)
                count += piece.num_rows
            _to_be_published()
            beside.take_its_place(moved(beside.row, json.loads(str(beside.row["columns"])), after, table.kept))
        _published()
        return "replace (in a new table)", Counts(count)

    def _replace_changelog(
        self, session: Session, table: OpenTable, change: Replace, after: Position, rows: Iterable[pa.Table]
    ) -> int:
        """The rows' numbers are their keys: what was put before a failure is put again."""
        over = of(session).query(f"SELECT 1 FROM {self.dialect.place(table.name)} LIMIT 1")
        count = 0
        for piece in rows:
            table = self._commit(session, table, table.position, stored(table.name, piece))
            count += piece.num_rows
        marker = changelog.marker(change.applied, change.applied + 1, EventKind.SWEEP)
        self._commit(session, table, after, stored(table.name, marker) if over else [])
        return count

    def delete_below(self, session: Session, table: OpenTable, change: DeleteBelow, after: Position) -> Outcome:
        """In several commits where there are many: each finds the rest."""
        _to_be_staged()
        if table.mode is Mode.CHANGELOG:
            marker = changelog.marker(change.upto, change.below, change.operation, change.at)
            self._commit(session, table, after, stored(table.name, marker))
            return "append", Counts(1)
        place, older = self.dialect.place(table.name), f"{quoted(SEQUENCE)} < {int(change.below)}"
        mirror = table.mode is Mode.MIRROR
        if mirror and not of(session).query(f"SELECT 1 FROM {place} AS {ALIAS} WHERE NOT {older} LIMIT 1"):
            ((count,),) = of(session).query(f"SELECT COUNT(*) FROM {place}")
            self._commit(session, table, after, [connection.delete(api_name(table.name), connection.ALL)])
            return "delete", Counts(deleted=count)
        live = {Mode.SOFT_DELETE: f"NOT {quoted(DELETED)} AND ", Mode.HISTORY: f"{quoted(CURRENT)} AND "}
        key = self.dialect.key_of(session, table)
        names = [*key, *[VALID_FROM] * (table.mode is Mode.HISTORY)]
        most, total = max(self.budget.mutations // (len(names) + 2), 1), 0
        fields = pa.schema([table.arrow.field(name) for name in names])
        condition = f"{live.get(table.mode, '')}{older}"
        sql = f"SELECT {self.dialect.listed(names)} FROM {place} AS {ALIAS} WHERE {condition} LIMIT {most}"
        while True:
            rows = of(session).select(sql, {}, fields)
            total += rows.num_rows
            whole = rows.num_rows < most
            mutations = deleted(table.name, rows) if mirror else _ended(table, rows, change.at)
            table = self._commit(session, table, after if whole else table.position, mutations)
            if whole:
                return ("delete", Counts(deleted=total)) if mirror else ("mark", Counts(updated=total))


def _ended(table: OpenTable, rows: pa.Table, at: datetime | None) -> list[Mutation]:
    """Rows that are over.  at: since when; None: now."""
    if not rows.num_rows:
        return []
    then = pa.scalar((at or datetime.now(UTC)).astimezone(UTC), pa.timestamp("us", tz="UTC"))
    if table.mode is Mode.HISTORY:
        begun = rows.column(VALID_FROM)
        ended = rows.drop_columns([VALID_FROM]).append_column(
            VALID_TO, pc.if_else(pc.greater(begun, then), begun, then)
        )
        ended = ended.append_column(CURRENT, pa.repeat(pa.scalar(False), rows.num_rows))  # noqa: FBT003
    else:
        ended = rows.append_column(DELETED, pa.repeat(pa.scalar(True), rows.num_rows))  # noqa: FBT003
        ended = ended.append_column(DELETED_AT, pa.repeat(then, rows.num_rows))
    names = [column_name(name) for name in ended.column_names]
    return [connection.change(api_name(table.name), names, encoded(ended))]


def _merged(counts: Counts, commits: int) -> str:
    how = "merge" if counts.updated or counts.deleted else "append"
    return how if commits < 2 else f"{how} ({commits} commits)"  # noqa: PLR2004


def _on_the_way(at: Position, change: Append | Merge, number: int) -> Position:
    """Within a change, up to this number: its item is the segment that has it, the end of which is still to come."""
    item = next(one.path for one in change.segments if one.last_sequence >= number)
    if isinstance(change, Merge):
        return replace(at, applied=number, item=item)
    return replace(at, loaded=number, item=item)


def _mutations_of_a_change(table: OpenTable) -> int:
    """At most, nearly always."""
    rows = 2 if table.mode is Mode.HISTORY else 1
    return rows * (len(table.fields) + 1)


def _first(changes: pa.Table, most: int, nbytes: int) -> int:
    """How many of the changes one commit takes: up to a transaction's end, unless not even one fits."""
    if changes.num_rows <= most and changes.nbytes <= nbytes:
        return int(changes.num_rows)
    most = min(most, changes.num_rows)
    while most > 1 and changes.slice(0, most).nbytes > nbytes:
        most = (most + 1) // 2
    fitting = np.flatnonzero(_ends(changes)[:most])
    return int(fitting[-1]) + 1 if len(fitting) else most


def _ends(changes: pa.Table) -> npt.NDArray[np.bool_]:
    """Flag the changes that certainly end a transaction of the source; each READ row counts as one."""
    ends = np.zeros(changes.num_rows, np.bool_)
    for name in (TXN_ID, COMMIT_TS):
        told = pc.fill_null(changes.column(name).cast(pa.string()), "").to_numpy(zero_copy_only=False)
        ends[:-1] |= told[1:] != told[:-1]
    read = pc.equal(changes.column(OPERATION), Operation.READ.value).to_numpy(zero_copy_only=False)
    ends[:-1] |= read[:-1]
    return ends


def _with_last(items: Iterable[Item]) -> Iterator[tuple[Item, bool]]:
    """Each with whether it is the last."""
    held: list[Item] = []
    for item in items:
        if held:
            yield held.pop(), False
        held.append(item)
    if held:
        yield held.pop(), True
