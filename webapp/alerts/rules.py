"""What each kind of rule looks for.

Nothing here asks the database: a round's facts are fetched once for all replicators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from replicator.errors import ConfigurationError
from replicator.redaction import redacted
from replicator.telemetry.slo import FAST, SLOW
from webapp.alerts.models import RuleKind
from webapp.monitoring.slo.attainment import Figures
from webapp.replicators.models import Desired, LogConcern, Replicator, Status
from webapp.replicators.source_log import log_kept
from webapp.web.formatting import span

CRITICAL, WARNING = "critical", "warning"
NAMED = 3  # tables in a summary


@dataclass(frozen=True)
class Parameter:
    """A number that a rule may be given."""

    name: str
    label: str
    default: float
    least: float
    most: float
    help: str = ""


HOLD = Parameter("hold_minutes", "… for (minutes)", 2, 0, 1440, "Ignores shorter delays.")
PARAMETERS: Mapping[str, tuple[Parameter, ...]] = {
    RuleKind.SLO_BURN: (
        Parameter(
            "least_late", "Minimum number of late changes", 10, 1, 1_000_000, "Ignores a small number of late changes."
        ),
    ),
    RuleKind.LAG: (Parameter("minutes", "Behind by more than (minutes)", 15, 0.05, 10_080), HOLD),
    RuleKind.TABLE_FAILED: (),
    RuleKind.STOPPED: (
        Parameter(
            "retrying_minutes",
            "Failing for (minutes)",
            10,
            0,
            10_080,
            "A replicator that has stopped after its retries fires immediately.",
        ),
    ),
    RuleKind.LOG_KEPT: (),
    RuleKind.DEAD_LETTER_ROWS: (),
}
EXPLAINED: Mapping[str, str] = {
    RuleKind.SLO_BURN: "2 % of the 30-day error budget burned within 1 hour, or 5 % within 6 hours, and still burning.",
    RuleKind.LAG: "The oldest change that is not confirmed in the target was committed longer ago than this.",
    RuleKind.TABLE_FAILED: "A table stopped and requires action. Notifies again when another table stops.",
    RuleKind.STOPPED: (
        "The replicator stopped after its retries, or is still retrying. Does not fire when a user pauses or stops it."
    ),
    RuleKind.LOG_KEPT: (
        "Fires at the limit in the options, or when the log is lost and a restart from scratch is required. Also while"
        " paused."
    ),
    RuleKind.DEAD_LETTER_ROWS: (
        "Fires until the rows are replayed or discarded. Notifies again when another table is affected."
    ),
}


@dataclass(frozen=True)
class Finding:
    """A condition that holds.  hold: how long before it fires; members: what it is about, a new one notifies again."""

    summary: str
    severity: str = WARNING
    hold: timedelta = timedelta()
    detail: Mapping[str, Any] = field(default_factory=dict)
    members: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Facts:
    """Of one replicator, in one round.  figures: its own objective's first, then those of tables, by name;
    dead_letters: rows by table.
    """

    replicator: Replicator
    figures: Mapping[str, Figures]
    failed: Sequence[str]
    now: datetime
    dead_letters: Mapping[str, int] = field(default_factory=dict)

    @property
    def own(self) -> Figures | None:
        return self.figures.get("")

    @property
    def running(self) -> bool:
        return self.replicator.desired == Desired.RUNNING


def defaults(kind: str) -> dict[str, float]:
    """Return a rule's default parameters."""
    return {parameter.name: parameter.default for parameter in PARAMETERS[kind]}


