"""The apply loop's view of the state store (`replicator.state.journal.ApplyStore`) on the ORM."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial, reduce
from operator import or_
from typing import Any

from django.db import connection
from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, Sum, When
from django.db.models.functions import Greatest

from replicator.engine.apply.table_applier import BEHIND
from replicator.errors import StateError, TableDisappeared, TidemarkError
from replicator.faults import reach
from replicator.model.identifiers import TableId
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.state.journal import Applied, ApplyTable, EventKind, Place, Segment, SegmentKind, TableEvent
from replicator.state.lease import Lease
from replicator.state.tables import HALTED, TableState, may_move
from webapp.database import NOW, clock, fenced, stored
from webapp.monitoring.dead_letters.services import read_anew
from webapp.monitoring.models import Stage, TableObjective
from webapp.monitoring.services import note
from webapp.replicators import models
from webapp.replicators.journal import segment_of
from webapp.replicators.models import Replicator, ReplicatorTable, RunState
from webapp.replicators.selection.target_names import target_name_as, target_name_of
from webapp.replicators.services.tables import begin_run, clear_error
from webapp.worker.failure.failures import table_attempt_failed
from webapp.worker.store.applied_segments import mark_applied
from webapp.worker.store.commit_lag import count_late, read_times
from webapp.worker.store.counters import count_applied

ITEMS = 2000
_ANY_REPLICATOR = -(2**62)  # stands for a replicator's key in a statement; no other value of it is equal
MILLISECOND = timedelta(milliseconds=1)
# Changes that were journaled long after their commit (`BEHIND`) wait until there are ENOUGH of a table, for GATHER at
# most, and only while more arrive (within STILL).
ENOUGH, GATHER, STILL = 100_000, timedelta(seconds=10), timedelta(seconds=1.5)
ONCE: Mapping[str, Any] = {"update_conflicts": True, "unique_fields": ["table"], "update_fields": ["since"]}
STRUCTURE = """
SELECT count(*), coalesce(sum(hashtextextended(
    jsonb_build_array(id, database, name, target_namespace, target_name, target_part, load,
                      state = %s AND error_code = %s)::text, 0)), 0)
