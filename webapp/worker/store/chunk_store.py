"""The snapshot loop's view of the state store (`replicator.state.chunks.ChunkStore`) on the ORM."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from django.db import connection, transaction
from django.db.models import Case, Count, F, Max, Model, OuterRef, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce

from replicator.errors import SourcePermissionDenied, TableError, TidemarkError
from replicator.snapshot.sizing import next_chunk_rows
from replicator.snapshot.throttle import Pace
from replicator.state.chunks import ChunkToRead, PlannedChunk, RawChunk, RunToPlan
from replicator.state.journal import SegmentKind
from replicator.state.tables import HALTED, TableState
from webapp.database import NOW, clock, stored, without_nul
from webapp.monitoring.models import Stage
from webapp.replicators.bulk import save_many
from webapp.replicators.models import (
    ChunkRow,
    ChunkState,
    Desired,
    Replicator,
    ReplicatorTable,
    RunState,
    Scope,
    SegmentRow,
    SnapshotRun,
    Status,
)
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.services.partial_snapshots import end_partial
from webapp.replicators.services.tables import clear_error
from webapp.worker.failure.failures import table_attempt_failed
from webapp.worker.failure.retry_policy import RetryDecision, decide
from webapp.worker.store.chunk_admission import OPEN, UNDER_WAY, note_began
from webapp.worker.store.journal import OF_CHUNK, chunk_of

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    class Ahead(TypedDict):
        ahead: int

    RunAhead = WithAnnotations[SnapshotRun, Ahead]

Found = TypeVar("Found", bound=Model)
READ_AHEAD, READ_AHEAD_BYTES, MAX_READ_AHEAD = 16, 64 * 1024 * 1024, 256
# Chunks that are merged among the log's changes are small, and few of them are on their way: those changes wait behind
# them.
MERGED_ROWS = 32_768
MERGED_AHEAD = 4 * MERGED_ROWS
PLANNED_FIELDS = (
    "started", "started_at", "end_key", "position", "attempt", "first_failure_at", "retry_at", "planned_all", "state",
)  # fmt: skip
CLAIMED = (
    "state = 'reading', attempt = %(attempt)s, owner = %(owner)s, claimed_until = %(until)s, read_at = NULL,"
    " base_sequence = NULL"
)
ANY_OPEN_RUN = """
SELECT clock_timestamp() FROM replicators_snapshotrun r JOIN replicators_replicatortable t ON t.id = r.table_id
WHERE t.replicator_id = %s AND r.state IN ('planning', 'reading') LIMIT 1
"""
MARKED_AGAIN = "owner = %(owner)s, read_at = %(now)s"
CLAIM = f"""
FROM replicators_snapshotrun r JOIN replicators_replicatortable t ON t.id = r.table_id
WHERE c.id = %(chunk)s AND r.id = c.run_id RETURNING {OF_CHUNK}
"""
PACED = ("chunk_rows", "fresh", "table__error_code", "table__attempt", "table__state", "table__replicator__options")
LOADS = (TableState.LOADING.value, TableState.RELOADING.value)
# A chunk whose high mark capture must have passed by now will never be admitted: its reader died before it wrote the
# mark.
LOST_AFTER = timedelta(seconds=60)
LOST_MARGIN = timedelta(seconds=30)
# What another lease's reader has staged this long ago is marked again: most are on their way through the log.
ORPHANED_AFTER = timedelta(seconds=3)
# A reader that slept this long after its claim brings nothing: by its age, its file may be taken for garbage any time.
STALE_AFTER = timedelta(minutes=15)
# One table's trouble (invariant 13).  Everything else is the replicator's: it would stop every table in turn.
TABLES_FAULT = (TableError, SourcePermissionDenied)


class OrmChunkStore:
    """Bound to one replicator."""

    def __init__(self, replicator_id: int, plan_version: int | None = None) -> None:
        """Every answer looks at the replicator again: pausing takes effect at the next question (invariant 10).

        `plan_version`: the plan that its readers were opened under; no chunk of a later one is theirs, whose masks they
        do not know.
        `blamed`: errors that were put down to their table, so that they are not the replicator's too.
        """
        self._id, self._plan = replicator_id, plan_version
        self.blamed: list[TidemarkError] = []
        self._room = 0  # claims until it is counted again how many chunks wait for capture

    @stored
    def to_plan(self, ahead: int = sys.maxsize, limit: int | None = None) -> list[RunToPlan]:
        """See `ChunkStore`."""
        if not wants_reading(self._id):
            return []
        most = self._pace().chunk_rows
        return [
            RunToPlan(
                run=run.pk,
                table=run.table.table_id,
                end=None if run.end_key is None else tuple(run.end_key),
                position=None if run.position is None else tuple(run.position),
                started=run.started,
                chunk_rows=min(run.chunk_rows, most),
                ahead=run.ahead,
                condition=run.condition,
            )
            for run in self._of_plan(plannable(self._id, clock(), ahead), "table__replicator")[:limit]
        ]

    @stored
    def begin_plan(self, runs: Sequence[int]) -> str:
        """Store a plan's token before its mark is written.  It replaces an older plan, whose planner stores nothing."""
        plan = uuid.uuid4().hex[:16]
        fresh = SnapshotRun.objects.filter(pk__in=runs, state=RunState.PLANNING, started=False)
        fresh.update(plan=plan, plan_met=False)
        return plan

    @stored
    @transaction.atomic
    def planned(self, chunks: Sequence[PlannedChunk]) -> None:
        """See `ChunkStore`.

        Locked runs are skipped, not waited for: transactions that cancel or admit lock runs in another order.
        """
        plans = {one.run: one for one in chunks}
        locked = SnapshotRun.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
        found = locked.select_related("table__replicator").filter(pk__in=plans, state=RunState.PLANNING)
        runs = [run for run in found.order_by("id") if _goes_on(run, plans[run.pk])]
        numbers = ChunkRow.objects.filter(run__in=runs).order_by().values_list("run_id").annotate(Max("number"))
        last, now = dict(numbers), clock()
        ChunkRow.objects.bulk_create(_next_chunk(plans[run.pk], 1 + last.get(run.pk, 0)) for run in runs)
        note_began([run for run in runs if not run.started])
        for run in runs:
            plan = plans[run.pk]
            if not run.started:
                run.started, run.started_at, run.end_key = True, now, _as_list(plan.end)
            run.position = _as_list(plan.bounds.upper)
            run.attempt, run.first_failure_at, run.retry_at = 0, None, None
            run.planned_all, run.state = plan.done, RunState.READING if plan.done else RunState.PLANNING
        save_many(runs, PLANNED_FIELDS)

    @stored
    def planning(self, run: int) -> bool:
        """See `ChunkStore`."""
        return (
            wants_reading(self._id)
            and SnapshotRun.objects.filter(_wanted(""), pk=run, state=RunState.PLANNING).exists()
        )

    @stored
    @transaction.atomic
    def claim(self, owner: str, seconds: float = 60.0) -> ChunkToRead | None:
        """None where there is nothing, or too many chunks wait for capture."""
        if (now := _reads_at(self._id)) is None:
            return None
        if self._room <= 0:
            self._room = _room(self._id, now)
        found = readable(self._id, now, owner.rpartition("/")[0], room=self._room > 0)
        self._room -= 1
        chunks = self._of_plan(found, "run__table__replicator")
        candidates = chunks.select_for_update(no_key=True, of=("self",), skip_locked=True).only("state", "read_at")
        row = candidates.order_by("run_id", "number").first()
        if row is None:
            return None
        staged = row.state == ChunkState.READ and not self._lost(row, now)
        attempt, until = uuid.uuid4().hex[:16], now + timedelta(seconds=seconds)
        values: dict[str, int | str | datetime]
        values = {"chunk": row.pk, "owner": owner[:100], "now": now, "attempt": attempt, "until": until}
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE replicators_chunkrow c SET {MARKED_AGAIN if staged else CLAIMED} {CLAIM}", values)
            return chunk_of(cursor.fetchone(), staged=staged)

    @stored
    def wanted(self, chunk: ChunkToRead) -> bool:
        """Renews the claim; False: stop reading it."""
        paused = self._present(chunk).filter(run__paused=True).exists()
        if paused or not wants_reading(self._id):
            self._present(chunk).update(state=ChunkState.PLANNED, attempt="", owner="", claimed_until=None)
            return False
        return self._present(chunk).update(claimed_until=clock() + timedelta(seconds=60)) == 1

    @stored
    @transaction.atomic
    def read(self, raw: RawChunk) -> bool:
        """Compare-and-set on the attempt; the run's chunk size follows the reading."""
        runs = SnapshotRun.objects.select_for_update(no_key=True, of=("self",)).select_related("table__replicator")
        found = runs.filter(pk=raw.chunk.run).only(*PACED).annotate(now=NOW)
        run = found.first()  # locked before its chunk, as in `cancel_runs`
        if run is None:
            return False
        now = run.now
        present = self._present(raw.chunk).filter(claimed_until__gt=now - STALE_AFTER)
        stored_chunk = present.update(
            state=ChunkState.READ,
            path=raw.path,
            rows=raw.rows,
            size=raw.size,
            seconds=raw.seconds,
            schema=without_nul(raw.schema.to_dict()),
            claimed_until=None,
            read_at=now,
            failures=0,
            first_failure_at=None,
            retry_at=None,
        )
        if stored_chunk != 1:
            return False
        pace = run.table.replicator.parsed_options.pace
        most = pace.chunk_rows if run.fresh else min(pace.chunk_rows, MERGED_ROWS)
        run.chunk_rows = next_chunk_rows(run.chunk_rows, raw.rows, raw.seconds, pace.chunk_seconds, most)
        run.save(update_fields=["chunk_rows"])
        if run.table.error_code and not run.table.attempt and run.table.table_state not in HALTED:
            clear_error(run.table)
            run.table.save(update_fields=["error_code", "error_message", "error_remedy"])
        return True

    @stored
    @transaction.atomic
    def failed(self, chunk: ChunkToRead, error: TidemarkError) -> None:
        """The chunk is read again later; what is the table's own fault counts against the table and may stop it."""
        SnapshotRun.objects.select_for_update(no_key=True).filter(pk=chunk.run).first()  # as in `cancel_runs`
        rows = ChunkRow.objects.select_for_update(no_key=True, of=("self",)).filter(
            pk=chunk.chunk, attempt=chunk.attempt
        )
        row = rows.filter(state__in=(ChunkState.READING, ChunkState.READ)).select_related("run").first()
        if row is None:
            return
        row.state, row.attempt, row.owner, row.claimed_until = ChunkState.PLANNED, "", "", None
        if isinstance(error, TABLES_FAULT):
            verdict = self._judged(row.run, error, row.failures, row.first_failure_at)
            if verdict.retry_at is None:
                return
            row.failures, row.first_failure_at, row.retry_at = (
                verdict.attempt,
                verdict.first_failure_at,
                verdict.retry_at,
            )
        else:
            row.retry_at = clock() + timedelta(seconds=1)
        row.save()

    @stored
    @transaction.atomic
    def run_failed(self, run: RunToPlan, error: TidemarkError) -> None:
        """Planning goes on later, or the table fails."""
        rows = SnapshotRun.objects.select_for_update(no_key=True, of=("self",))
        row = rows.filter(pk=run.run, state=RunState.PLANNING).first()
        if row is None:
            return
        verdict = self._judged(row, error, row.attempt, row.first_failure_at)
        if verdict.retry_at is not None:
            SnapshotRun.objects.filter(pk=run.run).update(
                attempt=verdict.attempt, first_failure_at=verdict.first_failure_at, retry_at=verdict.retry_at
            )

    def _pace(self) -> Pace:
        found = Replicator.objects.only("options").filter(pk=self._id).first()
        return found.parsed_options.pace if found is not None else Pace()

    def _judged(
        self, run: SnapshotRun, error: TidemarkError, attempt: int, first_failure_at: datetime | None
    ) -> RetryDecision:
        """Of a run over a part of its table, the table is none the worse for it: the run goes on later, or ends."""
        if not run.partial:
            return self._count(run.pk, error, attempt, first_failure_at)
        self.blamed.append(error)
        now = clock()
        verdict = RetryDecision(attempt + 1, first_failure_at or now, None)
        if error.retryable:
            options = run.table.replicator.parsed_options
            verdict = decide(error, options, attempt=attempt, first_failure_at=first_failure_at, now=now)
        if verdict.retry_at is None:
            end_partial(run.pk, f"{error.message} {error.remedy}")
        return verdict

    def _count(
        self, run_id: int, error: TidemarkError, attempt: int, first_failure_at: datetime | None
    ) -> RetryDecision:
        """By the chunk's or run's own count: the table's is the apply loop's."""
        self.blamed.append(error)
        tables = ReplicatorTable.objects.select_for_update(no_key=True, of=("self",)).select_related("replicator")
        table = tables.get(runs=run_id)
        own = {name: getattr(table, name) for name in ("attempt", "first_failure_at", "retry_at")}
        table.attempt, table.first_failure_at = attempt, first_failure_at
        verdict = table_attempt_failed(table, Stage.SNAPSHOT, error)
        ReplicatorTable.objects.filter(pk=table.pk).update(**own)
        return verdict

    def _of_plan(self, rows: QuerySet[Found], replicator: str) -> QuerySet[Found]:
        """In the statement that finds them: between two there may be another plan."""
        return rows if self._plan is None else rows.filter(**{f"{replicator}__plan_version": self._plan})

    def _lost(self, row: ChunkRow, now: datetime) -> bool:
        """As `_lost_ones` says it."""
        seen = Replicator.objects.values_list("source_ts", flat=True).filter(pk=self._id).first()
        assert row.read_at is not None
        return row.read_at < now - LOST_AFTER and seen is not None and seen > row.read_at + LOST_MARGIN

    def _present(self, chunk: ChunkToRead) -> QuerySet[ChunkRow]:
        return ChunkRow.objects.filter(pk=chunk.chunk, attempt=chunk.attempt, state=ChunkState.READING)


