"""Garbage collection: staged files without a journal row, applied segments, old log lines and metrics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count

from replicator.errors import TidemarkError
from replicator.faults import reach
from replicator.staging.storage import Storage
from replicator.state.journal import EventKind, SegmentKind
from replicator.targets.kind import Opening
from replicator.targets.registry import target_kind
from webapp.accounts.models import AuditEntry
from webapp.alerts.models import Alert
from webapp.connections.selectors import full_config
from webapp.database import clock, stored
from webapp.destinations.lakes import built_in_lake
from webapp.destinations.models import Destination
from webapp.monitoring.charts.rollups import drop_old_rows
from webapp.monitoring.models import DeadLetterRow, Failure, LogLine, MetricMinute, TimelineEvent
from webapp.monitoring.slo.lag_histograms import drop_old
from webapp.replicators.models import (
    ChunkRow,
    ChunkState,
    Replicator,
    SegmentRow,
    TableEventRow,
)
from webapp.replicators.staging import storage
from webapp.streams.carried import needed
from webapp.streams.services import passed
from webapp.worker.models import WorkerHeartbeat
from webapp.worker.run import wiring
from webapp.worker.run.spark import spark

LOGGER = logging.getLogger("tidemark.upkeep")
ORPHAN_AGE = timedelta(hours=1)
COMMITTED = frozenset({EventKind.TRUNCATE_TABLE.value, EventKind.SWEEP.value})  # with a commit of the target
BATCH = 1000
# In the order in which everybody locks tables.  Without a number of its kind, a table has null there.
COLLECTED = """
WITH gone AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS gone (id, log, chunk)),
locked AS (SELECT t.id, log, chunk FROM replicators_replicatortable t JOIN gone USING (id) ORDER BY t.id
FOR NO KEY UPDATE OF t)
UPDATE replicators_replicatortable t
SET collected = greatest(t.collected, log, CASE WHEN t.loaded < chunk THEN chunk END)
FROM locked WHERE locked.id = t.id
AND t.collected < greatest(log, CASE WHEN t.loaded < chunk THEN chunk END)
"""
SILENT = timedelta(days=1)  # a worker that was not heard of for so long is forgotten


@stored
def collect() -> dict[str, int]:
    """Counts by kind."""
    now = clock()
    staged = storage()
    return {
        "segments": _applied_segments(staged, now),
        "files": sum(_orphans(staged, wiring.label(replicator), now) for replicator in Replicator.objects.all()),
        "tables": dropped_tables(now),
        "rows": _old_rows(now),
    }


def dropped_tables(now: datetime) -> int:
    """Tables that were dropped in targets, and are due; returns their number.

    A destination that does not answer has its turn next time.
    """
    done = 0
    for one in Destination.objects.order_by("id"):
        kind = target_kind(one.kind)
        if kind.clean is not None:
            opening = Opening(spark, built_in_lake(), storage(), "", full_config(one), "")
            try:
                done += kind.clean(opening, now.timestamp())
            except TidemarkError as error:
                LOGGER.warning("Dropped tables of the destination %s stay for now: %s", one.name, error.message)
    return done


def _applied_segments(storage: Storage, now: datetime) -> int:
    """Rows first: a file without a row is garbage, a row without a file would be a loss.

    Not what a stream still keeps.
    """
    before = now - timedelta(hours=settings.TIDEMARK_SEGMENT_RETENTION_HOURS)
    removed = 0
    old = SegmentRow.objects.filter(applied_at__lt=before).exclude(needed(now, "last_sequence"))
    while found := list(old.order_by("id")[:BATCH]):
        with transaction.atomic():
            log, chunks = (
                {row.table_id: row.last_sequence for row in found if row.kind == kind.value}
                for kind in (SegmentKind.LOG, SegmentKind.CHUNK)
            )
            _collected(log, chunks)
            passed([(row.table_id, row.last_sequence) for row in found])
            SegmentRow.objects.filter(pk__in=[row.pk for row in found]).delete()
        reach("garbage.rows.after")
        storage.delete_all([row.path for row in found])
        removed += len(found)
    _applied_events(before, now)
    return removed


def _applied_events(before: datetime, now: datetime) -> None:
    old = TableEventRow.objects.filter(applied_at__lt=before).exclude(needed(now, "sequence"))
    while found := list(old.order_by("id").values_list("pk", "table_id", "sequence", "kind")[:BATCH]):
        with transaction.atomic():
            _collected({table: sequence for _, table, sequence, kind in found if table and kind in COMMITTED}, {})
            passed([(table, sequence) for _, table, sequence, _ in found if table is not None])
            TableEventRow.objects.filter(pk__in=[row[0] for row in found]).delete()


def _collected(log: Mapping[int, int], chunks: Mapping[int, int]) -> None:
    """Store the last sequence numbers, by table, that the journal loses now: a target must have them.

    Chunks of an initial load count only beyond `loaded`.
    """
    tables = sorted({*log, *chunks})
    with connection.cursor() as cursor:
        cursor.execute(COLLECTED, [tables, [log.get(one) for one in tables], [chunks.get(one) for one in tables]])


def _orphans(storage: Storage, folder: str, now: datetime) -> int:
    """Files older than an hour that no row names: left behind by workers that were killed, or by tables that were
    removed.
    """
    old = []
    for info in storage.files(folder):
        written = info.mtime if info.mtime.tzinfo else info.mtime.replace(tzinfo=UTC)
        if now - written > ORPHAN_AGE:
            old.append(storage.path(info))
    removed = 0
    for start in range(0, len(old), BATCH):
        page = old[start : start + BATCH]
        chunks = ChunkRow.objects.filter(path__in=page, state__in=(ChunkState.READING, ChunkState.READ))
        known = set(chunks.values_list("path", flat=True))
        # After the chunks: one that is admitted between the two questions is a segment by the second.
        known |= set(SegmentRow.objects.filter(path__in=page).values_list("path", flat=True))
        reach("garbage.orphans.before")
        gone = sorted(set(page) - known)
        storage.delete_all(gone)
        removed += len(gone)
    return removed


def _old_rows(now: datetime) -> int:
    """Bounded by age, and log lines by number too."""
    days = timedelta(days=settings.TIDEMARK_LOG_RETENTION_DAYS)
    removed = LogLine.objects.filter(at__lt=now - days).delete()[0]
    removed += _lines_beyond(settings.TIDEMARK_LOG_LINES)
    old = now - timedelta(days=settings.TIDEMARK_METRIC_RETENTION_DAYS)
    removed += MetricMinute.objects.filter(minute__lt=old).delete()[0]
    removed += drop_old(now)
    removed += drop_old_rows(now)
    removed += Failure.objects.filter(at__lt=old, resolved_at__isnull=False).delete()[0]
    removed += DeadLetterRow.objects.filter(resolved_at__lt=old).delete()[0]
    ended = now - timedelta(days=settings.TIDEMARK_ALERT_RETENTION_DAYS)
    removed += Alert.objects.filter(cleared_at__lt=ended).delete()[0]
    removed += AuditEntry.objects.filter(at__lt=now - timedelta(days=settings.TIDEMARK_AUDIT_RETENTION_DAYS)).delete()[
        0
    ]
    removed += TimelineEvent.objects.filter(at__lt=old).delete()[0]
    removed += WorkerHeartbeat.objects.filter(seen_at__lt=now - SILENT).delete()[0]
    return removed


def _lines_beyond(most: int) -> int:
    """Delete the oldest lines of each replicator and level beyond `most`: frequent lines of one displace no others."""
    removed = 0
    counted = LogLine.objects.order_by().values_list("replicator", "level").annotate(lines=Count("id"))
    for replicator, level, _ in counted.filter(lines__gt=most):
        mine = LogLine.objects.filter(replicator=replicator, level=level)
        newest = mine.order_by("-id").values_list("id", flat=True)[most]
        removed += mine.filter(id__lte=newest).delete()[0]
    return removed