FROM replicators_replicatortable WHERE replicator_id = %s
"""
GONE = {"state": TableState.FAILED.value, "error_code": TableDisappeared.code}  # the source has it no more
LOADS = (TableState.LOADING, TableState.RELOADING)
LIVE = (TableState.LOADING.value, TableState.RELOADING.value, TableState.STREAMING.value, TableState.DROPPED.value)


@dataclass(frozen=True)
class _Turn:
    """A table's: the row, the load and the end of the journal that it began with, and the load that the target had
    then.

    failed: the one before had.
    given: the segments that were handed out and are not marked yet, by path: their commit times are read before the
    mark's transaction.
    shared: the target table that it shares with others (`_shared`).
    """

    pk: int
    load: str
    made_load: str
    end: int
    failed: bool
    given: dict[str, Segment] = field(default_factory=dict)
    shared: tuple[str, str] | None = None


class OrmApplyStore:
    """Bound to one replicator.

    A table that was renamed during its turn is still found under the name the turn began with.
    """

    def __init__(self, replicator_id: int, *, gather: bool = False) -> None:
        """`tables` begins turns.

        gather: while capture is far behind, tables wait a little for more (`_gathered`).
        """
        self._id, self._gather = replicator_id, gather
        self._turns: dict[TableId, _Turn] = {}
        self._structure: tuple[int, int] | None = None
        self._generations: dict[str, int] = {}

    @stored
    def tables(
        self, busy: Collection[TableId] = (), *, without: Collection[TableId] = (), most: int | None = None
    ) -> list[ApplyTable]:
        """See `ApplyStore`."""
        self._turns = {table: turn for table, turn in self._turns.items() if table in busy}
        rows = self._due({turn.pk for turn in self._turns.values()}, {*busy, *without}, most)
        if not rows:
            return []
        structure = _structure(self._id)
        if structure != self._structure:
            if busy:
                return []
            self._structure, self._generations = structure, _generations(self._id)
        runs = _present_runs(rows)
        # After the runs: a run that is complete has all its chunks below the end of the turn.
        found = ReplicatorTable.objects.filter(pk__in=[row.pk for row in rows])
        ends = {pk: (state, last) for pk, state, last in found.values_list("pk", "state", "last_sequence")}
        owner = Replicator.objects.only("uid", "target").get(pk=self._id)
        for row in rows:
            row.replicator = owner
            end = _end(row, *ends.get(row.pk, ("", -1)))
            failed, shared = row.retry_at is not None, _shared(row)
            self._turns[row.table_id] = _Turn(row.pk, row.load, row.made_load, end, failed, shared=shared)
        return [_apply_table(row, runs.get(row.pk), self._generations) for row in rows]

    def _due(self, busy: set[int], left_out: set[TableId], most: int | None) -> list[ReplicatorTable]:
        """By the oldest segment that waits; tables without any (there are events, or a load is over) first: that is
        soon done.

        Of those that share a target table, one: the others would wait for its commit, and keep the rest from working.
        """
        statement, values = _due_statement()
        values = tuple(self._id if value == _ANY_REPLICATOR else value for value in values)
        limit = None if most is None else most + len(busy) + len(left_out)
        while True:
            read = list(ReplicatorTable.objects.raw(statement, (*values, limit)))
            rows = _gathered(read) if self._gather else read
            free = [row for row in rows if row.pk not in busy and row.table_id not in left_out]
            found = _one_of_each(free, {turn.shared for turn in self._turns.values()})[:most]
            if limit is None or len(read) < limit or len(found) == most:
                return found
            if len(rows) == len(read) and len(found) == len(free):
                return found
            limit = None  # those that share one, or gather, may be many

    @stored
    def turned(self, lease: Lease, table: TableId) -> None:
        """It has not failed, so it exists in the target with its present load; and what had failed before is over."""
        turn = self._turns.get(table)
        if turn is None or (turn.made_load == turn.load and not turn.failed):
            return
        with fenced(lease):
            row = self._locked(table)
            if row is None or row.load != turn.load or row.table_state in HALTED:
                return
            if row.schema_version is not None:
                row.made_load = turn.load
            if row.attempt:
                clear_error(row)
            row.save()

    @stored
    def items(self, table: TableId, after: int, *, chunks_only: bool = False) -> list[Segment | TableEvent]:
        """In sequence order, whole up to the last one returned."""
        turn = self._turns.get(table)
        if turn is None or after >= turn.end:
            return []
        pk, end = turn.pk, turn.end
        span = {"table_id": pk, "last_sequence__gt": after, "last_sequence__lte": end}
        segments = models.SegmentRow.objects.filter(**span).order_by("first_sequence")
        if chunks_only:
            return [segment_of(table, row) for row in segments.filter(kind=SegmentKind.CHUNK.value)[:ITEMS]]
        span = {"table_id": pk, "sequence__gt": after, "sequence__lte": end}
        events = models.TableEventRow.objects.filter(**span).order_by("sequence")
        found: list[tuple[int, Segment | TableEvent]] = []
        for row in segments[:ITEMS]:
            segment = segment_of(table, row)
            found.append((row.first_sequence, segment))
            if row.applied_at is None:
                turn.given[row.path] = segment
        found += [(row.sequence, _event(row)) for row in events[:ITEMS]]
        return [item for _, item in sorted(found, key=lambda pair: pair[0])[:ITEMS]]

    @stored
    def holders(self, table: TableId, sequences: Collection[int]) -> set[str]:
        """See `ApplyStore`."""
        pk = self._pk(table)
        within = [Q(first_sequence__lte=one, last_sequence__gte=one) for one in sequences]
        segments = models.SegmentRow.objects.filter(reduce(or_, within), table_id=pk)
        events = models.TableEventRow.objects.filter(table_id=pk, sequence__in=sequences)
        return {*segments.values_list("path", flat=True), *events.values_list("token", flat=True)}

    @stored
    def skip(self, upto: int) -> None:
        """Capture, whose next entry would begin elsewhere, starts again with it (`journal_commit`)."""
        Replicator.objects.filter(pk=self._id, next_sequence__lte=upto).update(next_sequence=upto + 1)

    @stored
    def schema(self, table: TableId, version: int) -> TableSchema:
        """Under the name that the pass knows the table by."""
        row = models.SchemaVersion.objects.filter(table_id=self._pk(table), version=version).first()
        if row is None:
            message = f"The journal has no schema version {version} of {table}."
            raise StateError(message, table=str(table))
        return replace(row.parsed, table=table)

    @stored
    def applied(self, lease: Lease, result: Applied) -> None:
        """The mark follows the target, which has the last word (invariant 3)."""
        times = read_times(self._taken_back(result))  # before anything is locked: files may lie far away
        with fenced(lease):
            row = self._locked(result.table)
            if row is None:
                return
            further = result.applied > row.applied or result.loaded > row.loaded
            same_load = self._load(result.table) == row.load  # else it was begun again during this turn
            applied, loaded = max(row.applied, result.applied), max(row.loaded, result.loaded)
            row.applied, row.loaded = applied, loaded if same_load else row.loaded
            covered = mark_applied(row, applied, loaded)
            row.rows_read += covered.reads
            row.rows_inserted += covered.inserts
            row.rows_updated += covered.updates
            row.rows_deleted += covered.deletes
            if (newest := covered.last_commit_ts) is not None:
                row.applied_commit_ts, row.queryable_at = newest, result.queryable_at
                row.lag_ms = max(0, (result.queryable_at - newest) // MILLISECOND)
            if row.attempt and further:
                clear_error(row)
            if same_load:
                if result.gone:
                    row.load = ""  # who needs the name takes it from what a stale worker makes yet
                row.made_load = row.load
                self._made(result.table)
            if counts := bool(covered.reads + covered.changes):
                row.merges, row.merge_seconds = row.merges + 1, row.merge_seconds + result.seconds
            if result.state is not None:
                self._change(row, result.state, self._load(result.table))
            row.save()
            if counts:
                count_applied(row, covered, result)
                count_late(row, covered, result, times)
            _read_again(row)
            reach("apply.mark.written")

    @stored
    def superseded(self, table: TableId) -> bool:
        """See `ApplyStore`."""
        turn = self._turns.get(table)
        return turn is not None and not ReplicatorTable.objects.filter(pk=turn.pk, load=turn.load).exists()

    @stored
    def move(self, lease: Lease, table: TableId, state: TableState, target: Place | None = None) -> None:
        """A state that changed meanwhile (a reload asked from outside, a failure) wins over the end of a load."""
        with fenced(lease):
            row = self._locked(table)
            if row is None:
                return
            if target is not None:
                row.target_namespace, row.target_name, row.target_part = target
            self._change(row, state, self._load(table))
            row.save()
            _read_again(row)

    @staticmethod
    def _change(row: ReplicatorTable, state: TableState, load: str) -> None:
        """Its state, of a turn that began with this load; does not save."""
        old = row.table_state
        # A turn ends loads, nothing else: what was dropped or failed meanwhile stays so.
        if state is old or old not in LOADS or not may_move(old, state) or _overtaken(row, state, load):
            return
        row.state = state.value
        if state is TableState.STREAMING:
            row.load_complete = True
            read_anew(row)
            if old is TableState.LOADING:  # from here on its objective holds
                TableObjective.objects.bulk_create([TableObjective(table=row, since=clock())], **ONCE)
            summary = f"{row} snapshot complete, streaming"
            note(replicator=row.replicator, kind="streaming", summary=summary, table=str(row))

    @stored
    def failed(self, lease: Lease, table: TableId, error: TidemarkError) -> None:
        """A later retry or FAILED, by the replicator's policy."""
        with fenced(lease):
            row = self._locked(table)
            if row is not None and row.table_state not in HALTED:
                table_attempt_failed(row, Stage.APPLY, error)

    def _taken_back(self, result: Applied) -> list[Segment]:
        """What the mark covers of the segments that were handed out."""
        turn = self._turns.get(result.table)
        if turn is None:
            return []
        covered = [one for one in turn.given.values() if one.last_sequence <= result.applied]
        for one in covered:
            del turn.given[one.path]
        return covered

    def _made(self, table: TableId) -> None:
        """`turned` need not say so once more."""
        turn = self._turns[table]
        self._turns[table] = replace(turn, made_load=turn.load)

    def _pk(self, table: TableId) -> int:
        turn = self._turns.get(table)
        return -1 if turn is None else turn.pk

    def _load(self, table: TableId) -> str:
        return self._turns[table].load

    def _locked(self, table: TableId) -> ReplicatorTable | None:
        rows = ReplicatorTable.objects.select_for_update(no_key=True, of=("self",))
        rows = rows.select_related("replicator", "objective")
        return rows.filter(pk=self._pk(table)).first()


