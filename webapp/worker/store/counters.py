"""Counters by minute, and with them by hour."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import connection

from replicator.state.journal import Applied, Segment
from webapp.monitoring.charts.rollups import ADD
from webapp.monitoring.models import LagSpan
from webapp.monitoring.slo.lag_histograms import begin
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.worker.store.applied_segments import AppliedBatch

CAPTURED = """
INSERT INTO monitoring_metricminute
  (replicator_id, table_id, minute, inserts, updates, deletes, reads, bytes, merges, merge_seconds, events)
VALUES (%s, NULL, %s, %s, %s, %s, 0, %s, 0, 0, %s)
ON CONFLICT ON CONSTRAINT one_metric_per_minute DO UPDATE SET
  inserts = monitoring_metricminute.inserts + EXCLUDED.inserts,
  updates = monitoring_metricminute.updates + EXCLUDED.updates,
  deletes = monitoring_metricminute.deletes + EXCLUDED.deletes,
  bytes = monitoring_metricminute.bytes + EXCLUDED.bytes,
  events = monitoring_metricminute.events + EXCLUDED.events
"""
# The table's minute and hour, and the replicator's, in one statement.
APPLIED = (
    """
WITH told (inserts, updates, deletes, reads, bytes, merges, seconds, events) AS (
  VALUES (%(inserts)s::bigint, %(updates)s::bigint, %(deletes)s::bigint, %(reads)s::bigint, %(bytes)s::bigint, 1,
    %(seconds)s::double precision, %(events)s::bigint)
), minute AS (
  INSERT INTO monitoring_metricminute AS kept
    (replicator_id, table_id, minute, inserts, updates, deletes, reads, bytes, merges, merge_seconds, merge_longest,
      events)
  SELECT %(replicator)s, %(table)s, %(minute)s, inserts, updates, deletes, reads, bytes, merges, seconds, seconds,
    events
  FROM told
  ON CONFLICT ON CONSTRAINT one_metric_per_minute DO UPDATE SET
    inserts = kept.inserts + EXCLUDED.inserts,
    updates = kept.updates + EXCLUDED.updates,
    deletes = kept.deletes + EXCLUDED.deletes,
    reads = kept.reads + EXCLUDED.reads,
    bytes = kept.bytes + EXCLUDED.bytes,
    merges = kept.merges + EXCLUDED.merges,
    merge_seconds = kept.merge_seconds + EXCLUDED.merge_seconds,
    merge_longest = greatest(kept.merge_longest, EXCLUDED.merge_longest),
    events = kept.events + EXCLUDED.events
)
INSERT INTO monitoring_metricrow AS kept
  (replicator_id, table_id, span, at, inserts, updates, deletes, reads, bytes, merges, merge_seconds, merge_longest)
SELECT %(replicator)s, row.table_id, row.span, row.at, inserts, updates, deletes, reads, bytes, merges, seconds, seconds
FROM told, (VALUES
  (NULL, 60, %(minute)s::timestamptz), (NULL, 3600, %(hour)s), (%(table)s::bigint, 3600, %(hour)s)
) AS row (table_id, span, at)
"""
    + ADD
)


def count_captured(replicator: Replicator, segments: Sequence[Segment], now: datetime) -> None:
    """What came out of the log, on the row without a table."""
    if not segments:
        return
    sums = [sum(getattr(s, name) for s in segments) for name in ("inserts", "updates", "deletes", "size", "rows")]
    with connection.cursor() as cursor:
        cursor.execute(CAPTURED, [replicator.pk, begin(LagSpan.MINUTE, now), *sums])


def count_applied(table: ReplicatorTable, covered: AppliedBatch, result: Applied) -> None:
    """One target commit.  Snapshot rows count as reads."""
    values: dict[str, int | float | datetime] = {
        "replicator": table.replicator_id,
        "table": table.pk,
        "minute": begin(LagSpan.MINUTE, result.queryable_at),
        "hour": begin(LagSpan.HOUR, result.queryable_at),
        "inserts": covered.inserts,
        "updates": covered.updates,
        "deletes": covered.deletes,
        "reads": covered.reads,
        "bytes": covered.bytes,
        "seconds": result.seconds,
        "events": covered.changes,
    }
    with connection.cursor() as cursor:
        cursor.execute(APPLIED, values)
