"""Capture's view of the state store (`replicator.state.journal.Journal`) on the ORM."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from replicator.faults import reach
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import EXACT_NAMES, TableSet
from replicator.sources.base import KeyRange, Source
from replicator.state.chunks import ChunkToRead, RawChunk
from replicator.state.journal import CapturePlan, Checkpoint, JournalEntry, SchemaVersion, TrackedTable
from replicator.state.lease import Lease
from replicator.state.tables import HALTED, TableState
from webapp.database import clock, fenced, stored
from webapp.replicators import models, selectors
from webapp.replicators.journal_notify import notify_journal
from webapp.replicators.selection.entries import drop_unselected
from webapp.replicators.services.tables import replan
from webapp.replicators.targets import followed_ddl, kind_of
from webapp.worker.store.journal_commit import write_entry
from webapp.worker.store.table_discovery import TooEarly, discover

SNAPSHOT_STATES = (TableState.LOADING.value, TableState.RELOADING.value)
# Asked for each chunk: a statement of Django's takes longer to be put together than to be answered.
OF_CHUNK = (
    "c.id, r.id, t.database, t.name, c.attempt, c.lower, c.upper, c.keys, r.condition, c.keyless"  # for `chunk_of`
)
PARTS = OF_CHUNK.count(",") + 1
CHUNK = """
FROM replicators_chunkrow c JOIN replicators_snapshotrun r ON r.id = c.run_id
  JOIN replicators_replicatortable t ON t.id = r.table_id
WHERE c.id = %s AND c.attempt = %s AND t.replicator_id = %s
"""
TABLE_OF = f"SELECT t.database, t.name {CHUNK} AND c.state <> 'cancelled'"
RAW = f"""
SELECT {OF_CHUNK}, c.schema,
  CASE WHEN t.state = 'reloading' AND r.scope = 'whole' THEN r.start_sequence END,
    CASE WHEN NOT r.plan_met THEN r.plan ELSE '' END,
  c.path, c.rows, c.size, c.seconds, c.base_sequence
{CHUNK} AND c.state = 'read' AND c.schema IS NOT NULL
"""
SKEW = timedelta(minutes=1)
GONE_STATES = (*(state.value for state in HALTED), TableState.DROPPED.value)


class OrmJournal:
    """Bound to one replicator.

    `source` is asked for the tables of whole databases; `discard` deletes raw chunk files.
    """

    def __init__(
        self,
        replicator_id: int,
        source: Source | None = None,
        discard: Callable[[str], None] | None = None,
        journaled: Callable[[], None] = lambda: None,
    ) -> None:
        """Without a source, no table is discovered (tests, stores that only look).

        `journaled` is called after each entry that gives the apply loop something to do.
        """
        self._id = replicator_id
        self._source = source
        self._discard = discard
        self._journaled = journaled
        self._next: int | None = None  # what the next entry begins with, from the first look on
        self._put_off: datetime | None = None  # since when it is too early to discover tables

    @stored
    def plan(self) -> CapturePlan:
        """Not wanted where the replicator is gone, not to run, or failed."""
        replicator = models.Replicator.objects.filter(pk=self._id).first()
        if replicator is None:
            return CapturePlan(-1, wanted=False, tables=TableSet(), tracked=(), checkpoint=None)
        version = replicator.plan_version
        if self._next is None and replicator.checkpoint_offset is not None:
            self._next = replicator.next_sequence
        if self._source is not None and replicator.checkpoint_offset is not None:
            # Only now: a table made before the checkpoint is found here, one made after it in the log.
            self._discover(replicator, self._source)
        wanted = replicator.desired == models.Desired.RUNNING and replicator.status != models.Status.FAILED
        names = EXACT_NAMES
        if self._source is not None and wanted:
            names = self._source.names()
            # What was taken out while an entry was under way may have come back with it, as made or to be read again.
            drop_unselected(replicator, names)
        signals = replicator.parsed_options.signals
        return CapturePlan(
            version=version,
            wanted=wanted,
            tables=names.selection(selectors.table_set(replicator)),
            tracked=tuple(self._tracked()),
            checkpoint=_checkpoint(replicator),
            ddl_policy=followed_ddl(kind_of(replicator), replicator.parsed_options.ddl_actions),
            signals=names.table(signals) if signals else None,
            gone=self._gone(),
            failed=self._failed(),
        )

    def _discover(self, replicator: models.Replicator, source: Source) -> None:
        try:
            discover(replicator, source, patient=not self._told(replicator.source_ts))
            self._put_off = None
        except TooEarly:
            self._put_off = self._put_off or clock()

    def _told(self, source_ts: datetime | None) -> bool:
        """True once the log has reported all that happened before the first postponed look, allowing for `SKEW`."""
        return self._put_off is not None and source_ts is not None and source_ts > self._put_off + SKEW

    def _tracked(self) -> list[TrackedTable]:
        rows = list(models.ReplicatorTable.objects.filter(replicator_id=self._id).exclude(state__in=GONE_STATES))
        schemas = _newest_schemas(rows)
        runs = _present_runs(self._id)
        tracked = []
        for row in rows:
            run = runs.get(row.pk) if row.state in SNAPSHOT_STATES else None
            tracked.append(
                TrackedTable(
                    table=row.table_id,
                    state=row.table_state,
                    schema=schemas.get(row.pk),
                    run=run.pk if run else None,
                    live_from=row.live_from,
                    followed=row.tracked,
                    dead_letters=_waiting(row, run),
                )
            )
        return tracked

    def _gone(self) -> dict[TableId, int]:
        rows = models.ReplicatorTable.objects.filter(replicator_id=self._id, state__in=GONE_STATES)
        return {row.table_id: row.schema_version for row in rows if row.schema_version is not None}

    def _failed(self) -> dict[TableId, SchemaVersion | None]:
        rows = list(models.ReplicatorTable.objects.filter(replicator_id=self._id, state=TableState.FAILED.value))
        versions = _newest_schemas(rows)
        return {row.table_id: versions.get(row.pk) for row in rows}

    @stored
    def plan_version(self) -> int:
        """-1 where the replicator is gone."""
        version = models.Replicator.objects.filter(pk=self._id).values_list("plan_version", flat=True).first()
        return -1 if version is None else version

    @stored
    def commit(self, lease: Lease, entry: JournalEntry) -> None:
        """Invariant 2: one transaction, guarded by the fence."""
        with fenced(lease):
            reach("journal.begun")
            admitted = write_entry(self._id, entry, self._next)
            reach("journal.written")
            if self._put_off is not None and (entry.carried or entry.dropped or self._told(entry.source_ts)):
                replan(models.Replicator(pk=self._id))
            if news := bool(entry.segments or entry.events or entry.closed):
                notify_journal(self._id)
            if self._discard is not None:
                for path in admitted:
                    transaction.on_commit(_later(self._discard, path), robust=True)
        self._next = entry.checkpoint.next_sequence
        if news:
            self._journaled()

    @stored
    def state(self, table: TableId) -> TableState | None:
        """None for a table that is not the replicator's."""
        rows = models.ReplicatorTable.objects.filter(replicator_id=self._id, database=table.database, name=table.name)
        row = rows.only("state").first()
        return row.table_state if row is not None else None

    @stored
    def remaining_chunks(self, run: int) -> int | None:
        """None while planning goes on."""
        row = models.SnapshotRun.objects.filter(pk=run).first()
        if row is None or not row.planned_all:
            return None
        return row.chunks.exclude(state__in=(models.ChunkState.DONE, models.ChunkState.CANCELLED)).count()


