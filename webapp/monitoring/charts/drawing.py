"""Charts as SVG, drawn on the server: lines of one scale over points of time, what each point says, and the table of
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from webapp.monitoring.charts.history import Point
from webapp.monitoring.charts.ranges import DAY, Range

WIDTH, HEIGHT = 1000, 100
NOTHING = "–"
NICE = (1, 2, 2.5, 5, 10)
NICE_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 240, 360, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 86_400)
KIBI = 1024
LABELS = 5
Values = Sequence[float | None]
Say = Callable[[float], str]


@dataclass(frozen=True)
class Line:
    """One line of a chart.  `values` by point, None for nothing to show."""

    label: str
    values: Values


@dataclass(frozen=True)
class Spec:
    """What a chart shows.

    `limit` is drawn dashed, and named by `limit_label`; `empty`: said where there is nothing to show.

    key: for addresses and ids; hint: what the figures are; whole: values are whole numbers, so the scale is too.
    """

    key: str
    title: str
    lines: Sequence[Line]
    say: Say
    ceiling: Callable[[float], float]
    hint: str = ""
    limit: float | None = None
    limit_label: str = ""
    empty: str = "No data in this period."


@dataclass(frozen=True)
class DrawnLine:
    """`texts`: what is said by point; `pieces`, `areas`: points of SVG, for each unbroken stretch."""

    label: str
    texts: Sequence[str]
    pieces: Sequence[str]
    areas: Sequence[str]

    @property
    def joined(self) -> str:
        return "|".join(self.texts)

    @property
    def latest(self) -> str:
        return self.texts[-1]


@dataclass(frozen=True)
class Chart:
    """In a box of 1000 × 100, with its scale and its table; `rows` only where that is open, newest first."""

    spec: Spec
    lines: Sequence[DrawnLine]
    scale: Sequence[str]
    ticks: Sequence[str]
    times: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    limit_y: float | None
    empty: bool
    open: bool

    @property
    def last(self) -> int:
        return len(self.times) - 1

    @property
    def latest(self) -> str:
        """The last point in words."""
        said = ", ".join(f"{line.label} {line.latest}" for line in self.lines)
        return f"{self.times[-1]}: {said}"


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
    if value < 1:
        return nice_ceiling(value)
    return next((step for step in NICE_SECONDS if step >= value), DAY * nice_ceiling(value / DAY))


def nice_bytes(value: float) -> float:
    """The next round size at or above, in binary units."""
    unit = 1
    while unit * KIBI <= value:
        unit *= KIBI
    return unit * nice_ceiling(value / unit)


def nice_count(value: float) -> float:
    """The next round whole number at or above, that has a half."""
    return max(2, nice_ceiling(value))


def draw(spec: Spec, shown: Range, points: Sequence[Point], *, opened: bool = False) -> Chart:
    """Of the same points as `history.read` gave."""
    highest = max((value for line in spec.lines for value in line.values if value is not None), default=None)
    limit = spec.limit if spec.limit is not None and (highest or 0) > spec.limit / 4 else None
    top = spec.ceiling(max(highest or 0.0, limit or 0.0) * 1.05)
    times = [clock(point.at, shown) for point in points]
    lines = [_drawn(line, spec, top) for line in spec.lines]
    known = [any(line.values[place] is not None for line in spec.lines) for place in range(len(points))]
    rows = [(times[n], [line.texts[n] for line in lines]) for n in range(len(points) - 1, -1, -1) if known[n]]
    return Chart(
        spec=spec,
        lines=lines,
        scale=[spec.say(top), spec.say(top / 2), spec.say(0)],
        ticks=_ticks([point.at for point in points], shown),
        times=times,
        rows=rows if opened else [],
        limit_y=None if limit is None else round(HEIGHT - HEIGHT * limit / top, 2),
        empty=highest is None,
        open=opened,
    )


def clock(moment: datetime, shown: Range) -> str:
    """As short as the range allows, in the time zone of the pages."""
    own = moment.astimezone(timezone.get_current_timezone())
    if shown.step >= DAY:
        return f"{own:%Y-%m-%d}"
    return f"{own:%m-%d %H:%M}" if shown.dated else f"{own:%H:%M}"


def _ticks(times: Sequence[datetime], shown: Range) -> list[str]:
    """Some of the times, below the chart."""
    number = min(LABELS if not shown.dated else LABELS - 1, len(times))
    places = [round(place * (len(times) - 1) / max(1, number - 1)) for place in range(number)]
    return [clock(times[place], shown) for place in places]


def _drawn(line: Line, spec: Spec, top: float) -> DrawnLine:
    pieces = _pieces(line.values, top)
    return DrawnLine(
        label=line.label,
        texts=[NOTHING if value is None else spec.say(value) for value in line.values],
        pieces=[" ".join(f"{x:g},{y:g}" for x, y in piece) for piece in pieces],
        areas=[f"{p[0][0]:g},{HEIGHT} {' '.join(f'{x:g},{y:g}' for x, y in p)} {p[-1][0]:g},{HEIGHT}" for p in pieces]
        if len(spec.lines) == 1
        else [],
    )


def _pieces(values: Values, top: float) -> list[list[tuple[float, float]]]:
    """Points of each unbroken stretch: a point without a value is a gap, never a line drawn over it."""
    pieces: list[list[tuple[float, float]]] = [[]]
    step = WIDTH / max(1, len(values) - 1)
    for index, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((round(index * step, 1), round(HEIGHT - HEIGHT * value / top, 2)))
    return [piece if len(piece) > 1 else [piece[0], (piece[0][0] + 2, piece[0][1])] for piece in pieces if piece]
