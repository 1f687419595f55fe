"""Service level objectives: how they are met, how much of the error budget is left, how fast it burns.

The words and the pairs of windows are those of Google's "Site Reliability Workbook", chapter 5 (alerting on SLOs,
"multiwindow, multi-burn-rate alerts"): the long window says that it matters, the short one that it still goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

MIN_BUDGET = 1e-6  # an objective of 100 % would burn infinitely with its first late event
# Of a burn rate that an objective can reach at all: one of 90 % can burn ten times as fast as allowed, never 14.4
# times.
REACHABLE = 0.8
MINUTES = {"5m": 5, "30m": 30, "1h": 60, "6h": 360, "24h": 1440}
HOURS = {"7d": 168, "30d": 720}
SHOWN = ("1h", "24h", "7d", "30d")
PERIOD = "30d"  # of the error budget


@dataclass(frozen=True)
class Objective:
    """`percent` of the changes can be read in the target within `seconds` of their commit at the source."""

    percent: float
    seconds: float

    @property
    def budget(self) -> float:
        """The share of the changes that may be late."""
        return max(MIN_BUDGET, 1 - self.percent / 100)


@dataclass(frozen=True)
class Tally:
    """Events in time, and all of them."""

    good: int = 0
    total: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.good + other.good, self.total + other.total)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.good - other.good, self.total - other.total)

    @property
    def late(self) -> int:
        return self.total - self.good

    @property
    def percent(self) -> float | None:
        """Attainment; None without an event: a source that is idle has nothing that could be late."""
        return 100 * self.good / self.total if self.total else None


@dataclass(frozen=True)
class BurnRule:
    """It burns too fast when both windows do: `factor` times what would use the budget up in exactly its period."""

    long: str
    short: str
    factor: float

    def reached(self, objective: Objective) -> float:
        """The factor, or less where the objective cannot burn so fast at all."""
        return min(self.factor, REACHABLE / objective.budget)


# 2 % of a 30 days' budget in an hour; 5 % in six.
FAST, SLOW = BurnRule("1h", "5m", 14.4), BurnRule("6h", "30m", 6.0)


def window_start(window: str, now: datetime) -> datetime:
    """Windows end now, and begin at a whole minute; those of days at a whole hour."""
    if window in MINUTES:
        return now.replace(second=0, microsecond=0) - timedelta(minutes=MINUTES[window])
    return now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS[window])


def budget_left(objective: Objective, tally: Tally) -> float | None:
    """Percent of the error budget; negative when overspent, None without an event."""
    if not tally.total:
        return None
    return 100 * (1 - tally.late / tally.total / objective.budget)


def burn_rate(objective: Objective, tally: Tally, unproven: float = 0.0) -> float:
    """1 uses the budget up in exactly its period.

    unproven: the share of the window (0 to 1) in which nothing shows that the target was as current as the objective
    demands, because the source was not read: it counts like as many late events.
    """
    late = tally.late / tally.total if tally.total else 0.0
    return max(late, unproven) / objective.budget
