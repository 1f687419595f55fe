"""One replicator, looked at closely: the figures of its pages, each set in a bounded number of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, Count, Max, Q, QuerySet, Sum, When
from django.utils import timezone

from replicator.state.tables import TableState
from replicator.telemetry.differences import difference
from webapp.alerts.models import Alert, RuleKind
from webapp.alerts.selectors import firing
from webapp.console.presenters.labels import (
    StatePart,
    StateWord,
    late,
    recent_rate,
    replicator_word,
    rows_by_minute,
    spark_of,
    state_parts,
    table_word,
)
from webapp.console.presenters.slo import ObjectiveView, objectives_of_fleet
from webapp.monitoring.charts.sparklines import Sparkline
from webapp.monitoring.failures import open_count
from webapp.monitoring.slo.attainment import Attained, measure_tables
from webapp.replicators import selectors
from webapp.replicators.models import (
    Replicator,
    ReplicatorTable,
    RunState,
    SchemaVersion,
    SegmentRow,
    SnapshotRun,
    Status,
)
from webapp.replicators.source_log import LogKept, log_kept

# The header shows these conditions itself, with their remedies.
SAID_ALREADY = frozenset({RuleKind.TABLE_FAILED, RuleKind.STOPPED, RuleKind.LOG_KEPT})
OPEN_RUNS = (RunState.PLANNING, RunState.READING)


@dataclass(frozen=True)
class Problem:
    """What stands in the way now, with its remedy; `count` failed tables where no single error speaks for all."""

    message: str
    remedy: str
    code: str
    tone: str
    attempt: int = 0
    since: datetime | None = None
    next_retry: datetime | None = None
    count: int = 0


@dataclass(frozen=True)
class Header:
    """The head of every page of a replicator."""

    word: StateWord
    lag_ms: int | None
    late: bool
    rate: float
    spark: Sparkline
    objective: ObjectiveView
    alerts: list[Alert]
    tables: int
    parts: list[StatePart]
    actions: frozenset[str]
    problem: Problem | None
    log_kept: LogKept | None = None
    failures: int = 0
    dead_letters: int = 0


def header(replicator: Replicator) -> Header:
    """Build the header with about eight queries, for any number of tables."""
    tables = ReplicatorTable.objects.filter(replicator=replicator).order_by()
    counted = list(tables.values_list("state").annotate(Count("pk"), Sum("dead_letters")))
    states = {state: number for state, number, _ in counted}
    lag = selectors.replicator_lag_ms(replicator)
    minutes = rows_by_minute([replicator.pk]).get(replicator.pk, {})
    return Header(
        word=replicator_word(replicator.status, replicator.desired),
        lag_ms=lag,
        late=late(replicator, lag),
        rate=recent_rate(minutes),
        spark=spark_of(minutes),
        objective=objectives_of_fleet([replicator])[replicator.pk],
        alerts=[alert for alert in firing(replicator) if alert.rule.kind not in SAID_ALREADY],
        tables=sum(states.values()),
        parts=state_parts(states, still=replicator.status == Status.FAILED),
        actions=selectors.allowed_actions(replicator),
        problem=problem(replicator),
        log_kept=log_kept(replicator),
        failures=open_count(replicator),
        dead_letters=sum(number for *_, number in counted),
    )


def problem(replicator: Replicator) -> Problem | None:
    """The replicator's own error first, then its tables'."""
    if replicator.error_message and replicator.status in {Status.FAILED, Status.RETRYING}:
        return Problem(
            replicator.error_message,
            replicator.error_remedy,
            replicator.error_code,
            "bad" if replicator.status == Status.FAILED else "warn",
            replicator.attempt,
            replicator.first_failure_at,
            replicator.next_retry_at if replicator.status == Status.RETRYING else None,
        )
    wrong = Q(state=TableState.FAILED.value) | Q(retry_at__isnull=False)
    tables = list(ReplicatorTable.objects.filter(wrong, replicator=replicator).exclude(error_message="")[:2])
    if not tables:
        return None
    table = next((t for t in tables if t.state == TableState.FAILED.value), tables[0])
    failed = table.state == TableState.FAILED.value
    return Problem(
        f"{table}: {table.error_message}",
        table.error_remedy,
        table.error_code,
        "bad" if failed else "warn",
        table.attempt,
        table.first_failure_at,
        None if failed else table.retry_at,
        len(tables) if len(tables) == 1 else ReplicatorTable.objects.filter(wrong, replicator=replicator).count(),
    )


@dataclass(frozen=True)
class Progress:
    """A snapshot's progress: `fraction` 0 to 1, or None without an estimate."""

    rows: int
    estimate: int | None
    fraction: float | None
    eta: datetime | None
    tables: int = 1

    @property
    def percent(self) -> int:
        return int(100 * (self.fraction or 0))


def progress_of(run: SnapshotRun) -> Progress:
    """Of one table's run."""
    return Progress(run.rows_read, run.rows_estimate, run.fraction, run.eta)


def open_runs(tables: Iterable[ReplicatorTable]) -> dict[int, Progress]:
    """Progress by table: one query."""
    runs = SnapshotRun.objects.filter(table__in=list(tables), state__in=OPEN_RUNS).order_by("id")
    return {run.table_id: progress_of(run) for run in runs}


