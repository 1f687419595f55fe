"""One journal entry as rows, inside the transaction that the caller's fence guards (invariant 2).

Names change in the middle of an entry (`RENAME TABLE a TO b, c TO a`), so segments and events are walked in the order
of their sequence numbers, and a name means what it meant there.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from replicator.errors import FenceLost
from replicator.model.identifiers import TableId
from replicator.state.journal import (
    DeadLetter,
    EventKind,
    JournalEntry,
    ReloadRequest,
    SchemaVersion,
    Segment,
    TableEvent,
)
from replicator.state.tables import HALTED, TableState
from webapp.database import clock, without_nul
from webapp.monitoring.dead_letters.services import keys_read, store_dead_letters
from webapp.monitoring.models import Stage
from webapp.replicators import models
from webapp.replicators.bulk import save_many
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.selection.target_names import has_free_name, target_name_as
from webapp.replicators.selectors import table_set
from webapp.replicators.services.partial_snapshots import plan_parts_anew
from webapp.replicators.services.tables import OPEN_RUN, begin_run
from webapp.worker.failure.failures import clear_stage_failure, fail_table
from webapp.worker.store.chunk_admission import admit, meet, reopen, set_bases
from webapp.worker.store.counters import count_captured
from webapp.worker.store.schema_history import excluded_columns, made_by, note_statement, note_version
from webapp.worker.store.snapshot_signals import apply_signals
from webapp.worker.store.table_discovery import make_row
from webapp.worker.store.table_lifecycle import carry_protections, created, dropped, renamed, tracked

Row = ReplicatorTable
_LOADED = frozenset({TableState.LOADING, TableState.RELOADING})
CHANGED = ["last_sequence", "last_chunk_sequence", "schema_version", "keyless", "zero_dates", "dead_letters"]


def write_entry(replicator_id: int, entry: JournalEntry, follows: int | None = None) -> list[str]:
    """Everything of `entry`; returns the raw chunk files that are of no more use once it is committed.

    follows: the number that the entry begins with.  FenceLost where the journal goes on with another one (it was
    restored, or skips some).
    """
    replicator = Replicator.objects.get(pk=replicator_id)
    set_bases(entry.bases)  # first: the same entry may admit the chunk, and the rows below must have it
    meet(replicator_id, entry.plans)
    write = EntryWriter(replicator, entry, _locked_rows(replicator, entry))
    write.run()
    _advance(replicator, entry, follows)
    if entry.signals:
        apply_signals(replicator_id, entry.signals)
    return write.admitted


def _locked_rows(replicator: Replicator, entry: JournalEntry) -> dict[TableId, Row]:
    """Rows of the tables that the entry names, always locked in the same order."""
    names = {segment.table for segment in entry.segments}
    names |= {event.table for event in entry.events}
    names |= {version.schema.table for version in entry.schemas}
    names |= {closed.segment.table for closed in entry.closed if closed.segment is not None}
    names |= {dead_letter.table for dead_letter in entry.dead_letters}
    names |= {request.table for request in entry.reloads} | {table for table, _ in entry.failures}
    names |= {*entry.created, *entry.dropped} | {table for pair in entry.renamed for table in pair}
    wanted = Q(database__in={t.database for t in names}, name__in={t.name for t in names})
    if entry.closed or entry.unplanned:
        keys = Q(pk__in={closed.run for closed in entry.closed}, scope=models.Scope.KEYS)
        runs = models.SnapshotRun.objects.filter(keys | Q(pk__in=entry.unplanned))
        wanted |= Q(pk__in=runs.values("table"))
    if entry.signals:
        wanted = Q(pk__isnull=False)  # which tables they mean is not known yet
    if entry.tracking:
        wanted |= Q(tracked=False)
    elif not names and not entry.signals and not entry.closed and not entry.unplanned:
        return {}
    rows = ReplicatorTable.objects.select_for_update(no_key=True).filter(wanted, replicator=replicator).order_by("id")
    return {row.table_id: row for row in rows}


@dataclass
class EntryWriter:
    """`rows` are the replicator's tables by present name, locked."""

    replicator: Replicator
    entry: JournalEntry
    rows: dict[TableId, Row]
    admitted: list[str] = field(default_factory=list)
    _changed: set[Row] = field(default_factory=set)
    _placed: list[tuple[Row, SchemaVersion]] = field(default_factory=list)
    _moved: dict[int, tuple[Row, int]] = field(default_factory=dict)
    _awaiting: set[Row] = field(default_factory=set)  # to be read again under a plan that capture has not begun

    def run(self) -> None:
        """Structure, segments and events in log order; then chunks, reloads, failures."""
        entry = self.entry
        met = [row for table in sorted(entry.tracking) if (row := self.rows.get(table)) is not None and not row.tracked]
        tracked(self.replicator, met, entry.checkpoint.next_sequence)
        self._awaiting = {row for row in self.rows.values() if not row.tracked and row.table_state in _LOADED}
        if entry.carried:
            carry_protections(self.replicator, entry.carried)
        self._walk(self._segments())
        self._schemas()
        save_many(sorted(self._changed, key=lambda row: row.pk), CHANGED)
        for row in self.rows.values():
            keys_read(row, {closed.run for closed in self.entry.closed})
        reopen(entry.reopened)
        for row, sequence in self._moved.values():
            self._plan_anew(row, sequence)
        for request in entry.reloads:
            self._reload(request)
        self._plan_lost_ones_anew()
        for seen in entry.seen:
            note_statement(self.replicator, seen)
        for table, error in entry.failures:
            row = self.rows.get(table) or self._refused(table)
            if row is not None and row.table_state is not TableState.SKIPPED:
                fail_table(row, Stage.CAPTURE, error, tell_capture=False)

    def _refused(self, table: TableId) -> Row | None:
        """A row for a table that was made while the log was read, and cannot be replicated; None for one that was taken
        out meanwhile.
        """
        return make_row(self.replicator, table) if table in table_set(self.replicator) else None

    def _segments(self) -> list[Segment]:
        """Those of the log, and those of the chunks that are still wanted."""
        segments = list(self.entry.segments)
        present = admit(self.entry.closed)
        for closed in self.entry.closed:
            if (chunk := present.pop((closed.chunk, closed.attempt), None)) is None:
                continue
            if closed.segment is not None:
                segments.append(closed.segment)
            if closed.segment is None or closed.segment.path != chunk.path:
                self.admitted.append(chunk.path)
        return segments

    def _walk(self, segments: list[Segment]) -> None:
        items: list[tuple[int, int, Segment | TableEvent | SchemaVersion | DeadLetter]] = []
        items += [(version.begins, 0, version) for version in self.entry.schemas]
        items += [(segment.first_sequence, 1, segment) for segment in segments]
        items += [(event.sequence, 1, event) for event in self.entry.events if not _premature(event)]
        items += [(dead_letter.sequence, 1, dead_letter) for dead_letter in self.entry.dead_letters]
        bad_rows: list[tuple[Row, DeadLetter]] = []
        new_segments: list[models.SegmentRow] = []
        new_events: list[models.TableEventRow] = []
        for _, _, item in sorted(items, key=lambda found: found[:2]):
            if isinstance(item, SchemaVersion):
                self._place(item)
                continue
            if isinstance(item, DeadLetter):
                if (row := self._named(item.table)) is not None:
                    bad_rows.append((row, item))
                continue
            row = self._row(item)
            if isinstance(item, TableEvent):
                new_events.append(_event_row(self.replicator, row, item))
                self._structure(item, new_events[-1])
            elif row is not None:
                new_segments.append(_segment_row(row, item))
        # A table that was dropped, and whose name another took within this entry, has no row any more (`_structure`).
        models.SegmentRow.objects.bulk_create([one for one in new_segments if one.table.pk])
        models.TableEventRow.objects.bulk_create(
            [one for one in new_events if not one.name or (one.table is not None and one.table.pk)]
        )
        store_dead_letters(bad_rows)
        self._changed |= {row for row, _ in bad_rows if row.pk}

    def _row(self, item: Segment | TableEvent) -> Row | None:
        """The row that the item's name means at this place; None for a database, or a table removed meanwhile."""
        if not item.table.name:
            return None
        row = self.rows.get(item.table)
        if row is None and self._expected(item.table):
            row = self.rows[item.table] = make_row(self.replicator, item.table)
        if row is None:
            return None
        last = item.sequence if isinstance(item, TableEvent) else item.last_sequence
        row.last_sequence = max(row.last_sequence, last)
        if isinstance(item, Segment):
            row.zero_dates += item.replaced
        if isinstance(item, Segment) and item.kind == "chunk":
            row.last_chunk_sequence = max(row.last_chunk_sequence, last)
        self._changed.add(row)
        return row

    def _expected(self, table: TableId) -> bool:
        return table in self.entry.created or any(request.table == table for request in self.entry.reloads)

    def _structure(self, event: TableEvent, written: models.TableEventRow) -> None:
        """Apply a CREATE, DROP or RENAME to the rows.  The event tells the apply loop if a dropped table made room."""
        entry, row = self.entry, self.rows.get(event.table)
        if row is None or (row.table_state is TableState.SKIPPED and event.kind is not EventKind.RENAME_TABLE):
            return
        refused = row.table_state is TableState.FAILED and has_free_name(row)  # its place in the target is taken
        if event.kind is EventKind.CREATE_TABLE and event.table in entry.created and not refused:
            created(row, event.sequence)
            if row in self._awaiting:
                row.tracked = False
                begin_run(
                    row,
                    TableState.LOADING,
                    sequence=event.sequence + 1,
                    reason="its columns, masks or row filter changed",
                )
        elif event.kind is EventKind.DROP_TABLE and event.table in entry.dropped:
            dropped(row, kept=bool(event.detail.get("keep")))
        elif event.kind is EventKind.RENAME_TABLE:
            new = TableId(*event.detail["new"])
            if (event.table, new) in entry.renamed:
                if (other := self.rows.pop(new, None)) is not None:
                    self._changed.discard(other)
                    _make_room(other)
                    written.detail["replaces_dropped"] = True
                self.rows[new] = self.rows.pop(event.table)
                renamed(row, new)
                self._moved[row.pk] = (row, event.sequence)

    def _place(self, version: SchemaVersion) -> None:
        if (row := self._named(version.schema.table)) is not None:
            self._placed.append((row, version))

    def _named(self, table: TableId) -> Row | None:
        """The row that the name means at this place."""
        if table not in self.rows and self._expected(table):
            self.rows[table] = make_row(self.replicator, table)
        return self.rows.get(table)

    def _schemas(self) -> None:
        """New versions, each with the row that its name meant where it began."""
        statements = {(e.table, e.schema_version): e for e in self.entry.events if e.schema_version}
        left_out = excluded_columns(self.replicator) if self._placed else {}
        for row, version in self._placed:
            if row.pk is None:  # another table took its name meanwhile
                continue
            if version.known:
                present = models.SchemaVersion.objects.filter(table=row, version=version.version)
                present.update(schema=without_nul(version.schema.to_dict()))
                continue
            table = version.schema.table
            event = statements.get((table, version.version))
            found = {
                "schema": without_nul(version.schema.to_dict()),
                "statement": without_nul(str(event.detail.get("statement", ""))) if event else "",
                "decision": "applied" if event else "",
                "change": without_nul(made_by(event, left_out.get(table, ()))),
            }
            one = models.SchemaVersion(table=row, version=version.version, **found)
            [stored] = models.SchemaVersion.objects.bulk_create(
                [one], update_conflicts=True, unique_fields=["table", "version"], update_fields=list(found)
            )
            note_version(self.replicator, row, stored)
            if version.version >= (row.schema_version or 0):
                row.schema_version, row.keyless = version.version, not version.schema.key
            self._changed.add(row)

    def _plan_anew(self, row: Row, sequence: int) -> None:
        """A run under way begins again when its table is renamed: its planner asks by name, which may have meant
        another table.

        No row beyond that table's end key would be read, and the sweep would take what is there.
        """
        superseded = any(one.table == row.table_id and not one.again for one in self.entry.reloads)
        if row.pk is None or superseded:
            return
        if row.table_state is TableState.STREAMING:
            plan_parts_anew(row)
            return
        if not row.runs.filter(state__in=OPEN_RUN).exists():
            return
        loading = row.table_state is TableState.LOADING
        begin_run(row, row.table_state, sequence=sequence + loading, reason="it was renamed while it was read")

    def _plan_lost_ones_anew(self) -> None:
        """Runs planned in a past that the source has lost, as far as nothing above has ended them."""
        lost = models.SnapshotRun.objects.filter(pk__in=self.entry.unplanned, state__in=OPEN_RUN)
        for run in lost.order_by("id"):
            row = next((row for row in self.rows.values() if row.pk == run.table_id), None)
            if row is None:
                continue
            if run.partial:
                plan_parts_anew(row)
            else:
                reason = "it was planned at a position that the source has lost"
                begin_run(row, row.table_state, sequence=self.entry.checkpoint.next_sequence, reason=reason)

    def _reload(self, request: ReloadRequest) -> None:
        row = self.rows.get(request.table)
        if row is None:
            row = self.rows[request.table] = make_row(self.replicator, request.table)
        if row.table_state in HALTED:
            return
        if request.again and row.table_state in _LOADED:
            ReplicatorTable.objects.filter(pk=row.pk).update(reload_again=request.reason[:200])
            return
        row.tracked = row not in self._awaiting
        if request.fresh or row.keyless or not row.load_complete:
            begin_run(row, TableState.LOADING, sequence=request.sequence + 1, reason=request.reason)
        else:
            begin_run(row, TableState.RELOADING, sequence=request.sequence, reason=request.reason)


