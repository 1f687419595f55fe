"""The fleet: every replicator with its figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Count, F, Min, Q, Sum
from django.db.models.functions import Greatest
from django.utils import timezone

from replicator.state.tables import TableState
from webapp.monitoring.failures import incidents
from webapp.monitoring.models import Failure, MetricMinute
from webapp.replicators.models import (
    Replicator,
    ReplicatorTable,
)
from webapp.replicators.selectors import allowed_actions, elapsed_ms, list_replicators


@dataclass(frozen=True)
class FleetRow:
    """A line of the fleet page."""

    replicator: Replicator
    tables: int
    states: dict[str, int]
    lag_ms: int | None
    rows_per_minute: int
    failures_open: int
    dead_letters: int = 0
    actions: frozenset[str] = field(default_factory=frozenset)


def fleet_rows() -> list[FleetRow]:
    """All replicators with figures; a constant number of queries, each of a row a replicator and state."""
    found = list(list_replicators())
    unsolved = incidents(Failure.objects.filter(resolved_at=None))
    now = timezone.now()
    minutes = MetricMinute.objects.filter(minute__gte=now - timedelta(minutes=5), table__isnull=False).order_by()
    recent = dict(minutes.values_list("replicator").annotate(moved=Sum(F("events") + F("reads"))))
    pending = Q(last_sequence__gt=Greatest("applied", "live_from"))
    tables = ReplicatorTable.objects.order_by().values_list("replicator", "state").annotate( number=Count("pk"),
        waiting_rows=Sum("dead_letters"), since=Min("applied_commit_ts", filter=pending),
        even=Count("pk", filter=~pending)
    )  # fmt: skip
    states: dict[int, dict[str, int]] = {}
    dead_letters: Counter[int] = Counter()
    oldest: dict[int, tuple[datetime | None, bool]] = {}
    for pk, state, number, rows, waiting, even in tables:
        states.setdefault(pk, {})[state] = number
        dead_letters[pk] += rows
        if state == TableState.STREAMING.value:
            oldest[pk] = (waiting, even > 0)
    lags = {}
    for one in found:
        waiting, even = oldest.get(one.pk, (None, False))
        moments = [at for at in (waiting, one.source_ts if even else None) if at is not None]
        lags[one.pk] = max((elapsed_ms(at, now) or 0 for at in moments), default=None)
    return [
        FleetRow(
            replicator=one,
            tables=sum(states.get(one.pk, {}).values()),
            states=states.get(one.pk, {}),
            lag_ms=lags[one.pk],
            rows_per_minute=recent.get(one.pk, 0) // 5,
            failures_open=unsolved.get(one.pk, 0),
            dead_letters=dead_letters[one.pk],
            actions=allowed_actions(one),
        )
        for one in found
    ]
