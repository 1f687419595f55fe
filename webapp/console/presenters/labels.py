"""How replicators and their tables are put into words and figures for the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Sum
from django.utils import timezone

from replicator.state.tables import TableState
from webapp.monitoring.charts.sparklines import Sparkline, last_minutes, seconds_of, sparkline
from webapp.monitoring.models import MetricMinute
from webapp.replicators.models import Desired, Replicator, RunState, SnapshotRun, Status

SPARK_MINUTES = 15
RATE_MINUTES = 5
MOVED_ROWS = F("inserts") + F("updates") + F("deletes") + F("reads")


@dataclass(frozen=True)
class StateWord:
    """A state as people see it: word, icon, tone (ok, info, warn, bad, idle); `trouble` sorts, high first."""

    label: str
    icon: str
    tone: str
    trouble: int = 0
    moving: bool = False
    hint: str = ""


REPLICATOR_WORDS: Mapping[str, StateWord] = {
    Status.FAILED: StateWord("Failed", "failed", "bad", 90),
    Status.RETRYING: StateWord("Retrying", "retry", "warn", 80),
    Status.STARTING: StateWord("Starting", "loading", "info", 40, moving=True),
    Status.STOPPING: StateWord("Stopping", "loading", "idle", 35, moving=True),
    Status.DELETING: StateWord("Deleting", "loading", "idle", 35, moving=True),
    Status.RUNNING: StateWord("Running", "ok", "ok", 30),
    Status.PAUSED: StateWord("Paused", "pause", "idle", 20),
    Status.STOPPED: StateWord("Stopped", "stop", "idle", 10),
    Status.CREATED: StateWord("Not started", "clock", "idle", 15),
}
TABLE_WORDS: Mapping[str, StateWord] = {
    TableState.FAILED.value: StateWord("Failed", "failed", "bad", 90),
    TableState.SKIPPED.value: StateWord(
        "Skipped", "pause", "idle", 50, hint="Skipped by a user; resuming it starts a resnapshot"
    ),
    TableState.LOADING.value: StateWord("Loading", "loading", "info", 40, moving=True),
    TableState.RELOADING.value: StateWord("Reloading", "loading", "info", 40, moving=True),
    TableState.WAITING.value: StateWord("Waiting", "clock", "idle", 30),
    TableState.STREAMING.value: StateWord("Streaming", "ok", "ok", 10),
    TableState.DROPPED.value: StateWord("Dropped", "skipped", "idle", 5, hint="Dropped in the source"),
}
RETRYING = StateWord("Retrying", "retry", "warn", 80)
ON_THE_WAY = {
    Desired.PAUSED: StateWord("Pausing", "loading", "idle", 35, moving=True),
    Desired.STOPPED: StateWord("Stopping", "loading", "idle", 35, moving=True),
    Desired.DELETED: REPLICATOR_WORDS[Status.DELETING],
}
STANDING = StateWord("Halted", "stop", "idle", 10, hint="The replicator has failed")
STILL = {Status.PAUSED, Status.STOPPED, Status.CREATED, Status.FAILED}


def replicator_word(status: str, desired: str) -> StateWord:
    """What a replicator does, and where the user wants something else, what it is about to do."""
    if status not in STILL and desired in ON_THE_WAY:
        return ON_THE_WAY[Desired(desired)]
    if desired == Desired.RUNNING and status in STILL - {Status.FAILED}:
        return REPLICATOR_WORDS[Status.STARTING]
    return REPLICATOR_WORDS.get(status, StateWord(status.capitalize(), "info", "idle"))


def table_word(state: str, *, retrying: bool = False) -> StateWord:
    """What a table does."""
    if retrying and state != TableState.FAILED.value:
        return RETRYING
    return TABLE_WORDS.get(state, StateWord(state.capitalize(), "info", "idle"))


def run_word(run: SnapshotRun) -> StateWord:
    """What became of a snapshot, or becomes of it."""
    if run.open:
        return (
            StateWord("Paused", "pause", "idle") if run.paused else StateWord("Reading", "loading", "info", moving=True)
        )
    if run.state == RunState.DONE:
        return StateWord("Read", "ok", "ok")
    return StateWord("Ended", "failed", "bad") if run.error else StateWord("Stopped", "stop", "idle")


@dataclass(frozen=True)
class StatePart:
    """A piece of the split bar: `x` and `width` in units of 100; `count` tables are in it."""

    word: StateWord
    state: str
    count: int
    x: float
    width: float


def state_parts(states: Mapping[str, int], *, still: bool = False) -> list[StatePart]:
    """Table states with their share, trouble first.

    `still`: the replicator has failed, and nothing streams or loads.
    """
    total = sum(states.values())
    ordered = sorted(states.items(), key=lambda item: -table_word(item[0]).trouble)
    parts, x = [], 0.0
    for state, number in ordered:
        if number:
            width = 100 * number / total
            word = table_word(state)
            if still and word.tone in {"ok", "info"}:
                word = STANDING
            parts.append(StatePart(word, state, number, round(x, 2), round(width, 2)))
            x += width
    return parts


def late(replicator: Replicator, lag_ms: int | None) -> bool:
    """True where the lag now is over what the SLO objectives."""
    return lag_ms is not None and lag_ms > replicator.parsed_options.slo_minutes * 60_000


def rows_by_minute(replicators: Sequence[int]) -> dict[int, dict[datetime, int]]:
    """Rows moved per replicator and minute, over the sparkline's time: one query."""
    since = timezone.now() - timedelta(minutes=SPARK_MINUTES + 1)
    found = (
        MetricMinute.objects.filter(replicator__in=replicators, minute__gte=since)
        .exclude(table=None)
        .values("replicator_id", "minute")
        .annotate(rows=Sum(MOVED_ROWS))
        .order_by()
    )
    series: dict[int, dict[datetime, int]] = {}
    for row in found:
        series.setdefault(row["replicator_id"], {})[row["minute"]] = row["rows"]
    return series


def recent_rate(minutes: Mapping[datetime, int]) -> float:
    """Rows a second over the last five minutes."""
    since = timezone.now() - timedelta(minutes=RATE_MINUTES)
    return sum(rows for minute, rows in minutes.items() if minute >= since) / (RATE_MINUTES * 60)


def spark_of(minutes: Mapping[datetime, int]) -> Sparkline:
    """The last minutes as a sparkline, a silent minute as zero."""
    times = last_minutes(SPARK_MINUTES, minutes)
    return sparkline([minutes.get(moment, 0) / seconds_of(moment) for moment in times])
