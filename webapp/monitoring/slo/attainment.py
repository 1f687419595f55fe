"""How objectives are kept: attainment by window, error budget, burn rates, and what waits too long already.

Events are counted in the window in which they became readable; a late one counts as late even if a user had paused the
replicator.  An event that waits longer than its objective counts as late before it is applied.  A source that is not
read counts as late, too, once nothing shows that the target is as current as the objective demands.  An idle source is
read, as its heartbeats show.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from django.core.cache import cache
from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone

from replicator.telemetry.lags import tally
from replicator.telemetry.slo import (
    FAST,
    HOURS,
    MINUTES,
    PERIOD,
    SLOW,
    BurnRule,
    Objective,
    Tally,
    budget_left,
    burn_rate,
    window_start,
)
from webapp.monitoring.models import LagRow, LagSpan, TableObjective
from webapp.replicators.models import Desired, Replicator, Status

WINDOWS = (*MINUTES, *HOURS)
NOTHING = Tally()
COUNTED_SECONDS, COUNTED_KEPT = 5.0, 30.0
_COUNTING = threading.Lock()
T = TypeVar("T")
# A segment that is late in part counts as one event until it is late as a whole: its first one is, the others are not
# looked at.
WAITING = """
SELECT t.replicator_id, t.id, coalesce(sum(s.rows - s.reads), 0),
  coalesce(sum(CASE WHEN s.last_commit_ts < c.cutoff THEN s.rows - s.reads ELSE 1 END)
    FILTER (WHERE s.first_commit_ts < c.cutoff), 0),
  min(s.first_commit_ts)
FROM replicators_segmentrow s
JOIN replicators_replicatortable t ON t.id = s.table_id
LEFT JOIN monitoring_tableobjective p ON p.table_id = t.id
JOIN unnest(%s::bigint[], %s::timestamptz[]) AS r (id, cutoff) ON r.id = t.replicator_id
CROSS JOIN LATERAL (
  SELECT coalesce(%s::timestamptz - make_interval(secs => p.seconds), r.cutoff) AS cutoff
) c
WHERE s.applied_at IS NULL AND s.kind = 'log' AND t.state IN ('streaming', 'reloading')
  AND s.last_sequence > t.live_from AND (p.since IS NULL OR s.last_commit_ts >= p.since)
