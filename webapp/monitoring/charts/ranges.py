"""What time a chart shows: the last hours or days, or from one moment to another, in at most some 300 points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from replicator.errors import ConfigurationError
from webapp.monitoring.models import LagSpan

MAX_POINTS = 300
MINUTE, HOUR, DAY = 60, 3600, 86_400
STEPS = (
    MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 4 * DAY, 8 * DAY,
)  # fmt: skip
RANGES: Mapping[str, tuple[str, timedelta]] = {
    "1h": ("1 h", timedelta(hours=1)),
    "6h": ("6 h", timedelta(hours=6)),
    "24h": ("24 h", timedelta(hours=24)),
    "7d": ("7 d", timedelta(days=7)),
    "30d": ("30 d", timedelta(days=30)),
}
USUAL = "1h"
SHORTEST = timedelta(minutes=2)
LOOKED = {MINUTE: 5, 2 * MINUTE: 10, 5 * MINUTE: 20}  # seconds between two looks, by the length of a point
LOOKED_ELSE = 60


@dataclass(frozen=True)
class Range:
    """From `begin`, the beginning of a point of `step` seconds, up to `end`.

    name: of RANGES, empty for from-to.  span: which rows are read.  live: it ends now, and goes on.
    frozen: it ended now at `end`, and was stopped there.
    """

    name: str
    begin: datetime
    end: datetime
    step: int
    span: LagSpan
    live: bool
    frozen: bool = False

    @property
    def points(self) -> list[datetime]:
        """Their beginnings."""
        number = int(-((self.begin - self.end).total_seconds() // self.step))
        return [self.begin + timedelta(seconds=self.step * place) for place in range(max(1, number))]

    @property
    def every(self) -> int:
        """Seconds between two looks at what is live."""
        return LOOKED.get(self.step, LOOKED_ELSE)

    @property
    def dated(self) -> bool:
        """A time of day alone does not say when."""
        return not (self.live or self.frozen) or self.end - self.begin > timedelta(hours=25)

    @property
    def query(self) -> dict[str, str]:
        """The same range again, as parameters of an address."""
        if self.name:
            return {"range": self.name}
        return {"from": shown(self.begin), "to": shown(self.end)}

    @property
    def stopped_query(self) -> dict[str, str]:
        """The same range, standing still."""
        return self.query | {"at": self.end.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")}

    @property
    def address(self) -> str:
        return urlencode(self.stopped_query if self.frozen else self.query)


def shown(moment: datetime) -> str:
    """As the fields of the page have it: to the minute, in the time zone of the pages."""
    return f"{moment.astimezone(timezone.get_current_timezone()):%Y-%m-%dT%H:%M}"


def last(name: str, now: datetime, *, frozen: bool = False) -> Range:
    """One of RANGES up to `now`."""
    return _made(name, now - RANGES[name][1], now, timezone.now(), live=not frozen, frozen=frozen)


def between(begin: datetime, end: datetime, now: datetime) -> Range:
    """ConfigurationError where there is nothing between."""
    if begin >= end:
        raise ConfigurationError("The end must be after the start.", remedy="Choose an earlier start or a later end.")
    if begin >= now:
        raise ConfigurationError("The start is in the future.", remedy="Choose a start in the past.")
    begin = max(begin, now - timedelta(days=settings.TIDEMARK_LAG_DAY_DAYS))
    end = max(min(end, now), begin + SHORTEST)
    return _made("", begin, end, now, live=False)


def asked(query: Mapping[str, str], now: datetime) -> Range:
    """By `range`, or `from` and `to`; `at`: as it was then.  ConfigurationError."""
    if query.get("from") or query.get("to"):
        end = _moment(query, "to") if query.get("to") else now
        begin = _moment(query, "from") if query.get("from") else end - RANGES[USUAL][1]
        return between(begin, end, now)
    name = query.get("range") or USUAL
    if name not in RANGES:
        raise ConfigurationError(
            f"Unknown range {name[:20]}.", remedy=f"Choose one of {', '.join(RANGES)}, or from and to."
        )
    if query.get("at"):
        return last(name, min(_moment(query, "at"), now), frozen=True)
    return last(name, now)


def _moment(query: Mapping[str, str], name: str) -> datetime:
    """Without a time zone: in that of the pages.  A plus sign that the address lost is put back."""
    try:
        found = parse_datetime(query[name].strip().replace(" ", "+" if "T" in query[name] else " "))
    except ValueError:
        found = None
    if found is None or not 1971 <= found.year <= 9000:  # noqa: PLR2004 - neither do sums of times overflow
        raise ConfigurationError(
            f"{name}: invalid timestamp.", remedy="Use the format 2026-03-01T14:30 or 2026-03-01T14:30:00Z."
        )
    return timezone.make_aware(found) if timezone.is_naive(found) else found.astimezone(UTC)


def _made(name: str, begin: datetime, end: datetime, now: datetime, *, live: bool, frozen: bool = False) -> Range:
    """As fine as the number of points allows, and what is kept."""
    span = LagSpan.MINUTE
    if begin < now - timedelta(days=settings.TIDEMARK_LAG_HOUR_DAYS):
        span = LagSpan.DAY
    elif begin < now - timedelta(days=settings.TIDEMARK_LAG_MINUTE_DAYS):
        span = LagSpan.HOUR
    seconds = (end - begin).total_seconds()
    step = next(step for step in STEPS if step >= span and seconds <= step * (MAX_POINTS - 1))
    if step >= HOUR:
        span = max(span, LagSpan.HOUR)
    return Range(name, _floor(begin, step), end, step, span, live, frozen)


def _floor(moment: datetime, step: int) -> datetime:
    return datetime.fromtimestamp(int(moment.timestamp()) // step * step, UTC)