def _make_room(row: Row) -> None:
    """A dropped table's, whose name another takes.

    Its copy is dropped by who has that name then, unless it is called otherwise yet.
    """
    moved = (row.target_namespace, row.target_name, row.target_part) != target_name_as(row, row.table_id)
    if row.table_state is TableState.DROPPED and moved:
        row.name = f"{row.name[:200]}~{row.load[:8]}"
        row.save()
    else:
        row.delete()


def _premature(event: TableEvent) -> bool:
    """A sweep of a run that is not over after all: capture counted on a chunk that was cancelled, or is read again."""
    run = event.detail.get("run") if event.kind is EventKind.SWEEP else None
    return run is not None and not models.SnapshotRun.objects.filter(pk=run, state=models.RunState.DONE).exists()


def _segment_row(row: Row, segment: Segment) -> models.SegmentRow:
    names = (
        "schema_version", "first_sequence", "last_sequence", "path", "rows", "size", "inserts", "updates",
        "deletes", "reads", "first_commit_ts", "last_commit_ts", "bare",
    )  # fmt: skip
    values = {name: getattr(segment, name) for name in names}
    return models.SegmentRow(table=row, kind=segment.kind.value, without=list(segment.without), **values)


def _event_row(replicator: Replicator, row: Row | None, event: TableEvent) -> models.TableEventRow:
    return models.TableEventRow(
        replicator=replicator,
        table=row,
        database=event.table.database,
        name=event.table.name,
        sequence=event.sequence,
        kind=event.kind.value,
        schema_version=event.schema_version,
        detail=without_nul(dict(event.detail)),
        commit_ts=event.commit_ts,
        token=uuid.uuid4().hex,
    )


def _advance(replicator: Replicator, entry: JournalEntry, follows: int | None) -> None:
    """The checkpoint.  It does not change the plan: capture knows what it has written itself."""
    now: datetime = clock()
    values: dict[str, object] = {
        "checkpoint_offset": dict(entry.checkpoint.offset),
        "next_sequence": entry.checkpoint.next_sequence,
        "identity": entry.checkpoint.identity,
        "captured_at": now,
    }
    if entry.source_ts is not None:
        values["source_ts"] = entry.source_ts
    rows = Replicator.objects.filter(pk=replicator.pk)
    if not (rows if follows is None else rows.filter(next_sequence=follows)).update(**values):
        message = f"The journal of {replicator.name} no longer continues with number {follows}."
        raise FenceLost(message)
    count_captured(replicator, entry.segments, now)
    if entry.source_ts is not None:  # it has really read something: the server answers and its log goes on
        Replicator.objects.filter(pk=replicator.pk, status=models.Status.STARTING).update(status=models.Status.RUNNING)
        clear_stage_failure(replicator.pk, Stage.CAPTURE)
