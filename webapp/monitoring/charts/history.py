"""What happened to a replicator or one of its tables over a range of time, put together into points.

Counters are added, what waited and the longest merge are the greatest of a point, and percentiles are of all its events
together: histograms are merged, percentiles never.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from replicator.telemetry.lags import LagHistogram
from webapp.monitoring.charts.ranges import Range
from webapp.monitoring.models import LagRow, LagSpan
from webapp.replicators.models import Replicator, ReplicatorTable

PARTS = ("counters", "lags", "gauges", "failures")
PERCENTILES = (50, 95, 99)
BIN = "floor(extract(epoch FROM {at}) / %(step)s)::bigint * %(step)s"
COUNTERS = f"""
SELECT {BIN}, sum(inserts)::bigint, sum(updates)::bigint, sum(deletes)::bigint, sum(reads)::bigint, sum(bytes)::bigint,
  sum(merges)::bigint, sum(merge_seconds), max(merge_longest)
FROM {{rows}} WHERE replicator_id = %(replicator)s AND {{whose}} AND {{at}} >= %(begin)s AND {{at}} < %(end)s GROUP BY 1
"""
GAUGES = f"""
SELECT {BIN}, max(waiting_rows), max(waiting_bytes), max(waiting_seconds), max(log_kept)
FROM monitoring_gaugerow
WHERE replicator_id = %(replicator)s AND {{whose}} AND at >= %(begin)s AND at < %(end)s GROUP BY 1
"""
# Written only where it has changed: what it was when the range begins.
KEPT_BEFORE = """
SELECT log_kept FROM monitoring_gaugerow
WHERE replicator_id = %(replicator)s AND table_id IS NULL AND span = ANY(%(spans)s) AND at < %(begin)s
  AND log_kept IS NOT NULL
