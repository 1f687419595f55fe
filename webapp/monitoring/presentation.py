"""Charts, log lines and the timeline in the form the pages draw them; everything is drawn on the server."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Sum
from django.utils import timezone

from webapp.monitoring import selectors
from webapp.replicators.models import Replicator

WIDTH, HEIGHT = 1000, 100
CHART_MINUTES, LEAST_MINUTES = 60, 10
NICE = (1, 2, 2.5, 5, 10)
NICE_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 240, 360, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 86_400)

# kind of a timeline event, by the words in it → (icon, tone)
EVENT_ICONS: Sequence[tuple[str, str, str]] = (
    ("fail", "failed", "bad"),
    ("error", "failed", "bad"),
    ("retr", "retry", "warn"),
    ("recover", "ok", "ok"),
    ("stream", "ok", "ok"),
    ("schema", "ddl", "info"),
    ("ddl", "ddl", "info"),
    ("snapshot", "download", "info"),
    ("table", "table", "info"),
    ("paus", "pause", "idle"),
    ("settle", "pause", "idle"),
    ("stop", "stop", "idle"),
    ("start", "play", "ok"),
    ("resum", "play", "ok"),
    ("creat", "plus", "ok"),
    ("delet", "trash", "idle"),
    ("option", "settings", "idle"),
    ("log_large", "warning", "warn"),
    ("log_given_up", "warning", "warn"),
    ("log_lost", "failed", "bad"),
    ("log_safe", "ok", "ok"),
)


@dataclass(frozen=True)
class Sparkline:
    """SVG points in a box of 100 × 26; `peak` is the greatest value."""

    line: str
    area: str
    peak: float


def sparkline(values: Sequence[float]) -> Sparkline:
    """Values from old to new."""
    peak = max(values, default=0.0)
    step = 100 / max(1, len(values) - 1)
    points = [f"{index * step:.1f},{25 - 23 * value / peak if peak else 25:.1f}" for index, value in enumerate(values)]
    return Sparkline(" ".join(points), f"0,26 {' '.join(points)} 100,26", peak)


@dataclass(frozen=True)
class ChartRow:
    """A line of the chart's table twin."""

    at: datetime
    text: str


@dataclass(frozen=True)
class Chart:
    """An SVG chart in a box of 1000 × 100, with its scale, the readings under the pointer, and its table twin."""

    title: str
    line: Sequence[str]
    area: Sequence[str]
    scale: Sequence[str]
    times: Sequence[str]
    readings: str
    rows: Sequence[ChartRow]
    limit_y: float | None = None
    empty: bool = False


def nice_ceiling(value: float) -> float:
    """The next round number at or above."""
    if value <= 0:
        return 1
    power = 1.0
    while power * 10 < value:
        power *= 10
    while power > value:
        power /= 10
    return next(step * power for step in NICE if step * power >= value * 0.999)


def nice_seconds(value: float) -> float:
    """The next round duration at or above."""
    return next((step for step in NICE_SECONDS if step >= value), nice_ceiling(value))


def _pieces(values: Sequence[float | None], top: float) -> list[list[tuple[float, float]]]:
    """Points of each unbroken stretch: a minute without a value is a gap, never a line drawn over it."""
    pieces: list[list[tuple[float, float]]] = [[]]
    step = WIDTH / max(1, len(values) - 1)
    for index, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((round(index * step, 1), round(HEIGHT - HEIGHT * value / top, 2)))
    return [piece if len(piece) > 1 else [piece[0], (piece[0][0] + 2, piece[0][1])] for piece in pieces if piece]


def draw(
    title: str,
    minutes: Sequence[datetime],
    values: Sequence[float | None],
    *,
    say: Callable[[float], str],
    ceiling: Callable[[float], float] = nice_ceiling,
    limit: float | None = None,
) -> Chart:
    """`values` by minute (None: nothing to show); `limit` is drawn as a dashed line."""
    known = [value for value in values if value is not None]
    highest = max(known, default=0.0)
    shown_limit = limit if limit is not None and highest > limit / 4 else None
    top = ceiling(max(highest, shown_limit or 0.0) * 1.05)
    pieces = _pieces(values, top)
    texts = ["nothing" if value is None else say(value) for value in values]
    return Chart(
        title=title,
        line=[" ".join(f"{x},{y}" for x, y in piece) for piece in pieces],
        area=[f"{p[0][0]},{HEIGHT} {' '.join(f'{x},{y}' for x, y in p)} {p[-1][0]},{HEIGHT}" for p in pieces],
        scale=[say(top), say(top / 2), say(0)],
        times=[f"{minutes[index]:%H:%M}" for index in (0, len(minutes) // 2, -1)],
        readings="|".join(f"{at:%H:%M} · {text}" for at, text in zip(minutes, texts, strict=True)),
        rows=[ChartRow(at, text) for at, text, v in zip(minutes, texts, values, strict=True) if v is not None][::-1],
        limit_y=None if shown_limit is None else round(HEIGHT - HEIGHT * shown_limit / top, 2),
        empty=not known,
    )


@dataclass(frozen=True)
class Minute:
    """All tables of a replicator in one minute."""

    rows: int
    lag_ms: int | None


def by_minute(replicator: Replicator, minutes: int = CHART_MINUTES) -> dict[datetime, Minute]:
    """One query, whatever the number of tables."""
    found = (
        selectors.metrics(replicator, minutes=minutes)
        .order_by()
        .values("minute")
        .annotate(i=Sum("inserts"), u=Sum("updates"), d=Sum("deletes"), r=Sum("reads"), lag=Max("lag_p95_ms"))
    )
    return {row["minute"]: Minute(row["i"] + row["u"] + row["d"] + row["r"], row["lag"]) for row in found}


def charts(
    replicator: Replicator,
    found: Mapping[datetime, Minute],
    duration: Callable[[float], str],
    rate: Callable[[float], str],
) -> list[Chart]:
    """Lag (p95 of the minute, in seconds) against the SLO, and throughput (rows a second); not from before its time."""
    begin = min([*found, replicator.created_at.replace(second=0, microsecond=0)])
    age = int((timezone.now() - begin).total_seconds() / 60) + 1
    minutes = last_minutes(min(CHART_MINUTES, max(LEAST_MINUTES, age)), found)
    lags = [found[m].lag_ms if m in found else None for m in minutes]
    rows = [None if m < begin else found[m].rows / seconds_of(m) if m in found else 0.0 for m in minutes]
    limit = replicator.parsed_options.slo_minutes * 60
    throughput: list[float | None] = rows if any(rows) else [None] * len(rows)
    seconds = [None if lag is None else lag / 1000 for lag in lags]
    return [
        draw("Lag", minutes, seconds, say=duration, ceiling=nice_seconds, limit=limit),
        draw("Throughput, rows/s", minutes, throughput, say=rate),
    ]


def last_minutes(number: int, known: Container[datetime]) -> list[datetime]:
    """From old to new; the minute that has just begun counts once something is known of it."""
    now = timezone.now().replace(second=0, microsecond=0)
    last = now if now in known else now - timedelta(minutes=1)
    return [last - timedelta(minutes=back) for back in range(number - 1, -1, -1)]


def seconds_of(minute: datetime) -> float:
    """How much of a minute is over."""
    return min(60.0, max(5.0, (timezone.now() - minute).total_seconds()))


def event_icon(kind: str) -> tuple[str, str]:
    """Icon and tone of a timeline event."""
    lowered = kind.lower()
    return next(((icon, tone) for word, icon, tone in EVENT_ICONS if word in lowered), ("info", "idle"))
