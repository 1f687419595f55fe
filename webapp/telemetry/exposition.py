"""Figures for Prometheus, read at the scrape in a bounded number of queries and series.

Counters only grow: what is kept for a while only (failures, minutes) is counted apart.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import redis
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, F, Min, Sum
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from replicator.telemetry.slo import MINUTES
from webapp.celery import QUEUES, app
from webapp.database import clock
from webapp.monitoring.failures import incidents
from webapp.monitoring.models import Failure
from webapp.monitoring.slo.status import standings
from webapp.replicators.models import Replicator, ReplicatorTable, RunState, SegmentRow, SnapshotRun, Status
from webapp.replicators.selectors import table_lag_ms
from webapp.streams.selectors import group_lags, streams
from webapp.telemetry.broker import broker
from webapp.telemetry.models import FailureCount, LineageEvent, LineageState
from webapp.worker.lease.lease_store import live_leases
from webapp.worker.models import WorkerHeartbeat

SCRAPE_MS = 8000
OPERATIONS = ("inserted", "updated", "deleted", "read")
BACKLOG = (
    ("rows", "Changes staged and not yet queryable"),
    ("bytes", "Size of the staged files that are not applied yet"),
)


def exposed() -> bytes:
    """The text of one scrape.  A database that does not answer in time raises."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Scrape())
    return generate_latest(registry)


class Scrape(Collector):
    """One scrape's look at the metadata database, in one transaction with a time limit."""

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, with about a dozen queries for any number of replicators and tables."""
        began = time.monotonic()
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(SCRAPE_MS)])
            found = [*self._replicators(), *_failures(), *_workers(), *_lineage(), *_streams()]
        yield from found
        yield from _queues()
        seconds = GaugeMetricFamily("tidemark_scrape_seconds", "Duration of this scrape")
        seconds.add_metric([], time.monotonic() - began)
        yield seconds

    def _replicators(self) -> Iterator[Metric]:
        now = clock()
        replicators = {one.pk: one for one in Replicator.objects.select_related("connection", "destination")}
        tables = list(
            ReplicatorTable.objects.filter(replicator__in=replicators).order_by("replicator_id", "database", "name")
        )
        shown = tables[: settings.TIDEMARK_METRICS_TABLES]
        waiting = _waiting()
        yield from _states(replicators, tables)
        yield from _lags(replicators, tables, shown, now)
        yield from _objectives(replicators, tables)
        yield from _backlog(replicators, tables, shown, waiting, now)
        yield from _totals(replicators, shown)
        yield from _source_logs(replicators, now)
        left = GaugeMetricFamily(
            "tidemark_tables_not_exported", "Tables without their own series (TIDEMARK_METRICS_TABLES)"
        )
        left.add_metric([], len(tables) - len(shown))
        yield left


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tidemark_{name}", text, labels=labels)


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"tidemark_{name}", text, labels=labels)


def _states(replicators: Mapping[int, Replicator], tables: list[ReplicatorTable]) -> Iterator[Metric]:
    status = _gauge("replicator_status", "1 for the current status, 0 for the others", "replicator", "source", "status")
    for one in replicators.values():
        for word in Status.values:
            status.add_metric([one.name, one.connection.kind, word], float(one.status == word))
    yield status
    count = _gauge("tables", "Tables by state", "replicator", "state")
    for (pk, state), number in Counter((table.replicator_id, table.state) for table in tables).items():
        count.add_metric([replicators[pk].name, state], number)
    yield count
    open_runs = SnapshotRun.objects.filter(state__in=(RunState.PLANNING, RunState.READING)).order_by()
    running = _gauge("snapshots_running", "Running snapshots", "replicator")
    for pk, number in open_runs.values_list("table__replicator_id").annotate(Count("id")):
        if pk in replicators:
            running.add_metric([replicators[pk].name], number)
    yield running


def _lags(
    replicators: Mapping[int, Replicator], tables: list[ReplicatorTable], shown: list[ReplicatorTable], now: datetime
) -> Iterator[Metric]:
    lags = {table.pk: table_lag_ms(table, replicators[table.replicator_id], now) for table in tables}
    each = _gauge("table_lag_seconds", "Commit at the source to queryable in the target, now", "replicator", "table")
    for table in shown:
        if (lag := lags[table.pk]) is not None:
            each.add_metric([replicators[table.replicator_id].name, str(table)], lag / 1000)
    yield each
    worst: dict[int, int] = {}
    for table in tables:
        if (lag := lags[table.pk]) is not None:
            worst[table.replicator_id] = max(worst.get(table.replicator_id, 0), lag)
    whole = _gauge("replicator_lag_seconds", "The worst lag of its streaming tables", "replicator")
    objective = _gauge("slo_seconds", "SLO: time from commit to queryable", "replicator")
    for pk, one in replicators.items():
        if pk in worst:
            whole.add_metric([one.name], worst[pk] / 1000)
        objective.add_metric([one.name], one.parsed_options.slo_minutes * 60)
    yield from (whole, objective)


def _objectives(replicators: Mapping[int, Replicator], tables: list[ReplicatorTable]) -> Iterator[Metric]:
    """As last looked at; `table` is empty for a replicator's own objective."""
    whose = ("replicator", "table")
    objective = _gauge("slo_percent", "SLO: share of the changes", *whose)
    kept = _gauge(
        "slo_in_time_percent", "Changes in time, by window; waiting changes that are late count", *whose, "window"
    )
    burn = _gauge("slo_burn_rate", "1 uses up the error budget in exactly 30 days", *whose, "window")
    left = _gauge(
        "slo_budget_left_percent", "Remaining share of the 30-day error budget; negative when overspent", *whose
    )
    names = {table.pk: str(table) for table in tables}
    for (replicator, table), figures in standings(replicators).items():
        labels = [replicators[replicator].name, names.get(table, "") if table else ""]
        objective.add_metric(labels, figures.objective.percent)
        for window, tally in figures.windows.items():
            if tally.percent is not None:
                kept.add_metric([*labels, window], tally.percent)
        for window in MINUTES:
            burn.add_metric([*labels, window], figures.burn(window))
        if figures.budget_left is not None:
            left.add_metric(labels, figures.budget_left)
    yield from (objective, kept, burn, left)