def _shared(row: ReplicatorTable) -> tuple[str, str] | None:
    """The target table, by namespace and name, that it shares with others; None where it has one for itself."""
    return (row.target_namespace, row.target_name) if row.target_part else None


def _one_of_each(rows: Sequence[ReplicatorTable], busy: Collection[tuple[str, str] | None]) -> list[ReplicatorTable]:
    """Those whose target table no turn is at, nor that of one before them."""
    found, taken = [], set(busy)
    for row in rows:
        shared = _shared(row)
        if shared is None or shared not in taken:
            found.append(row)
            taken.add(shared)
    return found


def _gathered(rows: Sequence[Any]) -> list[ReplicatorTable]:
    """Without those that stream changes of long ago while more of them come in: fewer and larger commits catch up
    sooner, and nothing is fresh before all is in.

    rows: tables, with what `_due_statement` says of them.
    """
    comes = any(row.newest is not None and row.now - row.newest < STILL for row in rows)
    return [row for row in rows if not (comes and _may_wait(row, row.rows, row.since, row.committed, row.now))]


def _may_wait(
    row: ReplicatorTable, rows: int, since: datetime | None, committed: datetime | None, now: datetime
) -> bool:
    if row.table_state is not TableState.STREAMING or row.retry_at is not None or since is None or committed is None:
        return False
    return since - committed > BEHIND and now - since < GATHER and rows < ENOUGH


