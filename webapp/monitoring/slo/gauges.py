"""What waits for the target, and what the source keeps of its log, looked at every half minute.

Only what waits is written, and of the source's log only what has changed: an idle replicator writes nothing.  The loops
that move rows are not concerned.
"""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, connection, transaction

from webapp.monitoring.charts.rollups import KEEP_GREATEST
from webapp.monitoring.models import LagSpan
from webapp.monitoring.slo.lag_histograms import begin

FRESH_SECONDS = 120  # what was seen of a source's log earlier is of no use now
NEWS_BYTES, NEWS_SHARE = 1 << 20, 0.01  # a log that is kept has changed by both
LOOK = (
    """
WITH waiting AS (
  SELECT t.replicator_id, t.id AS table_id, sum(s.rows) AS rows, sum(s.size) AS bytes,
    greatest(0, extract(epoch FROM %(now)s - min(s.first_commit_ts))) AS seconds
  FROM replicators_segmentrow s JOIN replicators_replicatortable t ON t.id = s.table_id
  WHERE s.applied_at IS NULL AND s.last_sequence > t.applied
  GROUP BY t.id
), logs AS (
  SELECT r.id AS replicator_id, r.log_held_bytes AS kept
  FROM replicators_replicator r LEFT JOIN LATERAL (
    SELECT g.log_kept FROM monitoring_gaugerow g
    WHERE g.replicator_id = r.id AND g.table_id IS NULL AND g.span = 60 AND g.log_kept IS NOT NULL
      ORDER BY g.at DESC LIMIT 1
  ) AS last ON true
  WHERE r.log_held_bytes IS NOT NULL AND r.log_held_at > %(now)s - make_interval(secs => %(fresh)s)
    AND (last.log_kept IS NULL
      OR abs(r.log_held_bytes - last.log_kept) > greatest(%(bytes)s, %(share)s * last.log_kept))
), told AS (
  SELECT replicator_id, table_id, rows, bytes, coalesce(seconds, 0) AS seconds, NULL::bigint AS kept FROM waiting
  UNION ALL
  SELECT replicator_id, NULL, coalesce(sum(rows), 0), coalesce(sum(bytes), 0), coalesce(max(seconds), 0), max(kept)
  FROM waiting FULL JOIN logs USING (replicator_id) GROUP BY replicator_id
)
INSERT INTO monitoring_gaugerow AS kept
  (replicator_id, table_id, span, at, waiting_rows, waiting_bytes, waiting_seconds, log_kept)
SELECT replicator_id, table_id, span, at, rows, bytes, seconds, told.kept
FROM told, (VALUES (60, %(minute)s::timestamptz), (3600, %(hour)s)) AS row (span, at)
ORDER BY replicator_id, table_id, span
"""
    + KEEP_GREATEST
)


def look(now: datetime) -> int:
    """At all replicators: one statement.  Returns rows written."""
    values: dict[str, int | float | datetime] = {
        "now": now,
        "minute": begin(LagSpan.MINUTE, now),
        "hour": begin(LagSpan.HOUR, now),
        "fresh": FRESH_SECONDS,
        "bytes": NEWS_BYTES,
        "share": NEWS_SHARE,
    }
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(LOOK, values)
            return int(cursor.rowcount)
    except IntegrityError:  # a table was removed meanwhile: the next look is soon
        return 0
