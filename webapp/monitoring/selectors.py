"""Reading what happened."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from webapp.monitoring.models import Failure, LogLine, MetricMinute, TimelineEvent
from webapp.replicators.models import Replicator, ReplicatorTable

LEVELS = ("debug", "info", "warning", "error")


def log_lines(
    replicator: Replicator,
    *,
    level: str | None = None,
    table: str | None = None,
    text: str = "",
    after: int | None = None,
    before: int | None = None,
    limit: int = 200,
) -> list[LogLine]:
    """Oldest first: the newest `limit` lines, or the first `limit` after the id `after`.  `level` is the least one shown."""
    lines = LogLine.objects.filter(replicator=replicator)
    if level in LEVELS:
        lines = lines.filter(level__in=LEVELS[LEVELS.index(level) :])
    if table:
        lines = lines.filter(table=table)
    if text:
        lines = lines.filter(Q(message__icontains=text) | Q(table__icontains=text))
    if before is not None:
        lines = lines.filter(id__lt=before)
    if after is not None:
        return list(lines.filter(id__gt=after).order_by("id")[:limit])
    return list(lines.order_by("-id")[:limit])[::-1]


def timeline(replicator: Replicator, limit: int = 50) -> list[TimelineEvent]:
    """Newest first."""
    return list(TimelineEvent.objects.filter(replicator=replicator).select_related("user")[:limit])


def open_failures(replicator: Replicator, limit: int = 50) -> list[Failure]:
    """Failures that nothing has resolved yet, newest first."""
    return list(Failure.objects.filter(replicator=replicator, resolved_at=None).select_related("table")[:limit])


def metrics(
    replicator: Replicator, *, table: ReplicatorTable | None = None, minutes: int = 60
) -> QuerySet[MetricMinute]:
    """Counters by minute, oldest first; of one table, or of all tables (several rows a minute)."""
    since = timezone.now() - timedelta(minutes=minutes)
    rows = MetricMinute.objects.filter(replicator=replicator, minute__gte=since)
    return rows.filter(table=table) if table is not None else rows.exclude(table=None)


def slo(replicator: Replicator, minutes: int = 1440) -> tuple[float | None, int]:
    """Percent of events that were queryable in time (judged by the minute's worst, p95 and p50), and their number."""
    limit = replicator.parsed_options.slo_minutes * 60_000
    good = total = 0.0
    rows = metrics(replicator, minutes=minutes).filter(events__gt=0, lag_max_ms__isnull=False)
    for events, p50, p95, worst in rows.values_list("events", "lag_p50_ms", "lag_p95_ms", "lag_max_ms"):
        share = 1.0 if worst <= limit else 0.95 if p95 <= limit else 0.5 if p50 <= limit else 0.0
        good += events * share
        total += events
    return (100 * good / total if total else None), int(total)