@cache
def _due_statement() -> tuple[str, tuple[Any, ...]]:
    """Made once: it is asked for all the time, and the ORM takes ten times as long to make it as Postgres to answer."""
    loading = When(state=TableState.LOADING.value, then=F("loaded"))
    waiting = models.SegmentRow.objects.filter(table=OuterRef("pk"), last_sequence__gt=OuterRef("done"))
    since, committed = (
        Subquery(waiting.order_by("last_sequence").values(name)[:1]) for name in ("created_at", "last_commit_ts")
    )
    newest = Subquery(waiting.order_by("-last_sequence").values("created_at")[:1])
    found = with_work(_ANY_REPLICATOR).annotate(done=Case(loading, default=Greatest("applied", "live_from")))
    many = Subquery(waiting.order_by().values("table").annotate(many=Sum("rows")).values("many"))
    found = found.annotate(since=since, committed=committed, newest=newest, rows=many, now=NOW)
    rows = found.order_by(F("since").asc(nulls_first=True), "id")
    statement, values = rows.query.sql_with_params()
    return f"{statement} LIMIT %s", values


def with_work(replicator_id: int | None) -> QuerySet[ReplicatorTable]:
    """Tables, of a replicator or of all, that the apply loop has something to do for."""
    done = Greatest("applied", "live_from")
    runs = models.SnapshotRun.objects.filter(scope=models.Scope.WHOLE)
    complete = runs.filter(state=RunState.DONE).values("table_id")
    still_open = runs.filter(state__in=(RunState.PLANNING, RunState.READING)).values("table_id")
    loading = Q(state=TableState.LOADING.value)
    loaded = Q(pk__in=complete) & ~Q(pk__in=still_open)
    tables = ReplicatorTable.objects.filter(state__in=LIVE)
    if replicator_id is not None:
        tables = tables.filter(replicator_id=replicator_id)
    return tables.filter(Q(retry_at=None) | Q(retry_at__lte=NOW)).filter(
        (~loading & Q(last_sequence__gt=done))
        | (loading & Q(keyless=False, last_chunk_sequence__gt=F("loaded")))
        | (loading & loaded)
        | (Q(state=TableState.STREAMING.value, schema_version__isnull=False) & ~Q(made_load=F("load")))
        | Q(retry_at__isnull=False)  # what failed is tried again
        | (~Q(own_name="") & ~Q(own_name=F("target_name"), own_namespace=F("target_namespace")))
    )


