"""A replicator's pages: overview, tables, activity, schema, settings.  Asked by htmx, each gives its live part only."""

from __future__ import annotations

from typing import Any

from django.conf import settings as django_settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import ConfigurationError, TidemarkError
from webapp.alerts import selectors as alerts
from webapp.alerts.forms import RuleLine, quiet_context
from webapp.console.monitoring.forms import TableObjectiveForm
from webapp.console.presenters import detail
from webapp.console.presenters.forms import OptionsForm, TargetSettingsForm
from webapp.console.presenters.labels import TABLE_WORDS
from webapp.console.presenters.slo import objectives_of
from webapp.monitoring.charts import charts
from webapp.monitoring.charts import sparklines as monitoring
from webapp.monitoring.selectors import table_objectives
from webapp.monitoring.timeline import BY, CHOICES, TimelineFilters, timeline
from webapp.replicators import selectors, services
from webapp.replicators.models import MODES, Replicator, ReplicatorTable, SchemaVersion
from webapp.replicators.services.partial_snapshots import signal_statement
from webapp.replicators.source_log import log_kept
from webapp.replicators.targets import kind_of, try_target
from webapp.web.edit_conflicts import TOLD, changed_meanwhile
from webapp.web.paging import Pager, page_number
from webapp.web.responses import is_htmx, user_of

TABLES_PER_PAGE = 50
EVENTS_PER_PAGE = 50
VERSIONS_PER_PAGE = 25
TABLES_OFFERED = 1000


def replicator_or_404(pk: int) -> Replicator:
    """With its connection."""
    return get_object_or_404(selectors.list_replicators(), pk=pk)


def table_or_404(pk: int, table: int) -> ReplicatorTable:
    """With its replicator as pages have it."""
    replicator = replicator_or_404(pk)
    row = get_object_or_404(ReplicatorTable.objects.filter(replicator=replicator), pk=table)
    row.replicator = replicator
    return row


def page(
    request: HttpRequest, replicator: Replicator, tab: str, context: dict[str, Any], *, live: bool = True
) -> HttpResponse:
    """The whole page, or for htmx the tab's live part where it has one."""
    context |= {"replicator": replicator, "r": replicator, "tab": tab, "section": "replicators"}
    if live and is_htmx(request):
        return render(request, f"replicators/detail/{tab}_live.html", context)
    context["header"] = detail.header(replicator)
    return render(request, f"replicators/detail/{tab}.html", context)


@login_required
@require_safe
def head(request: HttpRequest, pk: int) -> HttpResponse:
    """The live head of all pages of a replicator."""
    replicator = replicator_or_404(pk)
    context = {"replicator": replicator, "r": replicator, "header": detail.header(replicator)}
    return render(request, "replicators/detail/head_live.html", context)


@login_required
@require_safe
def overview(request: HttpRequest, pk: int) -> HttpResponse:
    """Charts, pipeline, snapshot progress."""
    replicator = replicator_or_404(pk)
    context = {
        "charts": charts.overview(replicator, timezone.now()),
        "pipeline": detail.pipeline(replicator),
        "log_kept": log_kept(replicator),
        "progress": detail.total_progress(replicator),
        "snapshot_paused": replicator.parsed_options.snapshot_paused,
        "objectives": objectives_of(replicator, table_objectives(replicator)),
    }
    return page(request, replicator, "overview", context)


