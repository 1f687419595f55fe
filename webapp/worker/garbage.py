"""What nobody needs any more: staged files without a journal row, applied segments, old log lines and metrics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import Max

from replicator.faults import reach
from replicator.staging.storage import Storage
from webapp.monitoring.models import Failure, LogLine, MetricMinute, TimelineEvent
from webapp.replicators.models import ChunkRow, ChunkState, Replicator, SegmentRow, TableEventRow
from webapp.worker import wiring
from webapp.worker.database import clock, stored

ORPHAN_AGE = timedelta(hours=1)
BATCH = 1000


@stored
def collect() -> dict[str, int]:
    """Counts by kind."""
    now = clock()
    storage = wiring.storage()
    return {
        "segments": _applied_segments(storage, now),
        "files": sum(_orphans(storage, wiring.label(replicator), now) for replicator in Replicator.objects.all()),
        "rows": _old_rows(now),
    }


def _applied_segments(storage: Storage, now: datetime) -> int:
    """Rows first: a file without a row is garbage, a row without a file would be a loss."""
    before = now - timedelta(hours=settings.TIDEMARK_SEGMENT_RETENTION_HOURS)
    removed = 0
    while found := list(SegmentRow.objects.filter(applied_at__lt=before).order_by("id")[:BATCH]):
        SegmentRow.objects.filter(pk__in=[row.pk for row in found]).delete()
        reach("garbage.rows.after")
        for row in found:
            storage.delete(row.path)
        removed += len(found)
    TableEventRow.objects.filter(applied_at__lt=before).delete()
    return removed


def _orphans(storage: Storage, folder: str, now: datetime) -> int:
    """Files older than an hour that no row names: left behind by workers that were killed, or by tables that were removed."""
    root = storage.local("")
    old = []
    for info in storage.files(folder):
        written = info.mtime if info.mtime.tzinfo else info.mtime.replace(tzinfo=UTC)
        if now - written > ORPHAN_AGE:
            old.append(info.path.removeprefix(root).lstrip("/"))
    removed = 0
    for start in range(0, len(old), BATCH):
        page = old[start : start + BATCH]
        chunks = ChunkRow.objects.filter(path__in=page, state__in=(ChunkState.READING, ChunkState.READ))
        known = set(chunks.values_list("path", flat=True))
        # After the chunks: one that is admitted between the two questions is a segment by the second.
        known |= set(SegmentRow.objects.filter(path__in=page).values_list("path", flat=True))
        reach("garbage.orphans.before")
        for path in set(page) - known:
            storage.delete(path)
            removed += 1
    return removed


def _old_rows(now: datetime) -> int:
    """Bounded by age, and log lines by number too."""
    days = timedelta(days=settings.TIDEMARK_LOG_RETENTION_DAYS)
    removed = LogLine.objects.filter(at__lt=now - days).delete()[0]
    newest = LogLine.objects.aggregate(newest=Max("id"))["newest"] or 0
    removed += LogLine.objects.filter(id__lte=newest - settings.TIDEMARK_LOG_LINES).delete()[0]
    old = now - timedelta(days=settings.TIDEMARK_METRIC_RETENTION_DAYS)
    removed += MetricMinute.objects.filter(minute__lt=old).delete()[0]
    removed += Failure.objects.filter(at__lt=old, resolved_at__isnull=False).delete()[0]
    removed += TimelineEvent.objects.filter(at__lt=old).delete()[0]
    return removed