class StagedTotals(NamedTuple):
    """What is staged and not applied; `oldest`: the first commit among it."""

    rows: int = 0
    bytes: int = 0
    oldest: datetime | None = None


def _waiting() -> dict[int, StagedTotals]:
    """By table."""
    pending = SegmentRow.objects.filter(applied_at=None, last_sequence__gt=F("table__applied")).order_by()
    found = pending.values_list("table_id").annotate(Sum("rows"), Sum("size"), Min("first_commit_ts"))
    return {pk: StagedTotals(rows, size, oldest) for pk, rows, size, oldest in found}


def _backlog(
    replicators: Mapping[int, Replicator],
    tables: list[ReplicatorTable],
    shown: list[ReplicatorTable],
    waiting: Mapping[int, StagedTotals],
    now: datetime,
) -> Iterator[Metric]:
    own: dict[int, list[StagedTotals]] = {pk: [] for pk in replicators}
    for table in tables:
        own[table.replicator_id].append(waiting.get(table.pk, StagedTotals()))
    for unit, text in BACKLOG:
        whole = _gauge(f"backlog_{unit}", text, "replicator")
        each = _gauge(f"table_backlog_{unit}", text, "replicator", "table")
        for pk, found in own.items():
            whole.add_metric([replicators[pk].name], sum(getattr(one, unit) for one in found))
        for table in shown:
            names = [replicators[table.replicator_id].name, str(table)]
            each.add_metric(names, getattr(waiting.get(table.pk, StagedTotals()), unit))
        yield from (whole, each)
    seconds = _gauge("backlog_seconds", "Age of the oldest change that is staged and not yet queryable", "replicator")
    for pk, found in own.items():
        ages = [max(0.0, (now - one.oldest).total_seconds()) for one in found if one.oldest is not None]
        seconds.add_metric([replicators[pk].name], max(ages, default=0.0))
    yield seconds


def _totals(replicators: Mapping[int, Replicator], shown: list[ReplicatorTable]) -> Iterator[Metric]:
    rows = _counter("rows", "Row events that reached the target", "replicator", "table", "operation")
    merges = _counter("merges", "Target commits with rows", "replicator", "table")
    seconds = _counter("merge_seconds", "Duration of target commits", "replicator", "table")
    nulls = _counter("zero_dates", "Invalid dates that became null", "replicator", "table")
    dead_letters = _gauge("dead_letter_rows", "Dead-letter rows, missing in the target", "replicator", "table")
    parked = _gauge("parked_rows", "Deprecated: tidemark_dead_letter_rows", "replicator", "table")
    for table in shown:
        names = [replicators[table.replicator_id].name, str(table)]
        dead_letters.add_metric(names, table.dead_letters)
        parked.add_metric(names, table.dead_letters)
        for operation in OPERATIONS:
            rows.add_metric([*names, operation], getattr(table, f"rows_{operation}"))
        merges.add_metric(names, table.merges)
        seconds.add_metric(names, table.merge_seconds)
        nulls.add_metric(names, table.zero_dates)
    yield from (rows, merges, seconds, nulls, dead_letters, parked)