GROUP BY t.replicator_id, t.id
"""


@dataclass(frozen=True)
class Figures:
    """The figures of one objective at `at`.

    windows       events by window (`WINDOWS`), those that wait too long included
    waiting       events that are staged and not yet in the target; waiting_late: for longer than the objective
    unproven      since when nothing shows that the target is as current as the objective demands; None: it is
    behind        everything that was committed before it is in the target; None: not known
    watched       False while users have it paused or stopped: what waits is late all the same, but no SLO alert fires
    """

    objective: Objective
    at: datetime
    windows: Mapping[str, Tally] = field(default_factory=dict)
    waiting: int = 0
    waiting_late: int = 0
    unproven: datetime | None = None
    behind: datetime | None = None
    watched: bool = True

    def tally(self, window: str) -> Tally:
        return self.windows.get(window, NOTHING)

    @property
    def budget_left(self) -> float | None:
        """Percent; negative when overspent, None without an event in its period."""
        return budget_left(self.objective, self.tally(PERIOD))

    def burn(self, window: str) -> float:
        """1: the budget is used up in exactly its period."""
        share = 0.0
        if self.unproven is not None:
            begin = window_start(window, self.at)
            share = max(0.0, (self.at - max(begin, self.unproven)) / (self.at - begin))
        return burn_rate(self.objective, self.tally(window), share)

    def burning(self, rule: BurnRule) -> bool:
        """In both windows."""
        least = rule.reached(self.objective)
        return self.burn(rule.long) >= least and self.burn(rule.short) >= least

    @property
    def late_now(self) -> bool:
        return self.waiting_late > 0 or self.unproven is not None

    @property
    def kept(self) -> bool | None:
        """Over the budget's period; None without an event."""
        percent = self.tally(PERIOD).percent
        return None if percent is None else percent >= self.objective.percent

    @property
    def state(self) -> str:
        """unwatched, missed, late, burning, idle (no event yet) or kept: the first that holds."""
        if not self.watched:
            return "unwatched"
        if self.kept is False:
            return "missed"
        if self.late_now:
            return "late"
        if self.burning(FAST) or self.burning(SLOW):
            return "burning"
        return "idle" if self.kept is None else "kept"

    def to_dict(self) -> dict[str, Any]:
        """JSON form, with what follows from it, for programs."""
        objective = {"percent": self.objective.percent, "seconds": self.objective.seconds}
        return {
            "objective": objective,
            "promise": objective,  # deprecated
            "at": self.at.isoformat(),
            "state": self.state,
            "windows": {
                name: {"good": one.good, "total": one.total, "percent": one.percent}
                for name, one in self.windows.items()
            },
            "budget_left_percent": self.budget_left,
            "burn": {window: round(self.burn(window), 3) for window in MINUTES},
            "waiting": self.waiting,
            "waiting_late": self.waiting_late,
            "unproven_since": self.unproven.isoformat() if self.unproven else None,
            "whole_up_to": self.behind.isoformat() if self.behind else None,
            "watched": self.watched,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Figures:
        """Inverse of `to_dict`."""
        unproven, behind = data["unproven_since"], data["whole_up_to"]
        objective = data.get("objective") or data["promise"]
        return cls(
            Objective(objective["percent"], objective["seconds"]),
            datetime.fromisoformat(data["at"]),
            {name: Tally(one["good"], one["total"]) for name, one in data["windows"].items()},
            data["waiting"],
            data["waiting_late"],
            datetime.fromisoformat(unproven) if unproven else None,
            datetime.fromisoformat(behind) if behind else None,
            data["watched"],
        )


Key = tuple[int, int | None]  # replicator, table (None: the replicator's own objective)
Edges = dict[str, tuple[datetime, datetime]]
LagOfSpan = tuple[int, int | None, int, datetime, bytes | memoryview]  # replicator, table, span, at, histogram


def objective_of(replicator: Replicator) -> Objective:
    """What its options say."""
    options = replicator.parsed_options
    return Objective(options.slo_percent, options.slo_minutes * 60)


def measure(replicators: Sequence[Replicator], now: datetime | None = None) -> dict[Key, Figures]:
    """Measure replicators, and their tables with their own objectives: three queries, for any number of them.

    Every event counts by the objective of its table; the replicator's attainment is over all of them.
    """
    objectives: dict[Key, Objective] = {(one.pk, None): objective_of(one) for one in replicators}
    own = TableObjective.objects.filter(table__replicator__in=objectives_of(objectives), percent__isnull=False)
    for replicator, table, objective in _own_objectives(own):
        objectives[replicator, table] = objective
    now = now or timezone.now()
    counted, waiting = _count(objectives, now, WINDOWS), _waiting(objectives, now)
    found = {}
    for one in replicators:
        watched = one.desired == Desired.RUNNING and one.status != Status.CREATED
        for key in [key for key in objectives if key[0] == one.pk]:
            objective = objectives[key]
            staged = waiting.get(key, StagedBacklog())
            found[key] = Figures(
                objective=objective,
                at=now,
                windows={name: part + Tally(0, staged.late) for name, part in counted[key].items()},
                waiting=staged.events,
                waiting_late=staged.late,
                unproven=_unproven(one, objective, now) if watched else None,
                behind=min((m for m in (one.source_ts, staged.oldest) if m), default=None) if one.source_ts else None,
                watched=watched,
            )
    return found


def _own_objectives(own: QuerySet[TableObjective]) -> Iterator[tuple[int, int, Objective]]:
    """Yield replicator, table and objective of the tables that have their own."""
    for replicator, table, percent, seconds in own.values_list("table__replicator", "table", "percent", "seconds"):
        if percent is not None and seconds is not None:
            yield replicator, table, Objective(percent, seconds)


@dataclass(frozen=True)
class Attained:
    """One table's attainment over one window; `own`: by its own objective, not the replicator's."""

    objective: Objective
    tally: Tally
    own: bool = False

    @property
    def kept(self) -> bool | None:
        """None without an event."""
        return None if self.tally.percent is None else self.tally.percent >= self.objective.percent


def measure_tables(
    replicator: Replicator, tables: Sequence[int], window: str = "24h", now: datetime | None = None
) -> dict[int, Attained]:
    """Measure these tables, including events that wait too long: three queries, whose rows grow with the window.

    Without `now`, applied events are counted once in `COUNTED_SECONDS` for all callers.
    """
    own = TableObjective.objects.filter(table__in=tables, percent__isnull=False)
    own_of = {table: objective for _, table, objective in _own_objectives(own)}
    whole = objective_of(replicator)
    objectives: dict[Key, Objective] = {(replicator.pk, table): own_of.get(table, whole) for table in tables}
    objectives[replicator.pk, None] = whole
    if now is None:
        said = hashlib.sha256(repr((replicator.uid, window, objectives)).encode()).hexdigest()
        now = timezone.now()
        counted = _lately(f"counted:{said}", partial(_count, objectives, now, (window,)))
    else:
        counted = _count(objectives, now, (window,))
    waiting = _waiting(objectives, now)
    found = {}
    for table in tables:
        key = (replicator.pk, table)
        late = waiting.get(key, StagedBacklog()).late
        found[table] = Attained(objectives[key], counted[key][window] + Tally(0, late), table in own_of)
    return found


def _lately(key: str, count: Callable[[], T]) -> T:
    """What `count` gave within the last seconds; while one counts again, the others get what was, and wait where
    nothing was.
    """
    found: tuple[float, T] | None = cache.get(key)
    if _is_old(found) and _COUNTING.acquire(blocking=found is None):
        try:
            if _is_old(found := cache.get(key)):
                found = time.time() + COUNTED_SECONDS, count()
                cache.set(key, found, COUNTED_KEPT)
        finally:
            _COUNTING.release()
    assert found is not None  # who finds nothing waits, and counts
    return found[1]


def _is_old(found: tuple[float, Any] | None) -> bool:
    return found is None or found[0] <= time.time()


def objectives_of(objectives: Mapping[Key, Objective]) -> list[int]:
    """The replicators among the keys."""
    return [replicator for replicator, table in objectives if table is None]


def _unproven(replicator: Replicator, objective: Objective, now: datetime) -> datetime | None:
    """Changes of the source may wait there, unread, for longer than the objective."""
    if replicator.source_ts is None:
        return None
    since = replicator.source_ts + timedelta(seconds=objective.seconds)
    return since if since < now else None


def _count(objectives: Mapping[Key, Objective], now: datetime, windows: Sequence[str]) -> dict[Key, dict[str, Tally]]:
    """Events by window.

    Those of a table with its own objective leave the replicator's count, and return judged by it.
    """
    counted = {key: dict.fromkeys(windows, NOTHING) for key in objectives}
    edges = _edges(now, windows)
    for replicator, table, span, at, held in _rows(objectives, edges):
        stored = bytes(held)
        key, whole = (replicator, table), (replicator, None)
        within = [name for name, (edge, hour) in edges.items() if _inside(span, at, edge, hour)]
        part = Tally(*tally(stored, objectives[key].seconds))
        if table is None:
            change = part
        elif objectives[key].seconds == objectives[whole].seconds:
            change = NOTHING
        else:
            change = part - Tally(*tally(stored, objectives[whole].seconds))
        for name in within:
            counted[whole][name] += change
            if table is not None:
                counted[key][name] += part
    return counted


def _inside(span: int, at: datetime, edge: datetime, hour: datetime) -> bool:
    """Minutes up to the window's first whole hour, and hours from there."""
    return edge <= at < hour if span == LagSpan.MINUTE else at >= hour


def _edges(now: datetime, windows: Sequence[str]) -> Edges:
    """Where each window begins, and its first whole hour."""
    edges = {}
    for name in windows:
        edge = window_start(name, now)
        whole = edge.replace(minute=0)
        edges[name] = (edge, whole if whole == edge else whole + timedelta(hours=1))
    return edges


def _rows(objectives: Mapping[Key, Objective], edges: Edges) -> Iterable[LagOfSpan]:
    minutes = Q()
    for edge, hour in edges.values():
        if edge < hour:
            minutes |= Q(at__gte=edge, at__lt=hour)
    span = Q(span=LagSpan.HOUR, at__gte=min(hour for _, hour in edges.values()))
    if minutes:
        span |= Q(minutes, span=LagSpan.MINUTE)
    tables = [table for _, table in objectives if table is not None]
    whose = Q(table=None) | Q(table__in=tables)
    found = LagRow.objects.filter(whose, span, replicator__in=objectives_of(objectives)).order_by()
    return found.values_list("replicator_id", "table_id", "span", "at", "histogram")


@dataclass(frozen=True)
class StagedBacklog:
    """Staged events that are not in the target yet, and the oldest one's commit time."""

    events: int = 0
    late: int = 0
    oldest: datetime | None = None

    def __add__(self, other: StagedBacklog) -> StagedBacklog:
        oldest = min((moment for moment in (self.oldest, other.oldest) if moment), default=None)
        return StagedBacklog(self.events + other.events, self.late + other.late, oldest)


def _waiting(objectives: Mapping[Key, Objective], now: datetime) -> dict[Key, StagedBacklog]:
    """Of replicators and of tables with their own objective: one query."""
    replicators = objectives_of(objectives)
    cutoffs = [now - timedelta(seconds=objectives[pk, None].seconds) for pk in replicators]
    found: dict[Key, StagedBacklog] = {}
    with connection.cursor() as cursor:
        cursor.execute(WAITING, [replicators, cutoffs, now])
        rows = cursor.fetchall()
    for replicator, table, staged, late, oldest in rows:
        for key in ((replicator, None), (replicator, table)):
            if key in objectives:
                found[key] = found.get(key, StagedBacklog()) + StagedBacklog(int(staged), int(late), oldest)
    return found
