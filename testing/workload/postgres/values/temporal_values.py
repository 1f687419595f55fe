"""Values of dates, times and intervals, as their types' input takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testing.workload.rng_literals import Pen


@dataclass(frozen=True, slots=True)
class Extent:
    """`size`: digits of a second; `zero`: infinite values and those before Christ too; `version`: of the server."""

    size: int | None
    zero: bool
    version: int


DIGITS = 6
INFINITE_INTERVALS = 17


def _fraction(extent: Extent, pen: Pen) -> str:
    digits = DIGITS if extent.size is None else extent.size
    return f".{pen.choice((0, 10**digits - 1, pen.randrange(10**digits))):0{digits}d}" if digits else ""


def _day(pen: Pen) -> str:
    drawn = f"{pen.randint(1950, 2090):04d}-{pen.randint(1, 12):02d}-{pen.randint(1, 28):02d}"
    return pen.choice(
        ("0001-01-01", "9999-12-31", "1582-10-04", "1582-10-15", "1969-12-31", "1970-01-01", "2000-02-29", "1900-03-01",
         drawn, drawn, drawn)
    )  # fmt: skip


def _clock(pen: Pen) -> str:
    drawn = f"{pen.randrange(24):02d}:{pen.randrange(60):02d}:{pen.randrange(60):02d}"
    return pen.choice(("00:00:00", "23:59:59", drawn))


def _never(pen: Pen) -> str:
    return pen.choice(("infinity", "-infinity", "0044-03-15 BC", "0001-12-31 BC"))


def _date(extent: Extent, pen: Pen) -> str:
    return pen.choice((_never(pen), "10000-01-01")) if extent.zero and pen.chance(0.2) else _day(pen)


def _timestamp(extent: Extent, pen: Pen) -> str:
    return _never(pen) if extent.zero and pen.chance(0.2) else f"{_day(pen)} {_clock(pen)}{_fraction(extent, pen)}"


def _instant(extent: Extent, pen: Pen) -> str:
    if extent.zero and pen.chance(0.2):
        return _never(pen)
    day = _day(pen)
    edge = day[:4] in ("0001", "9999")  # in another zone it could be another year
    zone = "+00" if edge else pen.choice(("", "+00", "+05:30", "-11", " Europe/Berlin"))
    return f"{day} {_clock(pen)}{_fraction(extent, pen)}{zone}"


def _time(extent: Extent, pen: Pen) -> str:
    return "24:00:00" if pen.chance(0.1) else f"{_clock(pen)}{_fraction(extent, pen)}"


def _time_with_zone(extent: Extent, pen: Pen) -> str:
    return f"{_clock(pen)}{_fraction(extent, pen)}{pen.choice(('+00', '-08', '+05:45', '+15:59'))}"


def _interval(extent: Extent, pen: Pen) -> str:
    infinite: tuple[str, ...] = ("infinity", "-infinity") if extent.version >= INFINITE_INTERVALS else ("0",)
    parts = (
        f"{pen.randint(-20, 20)} years {pen.randint(-11, 11)} mons",
        f"{pen.randint(-40, 40)} days",
        (
            f"{pen.choice(('', '-'))}{pen.randint(0, 300)}:{pen.randrange(60):02d}:{pen.randrange(60):02d}"
            f"{_fraction(extent, pen)}"
        ),
    )
    drawn = " ".join(pen.some(parts, 3))
    return pen.choice(
        (drawn, drawn, drawn, "0", "1 day", "24:00:00", "178000000 years", "-1 days +02:03:04", *infinite)
    )


VALUES: dict[str, Callable[[Extent, Pen], str]] = {
    "date": _date, "timestamp": _timestamp, "timestamptz": _instant, "time": _time, "timetz": _time_with_zone,
    "interval": _interval,
}  # fmt: skip