def _later(discard: Callable[[str], object], path: str) -> Callable[[], object]:
    return lambda: discard(path)


class OrmRawChunkStore:
    """Capture's view of raw chunks (`replicator.state.chunks.RawChunkStore`)."""

    def __init__(self, replicator_id: int) -> None:
        """Bound to one replicator."""
        self._id = replicator_id

    @stored
    def raw(self, chunk: int, attempt: str) -> RawChunk | None:
        """None where the attempt is no longer the chunk's present one."""
        with connection.cursor() as cursor:
            cursor.execute(RAW, [chunk, attempt, self._id])
            found = cursor.fetchone()
        if found is None:
            return None
        schema, reload_from, plan, path, rows, size, seconds, base = found[PARTS:]
        known = TableSchema.from_dict(json.loads(schema))
        return RawChunk(chunk_of(found[:PARTS]), path, rows, size, seconds, known, base, reload_from, plan)

    @stored
    def table_of(self, chunk: int, attempt: str) -> TableId | None:
        """The chunk's table under its present name; None for a cancelled chunk, or where this is not its present
        attempt.
        """
        with connection.cursor() as cursor:
            cursor.execute(TABLE_OF, [chunk, attempt, self._id])
            name = cursor.fetchone()
        return TableId(*name) if name else None


def chunk_of(found: Sequence[Any], *, staged: bool = False) -> ChunkToRead:
    """Of the columns `OF_CHUNK`, as a cursor gives them."""
    pk, run, database, name, attempt, *texts, keys, condition, keyless = found
    lower, upper = (None if text is None else json.loads(text) for text in texts)
    bounds = bounds_of(lower, upper, json.loads(keys), condition)
    return ChunkToRead(pk, run, TableId(database, name), attempt, bounds, keyless, staged)


def bounds_of(
    lower: list[str] | None, upper: list[str] | None, keys: Sequence[Sequence[str]], condition: str
) -> KeyRange:
    """A chunk's key range, or keys, as its row has them, and the condition of its run."""
    return KeyRange(_key(lower), _key(upper), tuple(map(tuple, keys)), condition)


def _key(value: list[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _checkpoint(replicator: models.Replicator) -> Checkpoint | None:
    if replicator.checkpoint_offset is None:
        return None
    return Checkpoint(replicator.checkpoint_offset, replicator.next_sequence, replicator.identity)


def _newest_schemas(rows: list[models.ReplicatorTable]) -> dict[int, SchemaVersion]:
    """By table id, under the table's present name."""
    wanted = {row.pk: row for row in rows if row.schema_version is not None}
    found = (
        models.SchemaVersion.objects.filter(table_id__in=wanted).order_by("table_id", "-version").distinct("table_id")
    )
    return {
        one.table_id: SchemaVersion(one.version, replace(one.parsed, table=wanted[one.table_id].table_id))
        for one in found
    }


def _waiting(row: models.ReplicatorTable, run: models.SnapshotRun | None) -> int:
    """Dead-letter rows of a table, without those that the run under way brings."""
    if not row.dead_letters or run is None or row.state not in SNAPSHOT_STATES:
        return row.dead_letters
    return row.dead_letter_rows.filter(resolved_at=None, sequence__gte=run.start_sequence).count()


def _present_runs(replicator_id: int) -> dict[int, models.SnapshotRun]:
    """The newest run of each whole table that was not cancelled."""
    runs = models.SnapshotRun.objects.filter(table__replicator_id=replicator_id, scope=models.Scope.WHOLE).filter(
        ~Q(state=models.RunState.CANCELLED)
    )
    return {run.table_id: run for run in runs.order_by("id")}
