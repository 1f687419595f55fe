"""The charts of a replicator or of one of its tables: which figures, in which words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

from webapp.monitoring.charts import history, ranges
from webapp.monitoring.charts.drawing import (
    Chart,
    Line,
    Spec,
    Values,
    draw,
    nice_bytes,
    nice_ceiling,
    nice_count,
    nice_seconds,
)
from webapp.monitoring.charts.history import PERCENTILES, Point
from webapp.monitoring.charts.ranges import Range
from webapp.monitoring.slo.attainment import objective_of
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.web.formatting import minutes, rate, short, size, span

Points = Sequence[Point]
MIN_MINUTES = 10  # minutes of the overview
OPERATIONS = (("inserts", "inserts"), ("updates", "updates"), ("deletes", "deletes"), ("snapshot rows", "reads"))


def _values(points: Points, value: Callable[[Point], float | None]) -> Values:
    return [value(point) if point.known else None for point in points]


def _per_second(name: str, point: Point) -> float:
    return float(getattr(point, name)) / point.seconds


def _or_nothing(lines: list[Line]) -> list[Line]:
    """A line of zeros alone is nothing to look at."""
    if any(value for line in lines for value in line.values):
        return lines
    return [Line(line.label, [None] * len(line.values)) for line in lines]


def _lag(points: Points, objective: float) -> Spec:
    lines = [Line(f"p{percent}", [point.lag(percent) for point in points]) for percent in PERCENTILES]
    return Spec(
        "lag",
        "Lag",
        lines,
        span,
        nice_seconds,
        hint="From the commit at the source until a change is queryable in the target; of all changes in the period.",
        limit=objective,
        limit_label=f"SLO {minutes(objective / 60)}",
        empty="No changes became queryable in this period.",
    )


def _throughput(points: Points) -> Spec:
    lines = [Line(label, _values(points, partial(_per_second, name))) for label, name in OPERATIONS]
    return Spec(
        "throughput",
        "Throughput, rows/s",
        _or_nothing(lines),
        rate,
        nice_ceiling,
        hint="Rows per second that reached the target.",
        empty="No rows were copied in this period.",
    )


def _waiting(points: Points) -> list[Spec]:
    hint = "Staged and not yet in the target: maximum of samples every 30 seconds."
    nothing = "No backlog in this period."

    def lines(label: str, value: Callable[[Point], float]) -> list[Line]:
        return _or_nothing([Line(label, _values(points, value))])

    return [
        Spec("backlog-rows", "Backlog, rows", lines("rows", lambda p: p.waiting_rows), short, nice_count, hint,
            empty=nothing),
        Spec("backlog-bytes", "Backlog, bytes", lines("staged files", lambda p: p.waiting_bytes), size, nice_bytes,
            hint, empty=nothing),
        Spec(
            "backlog-age",
            "Backlog, age",
            lines("oldest change", lambda p: p.waiting_seconds),
            span,
            nice_seconds,
            hint="Age of the oldest change that is staged and not yet in the target.",
            empty=nothing,
        ),
    ]  # fmt: skip


def _log_kept(points: Points) -> Spec:
    return Spec(
        "log-kept",
        "Source log retained",
        [Line("kept", _values(points, lambda point: point.log_kept))],
        size,
        nice_bytes,
        hint="Log that the source retains for this replicator: WAL of the slot, binary log after the checkpoint.",
        empty="No data on the source's log in this period.",
    )


def _merges(points: Points) -> list[Spec]:
    nothing = "No merges in this period."
    seconds = [
        Line("mean", _values(points, lambda point: point.merge_mean)),
        Line("longest", _values(points, lambda point: point.merge_longest if point.merges else None)),
    ]
    rows = Line("rows per merge", _values(points, lambda point: point.rows / point.merges if point.merges else None))
    bytes_ = Line(
        "bytes per merge", _values(points, lambda point: point.bytes / point.merges if point.merges else None)
    )
    return [
        Spec("merge-time", "Merge time", seconds, span, nice_seconds,
            hint="Duration of a commit of one table in the target.", empty=nothing),
        Spec("merge-rows", "Merge size, rows", [rows], short, nice_count, hint="Changes and snapshot rows per merge.",
            empty=nothing),
        Spec("merge-bytes", "Merge size, bytes", [bytes_], size, nice_bytes, hint="Size of the staged files per merge.",
            empty=nothing),
    ]  # fmt: skip


def _failures(points: Points) -> Spec:
    lines = [
        Line("failures", _values(points, lambda point: point.failures)),
        Line("of these retried", _values(points, lambda point: point.retries)),
    ]
    return Spec(
        "failures",
        "Failures and retries",
        _or_nothing(lines),
        lambda value: f"{value:,.0f}" if value == int(value) else f"{value:,.1f}",
        nice_count,
        hint="Failed attempts, and how many of them are retried.",
        empty="No failures in this period.",
    )


def charts(
    replicator: Replicator,
    shown: Range,
    *,
    table: ReplicatorTable | None = None,
    opened: Collection[str] = (),
) -> list[Chart]:
    """All of them; `opened`: the keys of those whose tables are to be filled.  At most six queries."""
    points = history.read(replicator, shown, table=table)
    specs = [_lag(points, _objective_seconds(replicator, table)), _throughput(points), *_waiting(points)]
    specs += [] if table is not None else [_log_kept(points)]
    specs += [*_merges(points), _failures(points)]
    return [draw(spec, shown, points, opened=spec.key in opened) for spec in specs]


def overview(replicator: Replicator, now: datetime) -> list[Chart]:
    """Lag and throughput of the last hour, not from before its time, with their tables.  Two queries."""
    shown = ranges.last("1h", now)
    points = history.read(replicator, shown, parts=("counters", "lags"))
    first = next((place for place, point in enumerate(points) if point.known), len(points))
    points = points[min(first, max(0, len(points) - MIN_MINUTES)) :]
    objective = _objective_seconds(replicator, None)
    return [draw(spec, shown, points, opened=True) for spec in (_lag(points, objective), _throughput(points))]


def _objective_seconds(replicator: Replicator, table: ReplicatorTable | None) -> float:
    """Seconds: the table's own objective, or the replicator's."""
    own = getattr(table, "objective", None) if table is not None else None
    return float(objective_of(replicator).seconds if own is None or own.seconds is None else own.seconds)


def points_of(replicator: Replicator, shown: Range, table: ReplicatorTable | None) -> Mapping[str, object]:
    """The same figures for programs."""
    points = history.read(replicator, shown, table=table)
    return {
        "begin": shown.begin,
        "end": shown.end,
        "seconds": shown.step,
        "points": [point.to_dict() for point in points],
    }
