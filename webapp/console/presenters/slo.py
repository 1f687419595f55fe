"""Objectives (SLO) in words and figures for the pages, from what was last measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from replicator.telemetry.slo import FAST, SHOWN, SLOW, BurnRule, Objective, Tally
from webapp.console.presenters.labels import StateWord
from webapp.monitoring.models import TableObjective
from webapp.monitoring.slo.attainment import Figures, objective_of
from webapp.monitoring.slo.status import standings
from webapp.replicators.models import Replicator, ReplicatorTable

WORDS: Mapping[str, StateWord] = {
    "missed": StateWord(
        "Missed", "failed", "bad", 30, hint="Fewer changes in time than the SLO requires, over 30 days"
    ),
    "late": StateWord("Breached", "warning", "warn", 20, hint="Changes wait longer than the SLO allows"),
    "burning": StateWord("Burning", "warning", "warn", 15, hint="The error budget burns too fast"),
    "kept": StateWord("Met", "ok", "ok", hint="SLO met over 30 days"),
    "idle": StateWord("No change yet", "clock", "idle", hint="No changes in the source yet"),
    "unwatched": StateWord(
        "Not running", "pause", "idle", hint="Changes made meanwhile count as late when they are copied"
    ),
}
WINDOW_NAMES = {"1h": "1 hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days"}
OLD = timedelta(minutes=3)
UNSEEN = StateWord("Not evaluated", "clock", "warn", 10, hint="Out of date: beat or the control worker is not running")
NEW = StateWord("Not measured yet", "clock", "idle", hint="Measured every 30 seconds")


@dataclass(frozen=True)
class WindowLine:
    """Attainment over one window."""

    name: str
    tally: Tally
    kept: bool | None


@dataclass(frozen=True)
class BurnLine:
    """How fast the budget burns in a pair of windows; `limit`: from where an alert fires."""

    name: str
    long: float
    short: float
    limit: float
    burning: bool


@dataclass(frozen=True)
class ObjectiveView:
    """One objective and how it is kept; `table` where it is a table's own."""

    objective: Objective
    word: StateWord
    figures: Figures | None = None
    table: ReplicatorTable | None = None

    @property
    def state(self) -> str:
        """new, unseen, or as `Figures.state`: a word for programs."""
        if self.figures is None:
            return "new"
        return "unseen" if self.word is UNSEEN else self.figures.state

    @property
    def at(self) -> datetime | None:
        return self.figures.at if self.figures else None

    @property
    def windows(self) -> list[WindowLine]:
        lines = []
        for name in SHOWN if self.figures else ():
            assert self.figures is not None
            tally = self.figures.tally(name)
            kept = None if tally.percent is None else tally.percent >= self.objective.percent
            lines.append(WindowLine(WINDOW_NAMES[name], tally, kept))
        return lines

    @property
    def day(self) -> float | None:
        """Attainment of the last 24 hours, in percent."""
        return self.figures.tally("24h").percent if self.figures else None

    @property
    def month(self) -> float | None:
        """Attainment of the last 30 days, in percent."""
        return self.figures.tally("30d").percent if self.figures else None

    @property
    def burns(self) -> list[BurnLine]:
        return [self._burn("Fast", FAST), self._burn("Slow", SLOW)] if self.figures else []

    def _burn(self, name: str, rule: BurnRule) -> BurnLine:
        assert self.figures is not None
        limit = rule.reached(self.objective)
        title = f"{name}: {rule.long} and {rule.short}"
        return BurnLine(
            title, self.figures.burn(rule.long), self.figures.burn(rule.short), limit, self.figures.burning(rule)
        )

    @property
    def budget_left(self) -> float | None:
        return self.figures.budget_left if self.figures else None

    @property
    def budget_shown(self) -> int:
        """0 to 100, for the bar."""
        return round(max(0.0, min(100.0, self.budget_left or 0.0)))

    @property
    def late_left(self) -> int | None:
        """How many more of the period's changes may be late; negative: how many too many were."""
        if self.figures is None or not self.figures.tally("30d").total:
            return None
        tally = self.figures.tally("30d")
        return int(tally.total * (1 - self.objective.percent / 100)) - tally.late


def view_of(objective: Objective, figures: Figures | None, table: ReplicatorTable | None = None) -> ObjectiveView:
    """What was measured against an older objective is of no use."""
    if figures is None or figures.objective != objective:
        return ObjectiveView(objective, NEW, None, table)
    old = timezone.now() - figures.at > OLD
    return ObjectiveView(objective, UNSEEN if old else WORDS[figures.state], figures, table)


def objectives_of(replicator: Replicator, tables: Sequence[TableObjective]) -> list[ObjectiveView]:
    """The replicator's, then its tables'; one query."""
    measured = standings([replicator.pk])
    whole = view_of(objective_of(replicator), measured.get((replicator.pk, None)))
    return [whole, *(_of_table(replicator, one, measured) for one in tables)]


def _of_table(
    replicator: Replicator, one: TableObjective, measured: Mapping[tuple[int, int | None], Figures]
) -> ObjectiveView:
    assert one.percent is not None
    assert one.seconds is not None
    return view_of(Objective(one.percent, one.seconds), measured.get((replicator.pk, one.table_id)), one.table)


def objectives_of_fleet(replicators: Sequence[Replicator]) -> dict[int, ObjectiveView]:
    """Each one's own: one query."""
    measured = standings([one.pk for one in replicators])
    return {one.pk: view_of(objective_of(one), measured.get((one.pk, None))) for one in replicators}
