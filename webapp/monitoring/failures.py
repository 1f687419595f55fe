"""Reading failures: filtered, counted by table and code, of one replicator or of the whole fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Q, QuerySet
from django.utils import timezone

from webapp.monitoring.models import Failure, Stage
from webapp.replicators.models import Replicator

RANGES: Mapping[str, tuple[str, float | None]] = {
    "1h": ("1 hour", 1),
    "24h": ("24 hours", 24),
    "7d": ("7 days", 168),
    "30d": ("30 days", 720),
    "all": ("All", None),
}
DEFAULT_RANGE = "24h"
STATES: Mapping[str, str] = {"open": "Open", "over": "Over"}
WHOLE = "0"  # of the filter by table: failures of the whole replicator
MAX_COUNTS = 200
DIGITS = 15


@dataclass(frozen=True)
class FailureFilters:
    """What the reader wants to see.  `table` and `replicator` are ids as text, `table` WHOLE for those without one.

    Open failures are within every range, however old they are.
    """

    replicator: str = ""
    table: str = ""
    code: str = ""
    stage: str = ""
    state: str = ""
    since: str = DEFAULT_RANGE

    @classmethod
    def of(cls, query: Mapping[str, Any]) -> FailureFilters:
        """Of a query string; what is not known filters nothing."""
        values = {name: str(query.get(name) or "").replace("\0", "") for name in cls.__dataclass_fields__}
        numbers = {name: values[name] for name in ("replicator", "table") if _number(values[name])}
        return cls(
            **numbers,
            code=values["code"],
            stage=values["stage"] if values["stage"] in Stage.values else "",
            state=values["state"] if values["state"] in STATES else "",
            since=values["since"] if values["since"] in RANGES else DEFAULT_RANGE,
        )

    @property
    def narrowed(self) -> bool:
        """Something is left out beside what is old."""
        return any((self.replicator, self.table, self.code, self.stage, self.state))


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= DIGITS


def failures(
    filters: FailureFilters, *, replicator: Replicator | None = None, now: datetime | None = None
) -> QuerySet[Failure]:
    """Newest first, with tables and replicators."""
    found = _within(filters, replicator, now)
    if filters.replicator:
        found = found.filter(replicator_id=int(filters.replicator))
    if filters.table:
        found = found.filter(table_id=None if filters.table == WHOLE else int(filters.table))
    if filters.code:
        found = found.filter(code=filters.code)
    if filters.stage:
        found = found.filter(stage=filters.stage)
    if filters.state:
        found = found.filter(resolved_at__isnull=filters.state == "open")
    return found.select_related("table", "replicator")


@dataclass(frozen=True)
class FailureTally:
    """How often one kind of failure happened to one table; `table_id` None and an empty name for the whole
    replicator.
    """

    replicator_id: int
    replicator: str
    table_id: int | None
    table: str
    code: str
    attempts: int
    open: int
    last_at: datetime

    def query(self, filters: FailureFilters, *, fleet: bool) -> str:
        """The query string of the failures that are counted here."""
        values = {"since": filters.since, "table": str(self.table_id or WHOLE), "code": self.code}
        return urlencode(values | ({"replicator": str(self.replicator_id)} if fleet else {}))


def counts(
    filters: FailureFilters, *, replicator: Replicator | None = None, now: datetime | None = None
) -> list[FailureTally]:
    """Return the time range's most frequent failures (other filters do not apply): one query, at most MAX_COUNTS."""
    names = ("replicator_id", "replicator__name", "table_id", "table__database", "table__name", "code")
    found = (
        _within(filters, replicator, now)
        .order_by()
        .values(*names)
        .annotate(attempts=Count("id"), open=Count("id", filter=Q(resolved_at=None)), last_at=Max("at"))
        .order_by("-attempts", "replicator__name", "table__database", "table__name", "code")
    )
    return [
        FailureTally(
            replicator_id=row["replicator_id"],
            replicator=row["replicator__name"],
            table_id=row["table_id"],
            table=f"{row['table__database']}.{row['table__name']}" if row["table_id"] else "",
            code=row["code"],
            attempts=row["attempts"],
            open=row["open"],
            last_at=row["last_at"],
        )
        for row in found[:MAX_COUNTS]
    ]


def open_count(replicator: Replicator) -> int:
    """What nothing has resolved yet: however often it was tried, one outage of a source is one, and so is each failing
    table.
    """
    return incidents(Failure.objects.filter(replicator=replicator, resolved_at=None)).get(replicator.pk, 0)


def incidents(found: QuerySet[Failure]) -> dict[int, int]:
    """Of each replicator: kinds of failures of each table, or of the whole, without their attempts and stages."""
    kinds = found.order_by().values_list("replicator", "table", "code").distinct()
    return dict(Counter(replicator for replicator, _, _ in kinds))


def _within(filters: FailureFilters, replicator: Replicator | None, now: datetime | None) -> QuerySet[Failure]:
    found = Failure.objects.all()
    if replicator is not None:
        found = found.filter(replicator=replicator)
    hours = RANGES[filters.since][1]
    if hours is not None:
        found = found.filter(Q(at__gte=(now or timezone.now()) - timedelta(hours=hours)) | Q(resolved_at=None))
    return found
