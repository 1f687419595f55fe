"""A replicator's pages: overview, tables, activity, schema, settings.  Asked by htmx, each gives its live part only."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from replicator.errors import ConfigurationError
from webapp.monitoring import presentation as monitoring
from webapp.monitoring.models import TimelineEvent
from webapp.replicators import inspection, selectors, services
from webapp.replicators.forms import OptionsForm
from webapp.replicators.models import Replicator, SchemaVersion
from webapp.replicators.presentation import TABLE_WORDS, Pager, page_number
from webapp.replicators.retention import log_kept
from webapp.replicators.templatetags.humanised import rate, span
from webapp.replicators.views.replies import is_htmx, user_of

TABLES_PER_PAGE = 50
EVENTS_PER_PAGE = 50
VERSIONS_PER_PAGE = 25


def replicator_or_404(pk: int) -> Replicator:
    """With its connection."""
    return get_object_or_404(selectors.list_replicators(), pk=pk)


def page(request: HttpRequest, replicator: Replicator, tab: str, context: dict[str, Any]) -> HttpResponse:
    """The whole page, or for htmx the tab's live part."""
    context |= {"replicator": replicator, "r": replicator, "tab": tab, "section": "replicators"}
    if is_htmx(request):
        return render(request, f"replicators/detail/{tab}_live.html", context)
    context["header"] = inspection.header(replicator)
    return render(request, f"replicators/detail/{tab}.html", context)


@login_required
@require_safe
def head(request: HttpRequest, pk: int) -> HttpResponse:
    """The live head of all pages of a replicator."""
    replicator = replicator_or_404(pk)
    context = {"replicator": replicator, "r": replicator, "header": inspection.header(replicator)}
    return render(request, "replicators/detail/head_live.html", context)


@login_required
@require_safe
def overview(request: HttpRequest, pk: int) -> HttpResponse:
    """Charts, pipeline, snapshot progress."""
    replicator = replicator_or_404(pk)
    minutes = monitoring.by_minute(replicator)
    context = {
        "charts": monitoring.charts(replicator, minutes, span, rate),
        "pipeline": inspection.pipeline(replicator),
        "log_kept": log_kept(replicator),
        "progress": inspection.total_progress(replicator),
        "slo_minutes": replicator.parsed_options.slo_minutes,
        "snapshot_paused": replicator.parsed_options.snapshot_paused,
    }
    return page(request, replicator, "overview", context)


@login_required
@require_safe
def tables(request: HttpRequest, pk: int) -> HttpResponse:
    """Every table with its state; searchable, by state, paged."""
    replicator = replicator_or_404(pk)
    state, search = request.GET.get("state", ""), request.GET.get("q", "").strip()
    found = inspection.find_tables(replicator, state=state if state in TABLE_WORDS else "", search=search)
    total = found.count()
    number = min(page_number(request.GET), max(1, -(-total // TABLES_PER_PAGE)))
    pager = Pager(number, TABLES_PER_PAGE, total, request.path, request.GET, "#tables-live")
    rows = list(found[pager.first - 1 : pager.first - 1 + TABLES_PER_PAGE])
    context = {
        "lines": inspection.table_lines(replicator, rows),
        "pager": pager,
        "state": state,
        "search": search,
        "words": TABLE_WORDS.items(),
    }
    return page(request, replicator, "tables", context)


@login_required
@require_safe
def activity(request: HttpRequest, pk: int) -> HttpResponse:
    """What happened, newest first."""
    replicator = replicator_or_404(pk)
    found = TimelineEvent.objects.filter(replicator=replicator).select_related("user")
    total = found.count()
    pager = Pager(page_number(request.GET), EVENTS_PER_PAGE, total, request.path, request.GET, "#activity-live")
    events = [
        (event, *monitoring.event_icon(event.kind))
        for event in found[pager.first - 1 : pager.first - 1 + EVENTS_PER_PAGE]
    ]
    return page(request, replicator, "activity", {"events": events, "pager": pager})


@login_required
@require_safe
def schema(request: HttpRequest, pk: int) -> HttpResponse:
    """Versions of the tables' definitions, newest first; `q` narrows to tables."""
    replicator = replicator_or_404(pk)
    search = request.GET.get("q", "").strip()
    tables_found = inspection.find_tables(replicator, search=search)
    found = SchemaVersion.objects.filter(table__in=tables_found.order_by()).select_related("table")
    if request.GET.get("changes") == "only":
        found = found.filter(version__gt=1)
    found = found.order_by("-created_at", "-id")
    pager = Pager(page_number(request.GET), VERSIONS_PER_PAGE, found.count(), request.path, request.GET, "#schema-live")
    versions = list(found[pager.first - 1 : pager.first - 1 + VERSIONS_PER_PAGE])
    context = {
        "lines": inspection.version_lines(versions),
        "pager": pager,
        "search": search,
        "changes": request.GET.get("changes", ""),
    }
    return page(request, replicator, "schema", context)


@login_required
def settings(request: HttpRequest, pk: int) -> HttpResponse:
    """Change the options; each says when it takes effect."""
    replicator = replicator_or_404(pk)
    form = OptionsForm(request.POST or None, options=replicator.parsed_options)
    if request.method == "POST" and form.is_valid():
        try:
            services.update_options(replicator=replicator, options=form.options, user=user_of(request))
        except ConfigurationError as error:
            form.add_error(None, f"{error.message} {error.remedy}")
        else:
            messages.success(request, "The settings are saved.")
            return redirect("replicators:settings", pk=pk)
    selection = list(replicator.selection.all()[:200])
    return page(request, replicator, "settings", {"form": form, "selection": selection})
