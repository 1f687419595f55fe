"""Counters and gauges of hours and days: how they are put together, and how long each is kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction

from webapp.monitoring.models import GaugeRow, LagSpan, MetricRow
from webapp.monitoring.slo.lag_histograms import begin

# The ends of statements that put rows into `monitoring_metricrow AS kept` and `monitoring_gaugerow AS kept`.
ADD = """
ON CONFLICT ON CONSTRAINT one_metric_row_per_span DO UPDATE SET
  inserts = kept.inserts + EXCLUDED.inserts,
  updates = kept.updates + EXCLUDED.updates,
  deletes = kept.deletes + EXCLUDED.deletes,
  reads = kept.reads + EXCLUDED.reads,
  bytes = kept.bytes + EXCLUDED.bytes,
  merges = kept.merges + EXCLUDED.merges,
  merge_seconds = kept.merge_seconds + EXCLUDED.merge_seconds,
  merge_longest = greatest(kept.merge_longest, EXCLUDED.merge_longest)
"""
KEEP_GREATEST = """
ON CONFLICT ON CONSTRAINT one_gauge_row_per_span DO UPDATE SET
  waiting_rows = greatest(kept.waiting_rows, EXCLUDED.waiting_rows),
  waiting_bytes = greatest(kept.waiting_bytes, EXCLUDED.waiting_bytes),
  waiting_seconds = greatest(kept.waiting_seconds, EXCLUDED.waiting_seconds),
  log_kept = greatest(kept.log_kept, EXCLUDED.log_kept)
"""
# Hours into days: what is deleted is in them, in the same statement.
METRIC_DAYS = """
WITH old AS (DELETE FROM monitoring_metricrow WHERE span = 3600 AND at < %s RETURNING *), put AS (
  INSERT INTO monitoring_metricrow AS kept
    (replicator_id, table_id, span, at, inserts, updates, deletes, reads, bytes, merges, merge_seconds, merge_longest)
  SELECT replicator_id, table_id, 86400, date_trunc('day', at, 'UTC'), sum(inserts), sum(updates), sum(deletes),
    sum(reads),
    sum(bytes), sum(merges), sum(merge_seconds), max(merge_longest)
  FROM old GROUP BY 1, 2, 4
""" + ADD + ") SELECT count(*) FROM old"  # fmt: skip
GAUGE_DAYS = """
WITH old AS (DELETE FROM monitoring_gaugerow WHERE span = 3600 AND at < %s RETURNING *), put AS (
  INSERT INTO monitoring_gaugerow AS kept
    (replicator_id, table_id, span, at, waiting_rows, waiting_bytes, waiting_seconds, log_kept)
  SELECT replicator_id, table_id, 86400, date_trunc('day', at, 'UTC'), max(waiting_rows), max(waiting_bytes),
    max(waiting_seconds), max(log_kept)
  FROM old GROUP BY 1, 2, 4
""" + KEEP_GREATEST + ") SELECT count(*) FROM old"  # fmt: skip


@transaction.atomic
def drop_old_rows(now: datetime) -> int:
    """As `webapp.monitoring.slo.lag_histograms.drop_old`, by the same settings.  Returns rows removed."""
    minutes = now - timedelta(days=settings.TIDEMARK_LAG_MINUTE_DAYS)
    days = now - timedelta(days=settings.TIDEMARK_LAG_DAY_DAYS)
    hours = begin(LagSpan.DAY, now - timedelta(days=settings.TIDEMARK_LAG_HOUR_DAYS))
    removed = 0
    for model, roll_up in ((MetricRow, METRIC_DAYS), (GaugeRow, GAUGE_DAYS)):
        removed += model.objects.filter(span=LagSpan.MINUTE, at__lt=minutes).delete()[0]
        with connection.cursor() as cursor:
            cursor.execute(roll_up, [hours])
            removed += cursor.fetchone()[0]
        removed += model.objects.filter(span=LagSpan.DAY, at__lt=days).delete()[0]
    return removed