def checked(kind: str, params: Mapping[str, Any]) -> dict[str, float]:
    """With defaults; ConfigurationError that names what is wrong."""
    known = {parameter.name: parameter for parameter in PARAMETERS[kind]}
    if unknown := sorted(set(params) - set(known)):
        raise ConfigurationError(f"The rule {kind} has no parameter {unknown[0]!r}.")
    values = defaults(kind)
    for name, value in params.items():
        one = known[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not one.least <= value <= one.most:
            raise ConfigurationError(f"{one.label}: a number between {one.least:g} and {one.most:g}, not {value!r}.")
        values[name] = value
    return values


def _slo_burn(facts: Facts, params: Mapping[str, float]) -> Finding | None:
    if not facts.running:
        return None
    for rule, severity in ((FAST, CRITICAL), (SLOW, WARNING)):
        for table, one in facts.figures.items():
            late = one.tally(rule.long).late
            if one.burning(rule) and (late >= params["least_late"] or one.unproven is not None):
                whose = f"{table}: the" if table else "The"
                said = f"{one.objective.percent:g} % within {span(one.objective.seconds)}"
                summary = (
                    f"{whose} error budget of the SLO ({said}) burns {one.burn(rule.long):.1f} times too fast; "
                    f"{late:,} late change{'' if late == 1 else 's'} in {rule.long}"
                )
                detail = {"table": table, "burn": {w: round(one.burn(w), 2) for w in (rule.long, rule.short)}}
                return Finding(summary, severity, detail=detail)
    return None


def _lag(facts: Facts, params: Mapping[str, float]) -> Finding | None:
    if not facts.running or facts.own is None or facts.own.behind is None:
        return None
    behind = facts.now - facts.own.behind
    if behind <= timedelta(minutes=params["minutes"]):
        return None
    summary = f"The target is {span(behind.total_seconds())} behind the source"
    hold = timedelta(minutes=params["hold_minutes"])
    return Finding(summary, CRITICAL, hold, {"seconds": round(behind.total_seconds(), 1)})


def _table_failed(facts: Facts, params: Mapping[str, float]) -> Finding | None:
    del params
    if not facts.failed:
        return None
    number, named = len(facts.failed), ", ".join(facts.failed[:NAMED])
    more = f" and {number - NAMED} more" if number > NAMED else ""
    summary = f"{number} table{'s have' if number > 1 else ' has'} failed: {named}{more}"
    return Finding(summary, CRITICAL, detail={"tables": list(facts.failed[:100])}, members=frozenset(facts.failed))


def _stopped(facts: Facts, params: Mapping[str, float]) -> Finding | None:
    one = facts.replicator
    error = {"code": one.error_code, "remedy": redacted(one.error_remedy)}
    if one.status == Status.FAILED:
        return Finding(f"It has stopped: {redacted(one.error_message)}", CRITICAL, detail=error)
    since = one.first_failure_at
    if one.status == Status.RETRYING and since and facts.now - since >= timedelta(minutes=params["retrying_minutes"]):
        spent = span((facts.now - since).total_seconds())
        return Finding(f"It has been failing for {spent}: {redacted(one.error_message)}", WARNING, detail=error)
    return None


def _log_kept(facts: Facts, params: Mapping[str, float]) -> Finding | None:
    del params
    kept = log_kept(facts.replicator)
    if kept is None or not kept.concern:
        return None
    severity = CRITICAL if kept.concern == LogConcern.LOST else WARNING
    detail = {"remedy": kept.remedy, "bytes": kept.bytes, "most": kept.most}
    return Finding(kept.message, severity, detail=detail, members=frozenset({kept.concern}))


def _dead_letter_rows(facts: Facts, params: Mapping[str, float]) -> Finding | None:
    del params
    if not facts.dead_letters:
        return None
    number, tables = sum(facts.dead_letters.values()), sorted(facts.dead_letters)
    more = f" and {len(tables) - NAMED} more" if len(tables) > NAMED else ""
    summary = f"{number:,} dead-letter row{'' if number == 1 else 's'}: {', '.join(tables[:NAMED])}{more}"
    return Finding(summary, WARNING, detail={"tables": tables[:100]}, members=frozenset(tables))


LOOK: Mapping[str, Callable[[Facts, Mapping[str, float]], Finding | None]] = {
    RuleKind.SLO_BURN: _slo_burn,
    RuleKind.LAG: _lag,
    RuleKind.TABLE_FAILED: _table_failed,
    RuleKind.STOPPED: _stopped,
    RuleKind.LOG_KEPT: _log_kept,
    RuleKind.DEAD_LETTER_ROWS: _dead_letter_rows,
}
