"""The fleet page: one line for each replicator, those that need a user's action first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from django.http import QueryDict
from django.utils import timezone

from replicator.redaction import redacted
from replicator.state.tables import TableState
from webapp.alerts.selectors import firing_by_replicator
from webapp.console.fleet import FleetRow, fleet_rows
from webapp.console.presenters.labels import (
    StatePart,
    StateWord,
    late,
    recent_rate,
    replicator_word,
    rows_by_minute,
    spark_of,
    state_parts,
)
from webapp.console.presenters.slo import ObjectiveView, objectives_of_fleet
from webapp.monitoring.charts.sparklines import Sparkline
from webapp.replicators import selectors
from webapp.replicators.models import Desired, LogConcern, Replicator, Status
from webapp.web.paging import Pager, page_number

PERSON, BUSY, FINE, OFF = "person", "busy", "fine", "off"
SHOWS: Mapping[str, str] = {
    PERSON: "Needs attention",
    BUSY: "Retrying or late",
    FINE: "Running",
    OFF: "Paused or stopped",
}
MAX_REASON = 120
PATIENCE = timedelta(minutes=2)  # with what is retried, and may need action all the same: a source that is down
PER_PAGE = 50


@dataclass(frozen=True)
class FleetLine:
    """A replicator on the fleet page.  Lag in milliseconds, rate in rows a second over the last five minutes."""

    replicator: Replicator
    word: StateWord
    tables: int
    parts: list[StatePart]
    lag_ms: int | None
    late: bool
    rate: float
    spark: Sparkline
    failures: int
    actions: frozenset[str]
    objective: ObjectiveView
    firing: int = 0
    dead_letters: int = 0

    @property
    def failed(self) -> int:
        """Tables that stopped."""
        return next((part.count for part in self.parts if part.state == TableState.FAILED.value), 0)

    @cached_property  # sorting, counting and showing ask for it
    def reason(self) -> str:
        """Why it needs a person, the gravest cause only; empty where it does not."""
        one = self.replicator
        since, running = one.first_failure_at, one.desired == Desired.RUNNING
        lasts = one.status == Status.RETRYING and since is not None and timezone.now() - since > PATIENCE
        said = redacted(one.error_message)
        shortened = said if len(said) <= MAX_REASON else f"{said[: MAX_REASON - 1]}…"
        reasons = (
            (one.status == Status.FAILED, shortened),
            (one.log_concern == LogConcern.LOST, "The source no longer has the log to resume from."),
            (self.failed, f"{self.failed} table{' has' if self.failed == 1 else 's have'} failed."),
            (
                self.dead_letters,
                (
                    f"{self.dead_letters:,} dead-letter row{' is' if self.dead_letters == 1 else 's are'} missing in"
                    " the target."
                ),
            ),
            (running and lasts, shortened),
            (self.firing, f"{self.firing} alert{' fires' if self.firing == 1 else 's fire'}."),
            (
                running and self.objective.word.tone == "bad",
                "SLO missed: fewer changes were in time than required.",
            ),
        )
        return next((reason for holds, reason in reasons if holds), "")

    @property
    def show(self) -> str:
        """person: it has a `reason` to need a user; off: users do not want it to run; busy: it may need one soon; else
        fine.
        """
        if self.reason:
            return PERSON
        if self.replicator.desired != Desired.RUNNING:
            return OFF
        late = self.late or self.objective.word.tone in {"warn", "bad"}
        return BUSY if self.word.tone == "warn" or late or self.failures else FINE

    @property
    def trouble(self) -> tuple[int, int, int, str]:
        """Sort key: replicators that need a user's action first, then those that may soon."""
        score = (
            self.word.trouble
            + (50 if self.replicator.status == Status.FAILED else 0)
            + (25 if self.failed else 0)
            + (10 if self.late else 0)
            + self.objective.word.trouble
        )
        return (list(SHOWS).index(self.show), -score, -self.failures, self.replicator.name.lower())


@dataclass(frozen=True)
class Choice:
    """Of the filter: what is shown (empty: everything), its words, and how many there are."""

    show: str
    title: str
    count: int


@dataclass(frozen=True)
class Fleet:
    """The fleet page's figures; `all` and the filter's choices count before the search and the filter."""

    lines: list[FleetLine]
    all: int
    search: str
    show: str
    choices: list[Choice]
    pager: Pager

    @property
    def busy(self) -> int:
        """How many try again, or are late."""
        return self._counted(BUSY)

    @property
    def people(self) -> int:
        """How many need action."""
        return self._counted(PERSON)

    def _counted(self, show: str) -> int:
        return next(choice.count for choice in self.choices if choice.show == show)


def fleet(query: QueryDict | None = None, path: str = "") -> Fleet:
    """A page of the replicators whose name or connection holds `q`, by trouble; `show`: of these only (`SHOWS`)."""
    query = query or QueryDict()
    search, show = query.get("q", ""), query.get("show", "")
    rows = fleet_rows()
    replicators = [row.replicator for row in rows]
    series = rows_by_minute([one.pk for one in replicators])
    objectives, alerts = objectives_of_fleet(replicators), firing_by_replicator()
    needle = search.strip().lower()
    lines = [
        _fleet_line(
            row, series.get(row.replicator.pk, {}), objectives[row.replicator.pk], alerts.get(row.replicator.pk, 0)
        )
        for row in rows
    ]
    counted = Counter(line.show for line in lines)
    choices = [Choice("", "All", len(lines)), *(Choice(name, title, counted[name]) for name, title in SHOWS.items())]
    show = show if show in SHOWS else ""
    found = [
        line
        for line in lines
        if needle in f"{line.replicator.name} {line.replicator.connection.name}".lower() and show in {"", line.show}
    ]
    found.sort(key=lambda line: line.trouble)
    pager = Pager(page_number(query), PER_PAGE, len(found), path, query, "#fleet")
    return Fleet(found[pager.first - 1 : pager.first - 1 + PER_PAGE], len(rows), search, show, choices, pager)


def _fleet_line(row: FleetRow, minutes: Mapping[datetime, int], objective: ObjectiveView, firing: int) -> FleetLine:
    replicator = row.replicator
    return FleetLine(
        replicator=replicator,
        word=replicator_word(replicator.status, replicator.desired),
        tables=row.tables,
        parts=state_parts(row.states, still=replicator.status == Status.FAILED),
        lag_ms=row.lag_ms,
        late=late(replicator, row.lag_ms),
        rate=recent_rate(minutes),
        spark=spark_of(minutes),
        failures=row.failures_open,
        actions=selectors.allowed_actions(replicator),
        objective=objective,
        firing=firing,
        dead_letters=row.dead_letters,
    )