def loads(replicator_id: int) -> bool:
    """An initial load is under way: there is, or will be, something to apply."""
    return ReplicatorTable.objects.filter(replicator_id=replicator_id, state=TableState.LOADING.value).exists()


def _read_again(row: ReplicatorTable) -> None:
    """What was asked for while another run was under way (`ReloadRequest.again`), once that is over."""
    if row.table_state is not TableState.STREAMING or not row.reload_again:
        return
    reason, row.reload_again = row.reload_again, ""
    state = TableState.LOADING if row.keyless else TableState.RELOADING
    begin_run(row, state, sequence=None, reason=reason)


def _overtaken(row: ReplicatorTable, state: TableState, load: str) -> bool:
    """The end of a load that is no longer the present one, or of a reload whose run was started over."""
    if state is not TableState.STREAMING:
        return False
    still_open = row.runs.filter(state__in=(RunState.PLANNING, RunState.READING), scope=models.Scope.WHOLE)
    return row.load != load or still_open.exists()


def _end(row: ReplicatorTable, state: str, last: int) -> int:
    """A turn that follows the log ends before a reload that began while it was made out: the turn does not know of
    it.
    """
    streams = row.state == TableState.STREAMING.value
    return row.last_sequence if streams and state != row.state else last


def _present_runs(rows: list[ReplicatorTable]) -> dict[int, models.SnapshotRun]:
    ids = [row.pk for row in rows if row.state in {TableState.LOADING.value, TableState.RELOADING.value}]
    runs = models.SnapshotRun.objects.filter(table_id__in=ids, scope=models.Scope.WHOLE)
    runs = runs.exclude(state=RunState.CANCELLED)
    return {run.table_id: run for run in runs.order_by("id")}


def _structure(replicator_id: int) -> tuple[int, int]:
    """A digest of who has which name and which generation: what the turns of several tables must agree about.

    Asked at each turn, so no row is fetched.  Without `made_load`: a turn sets it to the load that is wanted, which the
    others know of already.
    """
    with connection.cursor() as cursor:
        cursor.execute(STRUCTURE, [*GONE.values(), replicator_id])
        tables, digest = cursor.fetchone()
    return tables, int(digest)


def _generations(replicator_id: int) -> dict[str, int]:
    """The loads of all tables, each with its table: the one wanted, and the one that the target was last seen to
    have.

    Without tables that failed as the source has them no more: their copies give way to who has their names now.
    """
    rows = ReplicatorTable.objects.filter(replicator_id=replicator_id).exclude(**GONE)
    return {load: pk for pk, *loads in rows.values_list("pk", "made_load", "load") for load in loads if load}


@dataclass(frozen=True, eq=False)
class _OtherLoads:
    """All but those of the table `pk`."""

    generations: Mapping[str, int]
    pk: int

    def __contains__(self, load: object) -> bool:
        return self.generations.get(str(load), self.pk) != self.pk


def _apply_table(row: ReplicatorTable, run: models.SnapshotRun | None, generations: Mapping[str, int]) -> ApplyTable:
    return ApplyTable(
        target_name=target_name_of(row),
        target_name_as=partial(target_name_as, row),
        own=bool(row.own_name),
        others=_OtherLoads(generations, row.pk),
        table=row.table_id,
        target=(row.target_namespace, row.target_name, row.target_part),
        state=row.table_state,
        live_from=row.live_from,
        run=run.pk if run else None,
        reload_from=run.start_sequence if run else -1,
        run_complete=run is not None and run.state == RunState.DONE,
        keyless=row.keyless,
        load=row.load,
        made=bool(row.made_load),
        applied=row.applied,
        loaded=row.loaded,
        collected=row.collected,
        schema_version=row.schema_version or 0,
        attempt=row.attempt,
        mode=Mode(row.mode),
    )


def _event(row: models.TableEventRow) -> TableEvent:
    """Return the event under the table's former name: a RENAME has the new one in its detail."""
    table = TableId(row.database, row.name)
    return TableEvent(
        table, row.sequence, EventKind(row.kind), row.schema_version, row.commit_ts, row.detail, row.token
    )
