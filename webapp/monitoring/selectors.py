"""Reading what happened."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q
from django.utils import timezone

from replicator.telemetry.lags import LagHistogram
from webapp.monitoring.models import LagRow, LagSpan, LogLine, MetricMinute, MetricRow, Stage, TableObjective
from webapp.monitoring.slo.lag_histograms import parsed
from webapp.replicators.models import Replicator, ReplicatorTable

COUNTERS = ("inserts", "updates", "deletes", "reads", "bytes", "merges", "merge_seconds", "events")
LEVELS = ("debug", "info", "warning", "error")


def log_lines(
    replicator: Replicator,
    *,
    level: str | None = None,
    stage: str | None = None,
    table: str | None = None,
    text: str = "",
    after: int | None = None,
    before: int | None = None,
    limit: int = 200,
) -> list[LogLine]:
    """Oldest first: the newest `limit` lines, or the first `limit` after the id `after`.

    `level` is the least one shown.
    """
    lines = LogLine.objects.filter(replicator=replicator)
    if level in LEVELS:
        lines = lines.filter(level__in=LEVELS[LEVELS.index(level) :])
    if stage in Stage.values:
        lines = lines.filter(stage=stage)
    if table:
        lines = lines.filter(table=table)
    if text:
        lines = lines.filter(Q(message__icontains=text) | Q(table__icontains=text))
    if before is not None:
        lines = lines.filter(id__lt=before)
    if after is not None:
        return list(lines.filter(id__gt=after).order_by("id")[:limit])
    return list(lines.order_by("-id")[:limit])[::-1]


def metrics(replicator: Replicator, *, table: ReplicatorTable | None = None, minutes: int = 60) -> list[dict[str, Any]]:
    """Counters by minute, oldest first; of one table, or of all tables together.  One query."""
    since = timezone.now() - timedelta(minutes=minutes)
    if table is None:
        rows = MetricRow.objects.filter(replicator=replicator, table=None, span=LagSpan.MINUTE, at__gte=since)
        found = rows.order_by("at").annotate(minute=F("at"), events=F("inserts") + F("updates") + F("deletes"))
        return list(found.values("minute", *COUNTERS))
    own = MetricMinute.objects.filter(replicator=replicator, table=table, minute__gte=since)
    return list(own.values("minute", *COUNTERS))


def lag_minutes(
    replicator: Replicator, *, table: ReplicatorTable | None = None, minutes: int = 60
) -> dict[datetime, LagHistogram]:
    """How late the events of each minute were; of one table, or of all tables together.  One query."""
    since = timezone.now() - timedelta(minutes=minutes)
    rows = LagRow.objects.filter(replicator=replicator, table=table, span=LagSpan.MINUTE, at__gte=since)
    return {row.at: parsed(row).histogram for row in rows}


def table_objectives(replicator: Replicator) -> list[TableObjective]:
    """Return the objectives of tables that have their own, by table name."""
    found = TableObjective.objects.filter(table__replicator=replicator, percent__isnull=False)
    return list(found.select_related("table").order_by("table__database", "table__name"))