def _source_logs(replicators: Mapping[int, Replicator], now: datetime) -> Iterator[Metric]:
    changes = _counter("changes", "Sequence numbers assigned: row changes, snapshot rows and DDL", "replicator")
    read = _gauge(
        "source_read_age_seconds", "Seconds since the time up to which the source's log is read", "replicator"
    )
    kept = _gauge(
        "source_log_kept_bytes",
        "Log that the source retains for the replicator (WAL of the slot, binary log after the checkpoint)",
        "replicator",
    )
    most = _gauge("source_log_kept_limit_bytes", "Limit at which the retained log is lost", "replicator")
    for one in replicators.values():
        changes.add_metric([one.name], one.next_sequence)
        if one.source_ts is not None:
            read.add_metric([one.name], max(0.0, (now - one.source_ts).total_seconds()))
        if one.log_held_bytes is not None:
            kept.add_metric([one.name], one.log_held_bytes)
        if one.log_held_most is not None:
            most.add_metric([one.name], one.log_held_most)
    yield from (changes, read, kept, most)


def _failures() -> Iterator[Metric]:
    attempts = _counter("failures", "Failed attempts", "replicator", "stage", "code")
    retries = _counter("retries", "Failed attempts that are retried", "replicator", "stage", "code")
    for row in FailureCount.objects.select_related("replicator").only(
        "replicator__name", "stage", "code", "attempts", "retries"
    ):
        labels = [row.replicator.name, row.stage, row.code]
        attempts.add_metric(labels, row.attempts)
        retries.add_metric(labels, row.retries)
    unsolved = _gauge("failures_open", "Unresolved failures; all attempts of one failure count once", "replicator")
    open_now = incidents(Failure.objects.filter(resolved_at=None))
    for pk, name in Replicator.objects.filter(pk__in=open_now).values_list("pk", "name"):
        unsolved.add_metric([name], open_now[pk])
    yield from (attempts, retries, unsolved)


def _workers() -> Iterator[Metric]:
    now = clock()
    age = _gauge(
        "heartbeat_age_seconds", "Seconds since the last heartbeat of a worker or the supervisor", "name", "role"
    )
    for row in WorkerHeartbeat.objects.all():
        age.add_metric([row.name, row.role], max(0.0, (now - row.seen_at).total_seconds()))
    yield age
    held = Counter(name.split(":")[0] for name in live_leases())
    leases = _gauge("leases", "Leases that are held now", "work")
    for work in ("capture", "snapshot", "merge"):
        leases.add_metric([work], held[work])
    yield leases


def _lineage() -> Iterator[Metric]:
    state = LineageState.objects.first() or LineageState()
    queued = _gauge("openlineage_queued", "OpenLineage events waiting for delivery")
    queued.add_metric([], LineageEvent.objects.filter(delivered_at=None).count())
    delivered = _counter("openlineage_delivered", "OpenLineage events delivered")
    delivered.add_metric([], state.delivered)
    dropped = _counter("openlineage_dropped", "OpenLineage events dropped because the queue was full, or rejected")
    dropped.add_metric([], state.dropped)
    failing = _gauge("openlineage_failing", "Consecutive failed delivery attempts")
    failing.add_metric([], state.attempt)
    yield from (queued, delivered, dropped, failing)


def _streams() -> Iterator[Metric]:
    behind = _gauge("stream_behind", "Lag of a group's slowest shard in sequence numbers", "stream", "group")
    seconds = _gauge("stream_lag_seconds", "Age of the oldest change that a group has not acked", "stream", "group")
    found = list(streams()[: settings.TIDEMARK_METRICS_TABLES])
    for lags in group_lags(found).values():
        for lag in lags:
            labels = [lag.group.stream.name, lag.group.name]
            behind.add_metric(labels, lag.behind)
            seconds.add_metric(labels, lag.seconds)
    yield from (behind, seconds)


def _queues() -> Iterator[Metric]:
    """Of the broker; without it only that it does not answer."""
    up = _gauge("redis_up", "1 where the broker answers")
    waiting = _gauge("queue_messages", "Tasks that wait in a queue", "queue")
    try:
        with broker() as client, client.pipeline(transaction=False) as pipe:
            for queue in QUEUES:
                pipe.llen(str(app.conf.broker_transport_options.get("global_keyprefix", "")) + queue)
            lengths = pipe.execute()
    except (redis.RedisError, ValueError):
        up.add_metric([], 0)
        yield up
        return
    up.add_metric([], 1)
    for queue, length in zip(QUEUES, lengths, strict=True):
        waiting.add_metric([queue], length)
    yield from (up, waiting)
