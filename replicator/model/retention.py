"""How long older states of a target table stay readable, and how long their files stay after that."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from replicator.errors import ConfigurationError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
STEPS = "10m/1s 2h/1m 7d/1h"
GRACE_HOURS = 24.0
MAX_GRACE_HOURS = 24 * 365
MAX_SNAPSHOTS = 1000  # about 1 MiB of metadata
_STEP = re.compile(r"(\d{1,6})([smhd])/(\d{1,6})([smhd])")


@dataclass(frozen=True, slots=True)
class RetentionStep:
    """Keep one snapshot per `every` among those up to `age` old (and older than the step before).  Seconds."""

    age: int
    every: int


@dataclass(frozen=True, slots=True)
class Retention:
    """Expiry thins by `steps`; a file that no snapshot needs any more is deleted after `grace` seconds."""

    steps: tuple[RetentionStep, ...]
    grace: float

    @classmethod
    def parse(cls, steps: str = STEPS, grace_hours: float = GRACE_HOURS) -> Retention:
        """`10m/1s 2h/1m 7d/1h`: all (600 at most) for 10 minutes, one a minute for 2 hours, one an hour for 7 days.

        Raises ConfigurationError.
        """
        if not isinstance(grace_hours, int | float) or not 0 <= grace_hours <= MAX_GRACE_HOURS:
            message = f"deletion_grace_hours must be a number between 0 and {MAX_GRACE_HOURS:,}, not {grace_hours!r}."
            raise ConfigurationError(message)
        return cls(_parsed(steps), grace_hours * 3600)

    @property
    def most(self) -> int:
        """Snapshots that thinning leaves, at most (without those that are named)."""
        ages = (0, *(step.age for step in self.steps))
        spans = zip(pairwise(ages), self.steps, strict=True)
        return sum((age - younger) // step.every + 2 for (younger, age), step in spans)

    def thinned(self, snapshots: Iterable[tuple[int, float]], now: float) -> set[int]:
        """Which of these (id, time), in the order of their commits, stay: the newest of each minute, of each hour.

        In the first step all stay, unless they are more than it has room for.
        """
        all_of_them, first = list(snapshots), self.steps[0]
        young = [snapshot for snapshot, at in all_of_them if now - at <= first.age]
        kept = set(young) if len(young) <= first.age // first.every else set()
        newest: dict[tuple[int, int], int] = {}
        for snapshot, at in all_of_them:
            step = next((step for step in self.steps if now - at <= step.age), None)
            if step is not None:
                newest[step.every, int(at // step.every)] = snapshot
        return kept | set(newest.values())


def _parsed(text: str) -> tuple[RetentionStep, ...]:
    found = [_STEP.fullmatch(part) for part in text.split()] if isinstance(text, str) else []
    steps = tuple(RetentionStep(int(m[1]) * UNITS[m[2]], int(m[3]) * UNITS[m[4]]) for m in found if m)
    finer = all(a.age < b.age and a.every <= b.every and b.every % a.every == 0 for a, b in pairwise(steps))
    if not steps or not all(found) or not finer or not all(0 < step.every <= step.age for step in steps):
        message = (
            f"retention_steps must be like {STEPS!r} (age/interval; each step reaches further back and is coarser than"
            f" the one before), not {text!r}."
        )
        raise ConfigurationError(message)
    most = Retention(steps, 0).most
    if most > MAX_SNAPSHOTS:
        message = f"retention_steps {text!r} would keep {most:,} snapshots of a table; {MAX_SNAPSHOTS:,} at most."
        raise ConfigurationError(message, remedy="Retain fewer snapshots: every commit writes the list of all of them.")
    return steps