def wants_reading(replicator_id: int) -> bool:
    """The replicator runs, and its snapshots are not paused."""
    return _reads_at(replicator_id) is not None


def _reads_at(replicator_id: int) -> datetime | None:
    """The database's time; None where the replicator does not run, or its snapshots are paused."""
    found = Replicator.objects.filter(pk=replicator_id, desired=Desired.RUNNING).exclude(status=Status.FAILED)
    row = found.values_list("options", NOW).first()
    return None if row is None or ReplicatorOptions.from_dict(row[0]).snapshot_paused else row[1]


def _open_runs(replicator_id: int, now: datetime) -> QuerySet[SnapshotRun]:
    """Only of tables that capture follows: a window must be seen whole."""
    found = SnapshotRun.objects.filter(_wanted(""), table__replicator_id=replicator_id)
    return found.filter(Q(retry_at=None) | Q(retry_at__lte=now))


def _wanted(run: str) -> Q:
    """Runs that are to be read, by the names that they have behind `run`: a whole table's while it is loaded, a part's
    while it streams.
    """
    loads = Q(**{f"{run}scope": Scope.WHOLE, f"{run}table__state__in": LOADS})
    parts = ~Q(**{f"{run}scope": Scope.WHOLE}) & Q(**{f"{run}table__state": TableState.STREAMING.value})
    return (loads | parts) & Q(**{f"{run}paused": False, f"{run}table__tracked": True})