def total_progress(replicator: Replicator) -> Progress | None:
    """Of all open runs together; None where no snapshot is running."""
    runs = list(SnapshotRun.objects.filter(table__replicator=replicator, state__in=OPEN_RUNS))
    if not runs:
        return None
    rows = sum(run.rows_read for run in runs)
    estimates = [run.rows_estimate for run in runs]
    if any(estimate is None for estimate in estimates):
        return Progress(rows, None, None, None, len(runs))
    estimate = sum(max(run.rows_estimate or 0, run.rows_read) for run in runs)
    fraction = min(rows / estimate, 0.99) if estimate else None
    return Progress(rows, estimate, fraction, _eta(runs, fraction), len(runs))


def _eta(runs: Sequence[SnapshotRun], fraction: float | None) -> datetime | None:
    started = [run.started_at for run in runs if run.started_at is not None]
    if not fraction or not started:
        return None
    now = timezone.now()
    return now + timedelta(seconds=(now - min(started)).total_seconds() * (1 - fraction) / fraction)


@dataclass(frozen=True)
class Pipeline:
    """Capture → staged → applied.  Waiting segments, rows and bytes are those not yet in the target."""

    offset: Sequence[tuple[str, str]]
    identity: str
    source_ts: datetime | None
    captured_at: datetime | None
    waiting_segments: int
    waiting_rows: int
    waiting_bytes: int
    queryable_at: datetime | None
    applied_rows: int
    next_sequence: int


def pipeline(replicator: Replicator) -> Pipeline:
    """Two queries."""
    waiting = SegmentRow.objects.filter(table__replicator=replicator, applied_at=None).aggregate(
        n=Count("pk"), rows=Sum("rows"), size=Sum("size")
    )
    done = ReplicatorTable.objects.filter(replicator=replicator).aggregate(
        at=Max("queryable_at"), i=Sum("rows_inserted"), u=Sum("rows_updated"), d=Sum("rows_deleted"), r=Sum("rows_read")
    )
    return Pipeline(
        offset=offset_words(replicator.checkpoint_offset or {}),
        identity=replicator.identity,
        source_ts=replicator.source_ts,
        captured_at=replicator.captured_at,
        waiting_segments=waiting["n"],
        waiting_rows=waiting["rows"] or 0,
        waiting_bytes=waiting["size"] or 0,
        queryable_at=done["at"],
        applied_rows=sum(done[name] or 0 for name in "iudr"),
        next_sequence=replicator.next_sequence,
    )


def offset_words(offset: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parts of an offset that say something to people; opaque otherwise."""
    said = {name: value for name, value in offset.items() if value not in (None, "", 0) and not isinstance(value, list)}
    return [(name.replace("_", " "), str(value)) for name, value in said.items()]


@dataclass(frozen=True)
class TableLine:
    """A table on the tables page."""

    table: ReplicatorTable
    word: StateWord
    progress: Progress | None
    lag_ms: int | None
    late: bool
    attained: Attained

    @property
    def failing(self) -> bool:
        return bool(self.table.error_message) and self.word.tone in {"bad", "warn"}


def find_tables(replicator: Replicator, *, state: str = "", search: str = "") -> QuerySet[ReplicatorTable]:
    """Tables of a state whose name holds `search`, failed ones first, then by name."""
    found = ReplicatorTable.objects.filter(replicator=replicator)
    if state:
        found = found.filter(state=state)
    for part in search.split("."):
        found = found.filter(Q(name__icontains=part) | Q(database__icontains=part))
    broken = Case(When(state=TableState.FAILED.value, then=0), default=1)
    return found.order_by(broken, "database", "name")


def table_lines(replicator: Replicator, tables: Sequence[ReplicatorTable]) -> list[TableLine]:
    """One query for the snapshots of all of them, three for what came in time of the last day."""
    runs, attained = open_runs(tables), measure_tables(replicator, [table.pk for table in tables])
    lines = []
    for table in tables:
        lag = selectors.table_lag_ms(table, replicator)
        word = table_word(table.state, retrying=table.retry_at is not None)
        lines.append(TableLine(table, word, runs.get(table.pk), lag, late(replicator, lag), attained[table.pk]))
    return lines


@dataclass(frozen=True)
class VersionLine:
    """A version of a table's schema and what it changed against the one before."""

    version: SchemaVersion
    table: ReplicatorTable
    changes: Sequence[str]
    columns: Sequence[tuple[str, str, str, bool]]


def version_lines(versions: Sequence[SchemaVersion]) -> list[VersionLine]:
    """One query for the versions before."""
    wanted = Q()
    for version in versions:
        wanted |= Q(table=version.table_id, version=version.version - 1)
    earlier = {(v.table_id, v.version): v for v in SchemaVersion.objects.filter(wanted)} if versions else {}
    lines = []
    for version in versions:
        new = version.parsed
        before = earlier.get((version.table_id, version.version - 1))
        columns = [(c.name, c.source_type, str(c.type), c.name in new.key) for c in new.columns]
        lines.append(VersionLine(version, version.table, schema_changes(before, version), columns))
    return lines


def schema_changes(before: SchemaVersion | None, version: SchemaVersion) -> list[str]:
    """In words."""
    if before is None:
        return ["first seen"] if version.version == 1 else []
    return difference(before.definition, version.definition).texts
