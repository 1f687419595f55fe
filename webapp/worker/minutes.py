"""Counters by minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from replicator.state.journal import Applied, Segment
from webapp.replicators.models import Replicator, ReplicatorTable

CAPTURED = """
INSERT INTO monitoring_metricminute
  (replicator_id, table_id, minute, inserts, updates, deletes, reads, bytes, merges, merge_seconds, lag_sum_ms, events)
VALUES (%s, NULL, %s, %s, %s, %s, 0, %s, 0, 0, 0, %s)
ON CONFLICT ON CONSTRAINT one_metric_per_minute DO UPDATE SET
  inserts = monitoring_metricminute.inserts + EXCLUDED.inserts,
  updates = monitoring_metricminute.updates + EXCLUDED.updates,
  deletes = monitoring_metricminute.deletes + EXCLUDED.deletes,
  bytes = monitoring_metricminute.bytes + EXCLUDED.bytes,
  events = monitoring_metricminute.events + EXCLUDED.events
"""
APPLIED = """
INSERT INTO monitoring_metricminute
  (replicator_id, table_id, minute, inserts, updates, deletes, reads, bytes, merges, merge_seconds,
   lag_p50_ms, lag_p95_ms, lag_max_ms, lag_sum_ms, events)
VALUES (%s, %s, %s, %s, %s, %s, %s, 0, 1, %s, %s, %s, %s, %s, %s)
ON CONFLICT ON CONSTRAINT one_metric_per_minute DO UPDATE SET
  inserts = monitoring_metricminute.inserts + EXCLUDED.inserts,
  updates = monitoring_metricminute.updates + EXCLUDED.updates,
  deletes = monitoring_metricminute.deletes + EXCLUDED.deletes,
  reads = monitoring_metricminute.reads + EXCLUDED.reads,
  merges = monitoring_metricminute.merges + 1,
  merge_seconds = monitoring_metricminute.merge_seconds + EXCLUDED.merge_seconds,
  lag_p50_ms = CASE WHEN monitoring_metricminute.events + EXCLUDED.events = 0 THEN NULL ELSE
    (COALESCE(monitoring_metricminute.lag_p50_ms, 0) * monitoring_metricminute.events
     + COALESCE(EXCLUDED.lag_p50_ms, 0) * EXCLUDED.events) / (monitoring_metricminute.events + EXCLUDED.events) END,
  lag_p95_ms = GREATEST(monitoring_metricminute.lag_p95_ms, EXCLUDED.lag_p95_ms),
  lag_max_ms = GREATEST(monitoring_metricminute.lag_max_ms, EXCLUDED.lag_max_ms),
  lag_sum_ms = monitoring_metricminute.lag_sum_ms + EXCLUDED.lag_sum_ms,
  events = monitoring_metricminute.events + EXCLUDED.events
"""


@dataclass(frozen=True)
class Covered:
    """The segments that a target commit covers anew: their row events, and the commit times of the log's."""

    inserts: int
    updates: int
    deletes: int
    reads: int
    first_commit_ts: datetime | None
    last_commit_ts: datetime | None

    @property
    def changes(self) -> int:
        """Without snapshot rows."""
        return self.inserts + self.updates + self.deletes


def count_captured(replicator: Replicator, segments: Sequence[Segment], now: datetime) -> None:
    """What came out of the log, on the row without a table."""
    if not segments:
        return
    sums = [sum(getattr(s, name) for s in segments) for name in ("inserts", "updates", "deletes", "size", "rows")]
    with connection.cursor() as cursor:
        cursor.execute(CAPTURED, [replicator.pk, _minute(now), *sums])


def lags_ms(covered: Covered, queryable_at: datetime) -> tuple[int, int, int] | None:
    """(p50, p95, max) of the commit, its changes taken as spread evenly between the first and the last commit time."""
    if covered.first_commit_ts is None or covered.last_commit_ts is None:
        return None
    longest = max(0, _milliseconds(covered.first_commit_ts, queryable_at))
    shortest = max(0, _milliseconds(covered.last_commit_ts, queryable_at))
    span = longest - shortest
    return shortest + span // 2, shortest + span * 95 // 100, longest


def count_applied(table: ReplicatorTable, covered: Covered, result: Applied) -> None:
    """One target commit.  Snapshot rows count as reads, and have no lag."""
    p50, p95, longest = lags_ms(covered, result.queryable_at) or (None, None, None)
    with connection.cursor() as cursor:
        cursor.execute(
            APPLIED,
            [
                table.replicator_id, table.pk, _minute(result.queryable_at), covered.inserts, covered.updates,
                covered.deletes, covered.reads, result.seconds, p50, p95, longest, (p50 or 0) * covered.changes,
                covered.changes,
            ],
        )  # fmt: skip


def _minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def _milliseconds(since: datetime, until: datetime) -> int:
    return int((until - since).total_seconds() * 1000)
