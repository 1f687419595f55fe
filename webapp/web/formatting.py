"""Numbers, sizes, durations and times the way people read them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

NOTHING = "–"
THOUSAND = 1000
PRECISE_BELOW = 10
MINUTE, HOUR, DAY = 60, 3600, 86_400


def short(value: float | None) -> str:
    """1234567 → 1.2 M."""
    if value is None:
        return NOTHING
    number = float(value)
    for unit in ("", " k", " M", " G"):
        if abs(number) < THOUSAND or unit == " G":
            break
        number /= THOUSAND
    digits = 1 if unit and abs(number) < THOUSAND / 10 else 0
    return f"{number:,.{digits}f}{unit}"


def rate(value: float | None) -> str:
    """Rows a second: one decimal below ten, so that a trickle is not zero."""
    if value is None:
        return NOTHING
    if 0 < value < PRECISE_BELOW:
        return "< 0.1" if value < 0.1 else f"{value:.1f}"  # noqa: PLR2004
    return short(value)


def size(value: float | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return NOTHING
    number = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":  # noqa: PLR2004
            break
        number /= 1024
    return f"{number:,.0f} {unit}" if unit == "B" or number >= 100 else f"{number:,.1f} {unit}"  # noqa: PLR2004


def span(seconds: float) -> str:
    """0.4 → 400 ms, 75 → 1 min 15 s, 90000 → 1 d 1 h."""
    if seconds == 0:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < PRECISE_BELOW:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, name, below, below_name in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", 1, "s")):
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit} {name} {rest} {below_name}" if rest else f"{whole // unit} {name}"
    return f"{whole} s"


def duration(seconds: float | None) -> str:
    """A duration given in seconds."""
    return NOTHING if seconds is None else span(max(0.0, float(seconds)))


def minutes(value: float | None) -> str:
    """A duration given in minutes."""
    return NOTHING if value is None else duration(float(value) * MINUTE)


def exact(moment: datetime) -> str:
    """The moment in full, for titles: in UTC, which servers and their logs have."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def slug(value: object) -> str:
    """Return an HTML id for a text of any characters, the same for the same text."""
    return hashlib.sha256(str(value).encode()).hexdigest()[:12]