def plannable(replicator_id: int, now: datetime, limit: int) -> QuerySet[RunAhead]:
    """Runs whose bounds are not all known, with `ahead`: chunks planned and not read yet, fewer than `limit`."""
    planned = ChunkRow.objects.filter(run=OuterRef("pk"), state=ChunkState.PLANNED)
    runs = (
        _open_runs(replicator_id, now).filter(state=RunState.PLANNING).annotate(ahead=_total(planned, "run", Value(1)))
    )
    return runs.filter(ahead__lt=limit).select_related("table").order_by("id")


def _open_chunks(replicator_id: int) -> QuerySet[ChunkRow]:
    return ChunkRow.objects.filter(
        _wanted("run__"),
        state__in=OPEN,
        run__table__replicator_id=replicator_id,
        run__state__in=(RunState.PLANNING, RunState.READING),
    )


def _lost_ones(now: datetime) -> Q:
    seen = Q(run__table__replicator__source_ts__gt=F("read_at") + LOST_MARGIN)
    return seen & Q(state=ChunkState.READ, read_at__lt=now - LOST_AFTER)


def _room(replicator_id: int, now: datetime) -> int:
    """How many chunks may be read before it is counted again what waits for capture; 0: enough does.

    More of them if they are small.
    """
    read = _open_chunks(replicator_id).filter(state=ChunkState.READ).exclude(_lost_ones(now))
    found = read.aggregate(number=Count("pk"), bytes=Sum("size"))
    number, small = int(found["number"]), (found["bytes"] or 0) < READ_AHEAD_BYTES
    return max(READ_AHEAD - number, READ_AHEAD // 4 if small and number < MAX_READ_AHEAD else 0)


def readable(replicator_id: int, now: datetime, lease_owner: str, *, room: bool) -> QuerySet[ChunkRow]:
    """Planned chunks and those whose reader is gone: its claim ran out, or it worked under another lease than
    `lease_owner`'s.

    Nothing is planned to be read without `room` for it (`_room`), nor of a table while enough of it is on its way to
    being merged.
    """
    chunks, lost = _open_chunks(replicator_id), _lost_ones(now)
    gone = ~Q(owner__startswith=f"{lease_owner}/")
    orphaned = gone & Q(state=ChunkState.READ, read_at__lt=now - ORPHANED_AFTER)
    if not room:
        return chunks.filter(orphaned)
    unmerged = SegmentRow.objects.filter(
        table=OuterRef("run__table"), kind=SegmentKind.CHUNK.value, last_sequence__gt=OuterRef("run__table__applied")
    )
    under_way = ChunkRow.objects.filter(run__table=OuterRef("run__table"), state__in=UNDER_WAY)
    expected = Case(When(state=ChunkState.READ, then="rows"), default=MERGED_ROWS)
    on_their_way = _total(unmerged, "table", "rows") + _total(under_way, "run__table", expected)
    chunks = chunks.alias(on_their_way=on_their_way)
    roomy = Q(run__fresh=True) | Q(on_their_way__lt=MERGED_AHEAD)
    due = Q(state=ChunkState.PLANNED) & (Q(retry_at=None) | Q(retry_at__lte=now)) & roomy
    reading = Q(state=ChunkState.READING) & (Q(claimed_until__lt=now) | gone)
    return chunks.filter(due | reading | lost | orphaned)


def _total(rows: QuerySet[Any], by: str, number: str | Case | Value) -> Coalesce:
    """Of a subquery whose rows all have the same `by`."""
    return Coalesce(Subquery(rows.order_by().values(by).annotate(total=Sum(number)).values("total")), 0)


def has_work(replicator_id: int, lease_owner: str = "") -> bool:
    """Return whether the lease's holder has something to plan or to read; "" for `lease_owner`: the lease is free.

    Asked all the time, and mostly in vain: one small statement answers it then.
    """
    with connection.cursor() as cursor:
        cursor.execute(ANY_OPEN_RUN, [replicator_id])
        row = cursor.fetchone()
    if row is None or not wants_reading(replicator_id):
        return False
    now = row[0]
    return (
        _open_runs(replicator_id, now).filter(state=RunState.PLANNING).exists()
        or readable(replicator_id, now, lease_owner, room=_room(replicator_id, now) > 0).exists()
    )


def _goes_on(run: SnapshotRun, plan: PlannedChunk) -> bool:
    """The chunk comes after those that the run has: no other planner has stored it meanwhile."""
    if not run.started:
        return run.plan == plan.plan and plan.bounds.lower is None
    return plan.bounds.lower is not None and _as_list(plan.bounds.lower) == run.position


def _next_chunk(plan: PlannedChunk, number: int) -> ChunkRow:
    lower, upper = _as_list(plan.bounds.lower), _as_list(plan.bounds.upper)
    return ChunkRow(run_id=plan.run, number=number, lower=lower, upper=upper, keyless=plan.keyless)


def _as_list(key: tuple[str, ...] | None) -> list[str] | None:
    return None if key is None else list(key)
