"""Failures of one replicator (a tab of its pages), and of the whole fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from replicator.errors import SourceBusy
from replicator.state.tables import TableState
from webapp.console.views.detail import page, replicator_or_404
from webapp.monitoring.failures import (
    MAX_COUNTS,
    RANGES,
    STATES,
    WHOLE,
    FailureFilters,
    FailureTally,
    counts,
    failures,
)
from webapp.monitoring.models import Failure, Stage
from webapp.replicators.models import Replicator
from webapp.web.paging import Pager, page_number
from webapp.web.responses import is_htmx

PER_PAGE = 50
COUNTS_SHOWN = 20


@dataclass(frozen=True)
class FailureLine:
    """A failure and what can be done about it now."""

    failure: Failure
    now: datetime

    @property
    def open(self) -> bool:
        return self.failure.resolved_at is None

    @property
    def ahead(self) -> bool:
        """Another try follows, and has not begun."""
        return self.open and self.failure.next_retry_at is not None and self.failure.next_retry_at > self.now

    @property
    def for_good(self) -> bool:
        """Nothing was to follow."""
        return self.open and self.failure.next_retry_at is None and not self.waits

    @property
    def waits(self) -> bool:
        """It continues automatically, once what it names on the source has ended."""
        return self.open and self.failure.next_retry_at is None and self.failure.code == SourceBusy.code

    @property
    def skipped(self) -> bool:
        return self.failure.table is not None and self.failure.table.state == TableState.SKIPPED.value

    @property
    def gone(self) -> bool:
        """The source has the table no longer."""
        return self.failure.table is not None and self.failure.table.state == TableState.DROPPED.value


@dataclass(frozen=True)
class CountLine:
    """A count and the address of what it counts."""

    count: FailureTally
    query: str
    chosen: bool


@login_required
@require_safe
def of_replicator(request: HttpRequest, pk: int) -> HttpResponse:
    """Every failure of a replicator."""
    replicator = replicator_or_404(pk)
    return page(request, replicator, "failures", _context(request, replicator))


@login_required
@require_safe
def of_fleet(request: HttpRequest) -> HttpResponse:
    """Every failure of all replicators."""
    context = _context(request, None) | {"section": "failures"}
    return render(request, "failures/list.html" if is_htmx(request) else "failures/index.html", context)


def _context(request: HttpRequest, replicator: Replicator | None) -> dict[str, Any]:
    """Three queries."""
    now = timezone.now()
    filters = FailureFilters.of(request.GET.dict() | ({"replicator": ""} if replicator else {}))
    counted = counts(filters, replicator=replicator, now=now)
    found = failures(filters, replicator=replicator, now=now)
    pager = Pager(page_number(request.GET), PER_PAGE, found.count(), request.path, request.GET, "#failures-live")
    rows = list(found[pager.first - 1 : pager.first - 1 + PER_PAGE])
    return {
        "filters": filters,
        "fleet": replicator is None,
        "lines": [FailureLine(failure, now) for failure in rows],
        "pager": pager,
        "counts": _count_lines(counted[:COUNTS_SHOWN], filters, fleet=replicator is None),
        "more_counts": max(0, len(counted) - COUNTS_SHOWN),
        "cut": len(counted) == MAX_COUNTS,
        "attempts": sum(one.attempts for one in counted),
        "open": sum(one.open for one in counted),
        "ranges": [(value, label) for value, (label, _) in RANGES.items()],
        "states": STATES.items(),
        "stages": Stage.values,
        "codes": sorted({one.code for one in counted} | {filters.code} - {""}),
        "replicators_met": sorted({(str(one.replicator_id), one.replicator) for one in counted}, key=lambda x: x[1]),
        "tables_met": _tables(counted, fleet=replicator is None),
    }


def _count_lines(counted: Sequence[FailureTally], filters: FailureFilters, *, fleet: bool) -> list[CountLine]:
    return [
        CountLine(
            one,
            one.query(filters, fleet=fleet),
            (filters.table, filters.code) == (str(one.table_id or WHOLE), one.code)
            and filters.replicator in {"", str(one.replicator_id)},
        )
        for one in counted
    ]


def _tables(counted: Sequence[FailureTally], *, fleet: bool) -> list[tuple[str, str]]:
    """Ids and names of those that failed within the range."""
    found = {
        (str(one.table_id), f"{one.replicator}: {one.table}" if fleet else one.table) for one in counted if one.table_id
    }
    return [(WHOLE, "No table: the replicator as a whole"), *sorted(found, key=lambda item: item[1])]