ORDER BY at DESC LIMIT 1
"""
FAILURES = f"""
SELECT {BIN}, count(*), count(next_retry_at) FROM monitoring_failure
WHERE replicator_id = %(replicator)s AND {{whose}} AND at >= %(begin)s AND at < %(end)s GROUP BY 1
"""


@dataclass
class Point:
    """`seconds` of it are over.  failures: failed attempts; retries: those that another was to follow.

    log_kept: bytes, None where it is not known (or the point is of a table).  known: False before the replicator was
    there.
    """

    at: datetime
    seconds: float
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    reads: int = 0
    bytes: int = 0
    merges: int = 0
    merge_seconds: float = 0.0
    merge_longest: float = 0.0
    waiting_rows: int = 0
    waiting_bytes: int = 0
    waiting_seconds: float = 0.0
    log_kept: int | None = None
    failures: int = 0
    retries: int = 0
    lags: LagHistogram = field(default_factory=LagHistogram)
    known: bool = True

    @property
    def rows(self) -> int:
        return self.inserts + self.updates + self.deletes + self.reads

    @property
    def merge_mean(self) -> float | None:
        """Seconds of a merge; None without any."""
        return self.merge_seconds / self.merges if self.merges else None

    def lag(self, percent: float) -> float | None:
        """Seconds within which `percent` % of its events became queryable; None without an event."""
        return self.lags.percentile(percent)

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        names = (
            "inserts", "updates", "deletes", "reads", "bytes", "merges", "merge_seconds", "merge_longest",
            "waiting_rows", "waiting_bytes", "waiting_seconds", "log_kept", "failures", "retries",
        )  # fmt: skip
        lags = {f"lag_p{percent}_ms": self.lag(percent) for percent in PERCENTILES}
        milliseconds = {name: None if lag is None else round(lag * 1000) for name, lag in lags.items()}
        return {
            "at": self.at,
            **{name: getattr(self, name) for name in names},
            "events": self.lags.events,
            **milliseconds,
        }


def read(
    replicator: Replicator, shown: Range, *, table: ReplicatorTable | None = None, parts: Container[str] = PARTS
) -> list[Point]:
    """From old to new: of one table, or of all together.  At most five queries, however long the range is.

    The last point of a range that goes on is there once something is known of it.
    """
    begins = shown.points
    points = {
        int(at.timestamp()): Point(at, min(shown.step, max(5.0, (shown.end - at).total_seconds()))) for at in begins
    }
    values = {
        "step": shown.step, "spans": _spans(shown.span), "replicator": replicator.pk,
        "table": table.pk if table else None,
        "begin": shown.begin, "end": begins[-1] + timedelta(seconds=shown.step),
    }  # fmt: skip
    known: set[int] = set()
    if "counters" in parts:
        known |= _count(points, values)
    if "lags" in parts:
        known |= _measure(points, values)
    if "gauges" in parts:
        known |= _gauge(points, values)
    if "failures" in parts:
        known |= _fail(points, values)
    since = min([replicator.created_at.timestamp() - shown.step, *known])
    for at, point in points.items():
        point.known = at >= since
    found = list(points.values())
    if shown.live and len(found) > 1 and int(found[-1].at.timestamp()) not in known:
        found.pop()
    return found


def _spans(span: LagSpan) -> list[int]:
    """Days are made of hours when these are old: a range that begins with days ends with hours, and nothing is in
    both.
    """
    return [int(span), int(LagSpan.HOUR)] if span == LagSpan.DAY else [int(span)]


def _rows(statement: str, values: dict[str, Any], **names: str) -> list[Any]:
    whose = "table_id IS NULL" if values["table"] is None else "table_id = %(table)s"
    if "span" in names:
        whose += " AND span = ANY(%(spans)s)"
    with connection.cursor() as cursor:
        cursor.execute(statement.format(**{"at": "at", "whose": whose, **names}), values)
        return list(cursor.fetchall())


def _count(points: dict[int, Point], values: dict[str, Any]) -> set[int]:
    if values["table"] is not None and LagSpan.MINUTE in values["spans"]:
        found = _rows(COUNTERS, values, rows="monitoring_metricminute", at="minute")
    else:
        found = _rows(COUNTERS, values, rows="monitoring_metricrow", span="")
    for at, *counters, seconds, longest in found:
        point = points[at]
        point.inserts, point.updates, point.deletes, point.reads, point.bytes, point.merges = counters
        point.merge_seconds, point.merge_longest = seconds, max(longest, seconds / point.merges if point.merges else 0)
    return {at for at, *_ in found}


def _measure(points: dict[int, Point], values: dict[str, Any]) -> set[int]:
    rows = LagRow.objects.filter(
        replicator=values["replicator"], table=values["table"], span__in=values["spans"],
        at__gte=values["begin"], at__lt=values["end"],
    ).order_by()  # fmt: skip
    known = set()
    for at, stored, total, greatest in rows.values_list("at", "histogram", "lag_sum_us", "lag_max_us"):
        place = int(at.timestamp()) // values["step"] * values["step"]
        points[place].lags.merge_stored(bytes(stored), sum=int(total), greatest=greatest)
        known.add(place)
    return known


def _gauge(points: dict[int, Point], values: dict[str, Any]) -> set[int]:
    kept: dict[int, int] = {}
    found = _rows(GAUGES, values, span="")
    for at, rows, size, seconds, log in found:
        point = points[at]
        point.waiting_rows, point.waiting_bytes, point.waiting_seconds = rows, size, seconds
        if log is not None:
            kept[at] = log
    if values["table"] is None:
        before = _rows(KEPT_BEFORE, values)
        _go_on(points.items(), kept, before[0][0] if before else None)
    return {at for at, *_ in found}


def _go_on(points: Iterable[tuple[int, Point]], kept: dict[int, int], before: int | None) -> None:
    for at, point in points:
        before = kept.get(at, before)
        point.log_kept = before


def _fail(points: dict[int, Point], values: dict[str, Any]) -> set[int]:
    """Of a replicator: those of all its tables, and its own."""
    found = _rows(FAILURES, values, **({"whose": "true"} if values["table"] is None else {}))
    for at, failures, retries in found:
        points[at].failures, points[at].retries = failures, retries
    return {at for at, *_ in found}