@login_required
@require_safe
def tables(request: HttpRequest, pk: int) -> HttpResponse:
    """Every table with its state; searchable, by state, paged."""
    replicator = replicator_or_404(pk)
    state, search = request.GET.get("state", ""), request.GET.get("q", "").strip()
    found = detail.find_tables(replicator, state=state if state in TABLE_WORDS else "", search=search)
    total = found.count()
    number = min(page_number(request.GET), max(1, -(-total // TABLES_PER_PAGE)))
    pager = Pager(number, TABLES_PER_PAGE, total, request.path, request.GET, "#tables-live")
    rows = list(found[pager.first - 1 : pager.first - 1 + TABLES_PER_PAGE])
    context = {
        "lines": detail.table_lines(replicator, rows),
        "pager": pager,
        "state": state,
        "search": search,
        "words": TABLE_WORDS.items(),
        "modes": MODES,
    }
    return page(request, replicator, "tables", context)


@login_required
@require_safe
def activity(request: HttpRequest, pk: int) -> HttpResponse:
    """What happened, newest first; by group of kinds, by whom, of which table."""
    replicator = replicator_or_404(pk)
    filters = TimelineFilters.of(request.GET.dict())
    found = timeline(replicator, filters)
    total = found.count()
    pager = Pager(page_number(request.GET), EVENTS_PER_PAGE, total, request.path, request.GET, "#activity-live")
    events = [
        (event, *monitoring.event_icon(event.kind))
        for event in found[pager.first - 1 : pager.first - 1 + EVENTS_PER_PAGE]
    ]
    context = {
        "events": events,
        "pager": pager,
        "filters": filters,
        "groups": CHOICES.items(),
        "by": BY.items(),
        "kept_days": django_settings.TIDEMARK_METRIC_RETENTION_DAYS,
    }
    return page(request, replicator, "activity", context)


@login_required
@require_safe
def schema(request: HttpRequest, pk: int) -> HttpResponse:
    """Versions of the tables' definitions, newest first; `q` narrows to tables."""
    replicator = replicator_or_404(pk)
    search = request.GET.get("q", "").strip()
    tables_found = detail.find_tables(replicator, search=search)
    found = SchemaVersion.objects.filter(table__in=tables_found.order_by()).select_related("table")
    if request.GET.get("changes") == "only":
        found = found.filter(version__gt=1)
    found = found.order_by("-created_at", "-id")
    pager = Pager(page_number(request.GET), VERSIONS_PER_PAGE, found.count(), request.path, request.GET, "#schema-live")
    versions = list(found[pager.first - 1 : pager.first - 1 + VERSIONS_PER_PAGE])
    context = {
        "lines": detail.version_lines(versions),
        "pager": pager,
        "search": search,
        "changes": request.GET.get("changes", ""),
    }
    return page(request, replicator, "schema", context)


@login_required
def settings(request: HttpRequest, pk: int) -> HttpResponse:
    """Change the options; each says when it takes effect."""
    replicator = replicator_or_404(pk)
    form = _options_form(replicator, request.POST or None)
    if changed_meanwhile(request, replicator.options):
        form.add_error(None, TOLD)
    elif request.method == "POST" and form.is_valid():
        try:
            services.update_options(replicator=replicator, options=form.options, user=user_of(request))
        except ConfigurationError as error:
            form.add_error(None, f"{error.message} {error.remedy}")
        else:
            messages.success(request, "Settings saved.")
            return redirect("replicators:settings", pk=pk)
    return _settings_page(request, replicator, form, TargetSettingsForm(replicator=replicator))


@login_required
@require_POST
def target(request: HttpRequest, pk: int) -> HttpResponse:
    """Change how the target is reached: only to what works."""
    replicator = replicator_or_404(pk)
    form = TargetSettingsForm(request.POST, replicator=replicator)
    if changed_meanwhile(request, replicator.target):
        form.add_error(None, TOLD)
    elif form.is_valid():
        try:
            try_target(replicator, form.changes)
            changed = services.update_target(replicator=replicator, target=form.changes, user=user_of(request))
        except TidemarkError as error:
            form.add_error(None, f"{error.message} {error.remedy}")
        else:
            messages.success(request, "Target settings saved." if changed else "Nothing was changed.")
            return redirect("replicators:settings", pk=pk)
    return _settings_page(request, replicator, _options_form(replicator), form)


def _options_form(replicator: Replicator, data: QueryDict | None = None) -> OptionsForm:
    values, modes = replicator.connection.value_options, kind_of(replicator).capabilities.modes
    return OptionsForm(data, options=replicator.parsed_options, values_of=values, modes=modes)


def _settings_page(
    request: HttpRequest, replicator: Replicator, form: OptionsForm, target_form: TargetSettingsForm
) -> HttpResponse:
    known, rules = list(alerts.channels()), alerts.rules_of(replicator)
    context = {
        "form": form,
        "target_form": target_form,
        "selection": list(replicator.selection.all()[:200]),
        "objectives": table_objectives(replicator),
        "objective_form": TableObjectiveForm(tables=selectors.tables_of(replicator)[:TABLES_OFFERED]),
        "rules": [RuleLine(rule, known) for rule in rules],
        "rules_stored": alerts.as_stored(rules),
        "channels": known,
        "signal_statement": signal_statement(replicator),
        **quiet_context(replicator),
    }
    return page(request, replicator, "settings", context, live=False)
