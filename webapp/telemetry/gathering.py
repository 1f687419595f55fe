"""What snapshots and merges did, as OpenLineage events in the queue.

Read from their rows and counters afterwards: no loop waits for it.

Run ids and event keys follow from what happened, so an event that is gathered twice is queued once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import Q, Sum

from replicator.redaction import redacted
from replicator.sources.registry import source_kind
from replicator.state.tables import TableState
from replicator.telemetry.openlineage import (
    Copy,
    Dataset,
    EventType,
    Job,
    LineageRun,
    RunOutcome,
    run_event,
    source_dataset,
)
from webapp.connections.selectors import public_config
from webapp.destinations.lakes import built_in_lake
from webapp.monitoring.models import Failure, MetricMinute, Stage
from webapp.replicators.lineage import lineage_at, newest_versions
from webapp.replicators.models import ReplicatorTable, RunState, SnapshotRun
from webapp.replicators.targets import kind_of
from webapp.telemetry.models import LineageEvent, LineageState

OVERLAP = timedelta(minutes=2)  # a row may be committed this much later than its own time
SETTLED = timedelta(seconds=90)  # then a minute's figures are whole
WINDOWS = 12  # of merges, in one round
OLDEST = timedelta(hours=6)  # after a longer pause, what happened before is not reported
MESSAGE = 2000
RUNS = 500


@dataclass(frozen=True)
class LineageFact:
    """One event of a run of a table; `identity` names the run."""

    table: int
    kind: EventType
    at: datetime
    identity: str
    work: str
    outcome: RunOutcome = field(default_factory=RunOutcome)

    @property
    def key(self) -> str:
        return f"{LineageRun(self.identity).id}:{self.kind}"


def gather(state: LineageState, now: datetime) -> int:
    """Put into the queue what has happened since the last round; the number of new events.  Saves `state`."""
    begin = now - OVERLAP
    snapshots_from = max(state.snapshots_to or begin, now - OLDEST)
    found = _snapshots(snapshots_from - OVERLAP, now)
    window = timedelta(seconds=settings.TIDEMARK_OPENLINEAGE_MERGE_SECONDS)
    first = _aligned(max(state.merges_to or begin, now - OLDEST), window)
    last = min(_aligned(now - SETTLED, window), first + WINDOWS * window)
    while first < last:
        found += _merges(first, first + window)
        first += window
    added = _enqueue(found)
    state.snapshots_to, state.merges_to = now, max(first, state.merges_to or first)
    state.dropped += _shortened()
    state.save()
    return added


def _aligned(moment: datetime, window: timedelta) -> datetime:
    seconds = window.total_seconds()
    return datetime.fromtimestamp(moment.timestamp() // seconds * seconds, UTC)


def _snapshots(since: datetime, until: datetime) -> list[LineageFact]:
    """START, and COMPLETE, FAIL (its table stopped) or ABORT (another run took its place, or a user ended it)."""
    touched = Q(started_at__gte=since, started_at__lt=until) | Q(finished_at__gte=since, finished_at__lt=until)
    runs = SnapshotRun.objects.filter(touched, started_at__isnull=False).select_related("table").order_by("id")[:RUNS]
    found = []
    for run in runs:
        identity = f"snapshot:{run.table.replicator_id}:{run.pk}:{run.created_at.isoformat()}"
        assert run.started_at is not None
        found.append(LineageFact(run.table_id, EventType.START, run.started_at, identity, "snapshot"))
        if run.finished_at is not None and not run.open:
            kind, outcome = _end(run)
            found.append(LineageFact(run.table_id, kind, run.finished_at, identity, "snapshot", outcome))
    return found


def _end(run: SnapshotRun) -> tuple[EventType, RunOutcome]:
    if run.state == RunState.DONE:
        return EventType.COMPLETE, RunOutcome(rows=run.rows_read)
    if run.table.state == TableState.FAILED.value:
        return EventType.FAIL, RunOutcome(
            rows=run.rows_read, error=_words(run.table.error_message) or "the table stopped"
        )
    return EventType.ABORT, RunOutcome(rows=run.rows_read)


def _merges(since: datetime, until: datetime) -> list[LineageFact]:
    """All target commits of a table within a window are one run: it failed if its last failure there is not mended."""
    rows = MetricMinute.objects.filter(
        minute__gte=since, minute__lt=until, merges__gt=0, table__isnull=False
    ).order_by()
    sums = rows.values_list("table_id").annotate(Sum("inserts"), Sum("updates"), Sum("deletes"), Sum("reads"))
    merged = {pk: int(sum(counts)) for pk, *counts in sums if pk is not None}
    failed = Failure.objects.filter(at__gte=since, at__lt=until, stage=Stage.APPLY, table__isnull=False).order_by("at")
    last = {failure.table_id: failure for failure in failed if failure.table_id is not None}
    found = []
    for pk in sorted(merged.keys() | last.keys()):
        identity = f"merge:{pk}:{since.isoformat()}"
        failure = last.get(pk)
        broken = failure is not None and (pk not in merged or failure.resolved_at is None)
        outcome = RunOutcome(
            rows=merged.get(pk, 0), error=_words(failure.message) if failure is not None and broken else ""
        )
        kind = EventType.FAIL if broken else EventType.COMPLETE
        found.append(LineageFact(pk, EventType.START, since, identity, "merge"))
        found.append(LineageFact(pk, kind, until, identity, "merge", outcome))
    return found


def _words(message: str) -> str:
    return redacted(message)[:MESSAGE]


def _enqueue(happened: Sequence[LineageFact]) -> int:
    """Queue new events only; four queries and one insert, for any number of events."""
    known = set(LineageEvent.objects.filter(key__in=[one.key for one in happened]).values_list("key", flat=True))
    fresh = [one for one in happened if one.key not in known]
    copies = copies_of({one.table for one in fresh})
    rows = [LineageEvent(key=one.key, body=_event(one, *copies[one.table])) for one in fresh if one.table in copies]
    LineageEvent.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _event(one: LineageFact, table: ReplicatorTable, copy: Copy) -> dict[str, object]:
    name = f"{table.replicator.name}.{table}.{one.work}"
    job = Job(settings.TIDEMARK_OPENLINEAGE_NAMESPACE, name, one.work.upper())
    return run_event(one.kind, one.at, LineageRun(one.identity, one.outcome), job, copy)


def copies_of(tables: Iterable[int]) -> Mapping[int, tuple[ReplicatorTable, Copy]]:
    """Both ends and the present lineage of each table that has a definition: three queries."""
    rows = list(
        ReplicatorTable.objects.filter(pk__in=tables).select_related(
            "replicator__connection", "replicator__destination"
        )
    )
    newest = newest_versions([row.pk for row in rows])
    found = {}
    for row in rows:
        version = newest.get(row.pk)
        if version is None:
            continue
        definition = version.definition
        lines = lineage_at(row.replicator, row.mode, [definition], definition.version)
        found[row.pk] = (row, Copy(_source(row), _target(row), lines))
    return found


def _source(row: ReplicatorTable) -> Dataset:
    connection = row.replicator.connection
    return source_dataset(source_kind(connection.kind), public_config(connection), row.table_id, connection.name)


def _target(row: ReplicatorTable) -> Dataset:
    """As its kind names it to OpenLineage."""
    kind = kind_of(row.replicator)
    uri = kind.dataset(row.replicator.destination.config, built_in_lake())
    return Dataset(uri, f"{row.target_namespace}.{row.target_name}", kind.name, uri)


def _shortened() -> int:
    """The queue is bounded: the oldest go first."""
    waiting = LineageEvent.objects.filter(delivered_at=None)
    over = waiting.count() - settings.TIDEMARK_OPENLINEAGE_QUEUE
    if over <= 0:
        return 0
    newest_lost = waiting.order_by("id").values_list("pk", flat=True)[over - 1]
    return waiting.filter(pk__lte=newest_lost).update(body={}, delivered_at=datetime.now(UTC))
