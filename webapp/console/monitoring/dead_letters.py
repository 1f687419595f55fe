"""The dead-letter rows of a replicator (a tab of its pages), their bytes, and what is decided about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import ConfigurationError
from replicator.state.tables import TableState
from webapp.console.views.detail import page, replicator_or_404
from webapp.monitoring.dead_letters.selectors import (
    STATES,
    DeadLetterFilters,
    dead_letter_rows,
    dump,
    tables_with_dead_letters,
)
from webapp.monitoring.dead_letters.services import discard, replay
from webapp.monitoring.models import DeadLetterRow
from webapp.web.paging import Pager, page_number
from webapp.web.responses import done, user_of

if TYPE_CHECKING:
    from webapp.monitoring.dead_letters.selectors import ShownRow

PER_PAGE = 50
LOADS = frozenset({TableState.LOADING.value, TableState.RELOADING.value})


@dataclass(frozen=True)
class DeadLetterLine:
    """A dead-letter row and what can be done about it now.  `row` is one of `dead_letter_rows`."""

    row: ShownRow

    @property
    def waits(self) -> bool:
        return self.row.resolved_at is None

    @property
    def reading(self) -> bool:
        """Its table is being read again."""
        return self.waits and self.row.table.state in LOADS

    @property
    def replaying(self) -> bool:
        """Rows of its table are being read by their keys."""
        return self.waits and self.row.replaying

    @property
    def key(self) -> str:
        """Before and after the change, as far as it is known."""
        return " → ".join(", ".join(f"{name} {value}" for name, value in key.items()) for key in self.row.keys or ())

    @property
    def cut(self) -> bool:
        return self.row.kept < self.row.size

    @property
    def dump(self) -> str:
        return dump(bytes(self.row.head))


@login_required
@require_safe
def of_replicator(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the replicator's dead-letter rows, with three queries for any number of rows."""
    replicator = replicator_or_404(pk)
    filters = DeadLetterFilters.of(request.GET.dict())
    found = dead_letter_rows(replicator, filters)
    pager = Pager(page_number(request.GET), PER_PAGE, found.count(), request.path, request.GET, "#dead-letter-live")
    context = {
        "filters": filters,
        "lines": [DeadLetterLine(row) for row in found[pager.first - 1 : pager.first - 1 + PER_PAGE]],
        "pager": pager,
        "states": STATES.items(),
        "tables_met": [(str(table.pk), str(table)) for table in tables_with_dead_letters(replicator)],
        "option": replicator.parsed_options.on_decode_error,
    }
    return page(request, replicator, "dead_letters", context)


@login_required
@require_safe
def download(request: HttpRequest, pk: int, row: int) -> HttpResponse:
    """The bytes that were kept."""
    del request
    return bytes_of(get_object_or_404(DeadLetterRow, pk=row, replicator=pk))


def bytes_of(row: DeadLetterRow) -> HttpResponse:
    """As a file."""
    answer = HttpResponse(bytes(row.data), content_type="application/octet-stream")
    answer["Content-Disposition"] = f'attachment; filename="dead-letter-{row.sequence}.bin"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


@login_required
@require_POST
def act(request: HttpRequest, pk: int, row: int, action: str) -> HttpResponse:
    """replay, discard, discard-all (of its table)."""
    found = get_object_or_404(
        DeadLetterRow.objects.defer("data").select_related("table__replicator"), pk=row, replicator=pk
    )
    to = reverse("monitoring:dead_letters", args=[pk])
    try:
        return done(request, _act(found, action, user_of(request)), to=to)
    except ConfigurationError as error:
        return done(request, f"{error.message} {error.remedy}", level="error", to=to)


def _act(row: DeadLetterRow, action: str, user: User) -> str:
    table = row.table
    if action == "replay":
        run = replay(table=table, user=user)
        read = (
            f"{run.what} {'is' if run.rows_estimate == 1 else 'are'} read"
            if run.partial
            else f"{table} is resnapshotted"
        )
        return f"{read}; its dead-letter rows are resolved when that is complete."
    if action not in {"discard", "discard-all"}:
        raise Http404
    number = discard(table=table, rows=[row.pk] if action == "discard" else None, user=user)
    return f"{number:,} dead-letter row{' of' if number == 1 else 's of'} {table} discarded."
