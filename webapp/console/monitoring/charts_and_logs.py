"""The charts page; the logs page: filter, follow, download.  Objectives of single tables, from the settings page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import ConfigurationError
from webapp.console.monitoring.downloads import log_file
from webapp.console.monitoring.forms import TableObjectiveForm
from webapp.console.views.detail import page, replicator_or_404
from webapp.monitoring import selectors
from webapp.monitoring.charts import ranges
from webapp.monitoring.charts.charts import charts as charts_of
from webapp.monitoring.models import Stage
from webapp.monitoring.services import objective_for_table
from webapp.replicators.selectors import tables_of
from webapp.web.responses import user_of

SHOWN = 200
TABLES_OFFERED = 500
MAX_ID = 19  # digits


@dataclass(frozen=True)
class Filters:
    """What the reader wants to see; `level` is the least one shown."""

    level: str = ""
    stage: str = ""
    table: str = ""
    text: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        """Unknown levels and stages show everything."""
        level, stage, table, text = (
            query.get(name, "").replace("\0", "") for name in ("level", "stage", "table", "text")
        )
        return cls(
            level if level in selectors.LEVELS else "", stage if stage in Stage.values else "", table, text.strip()
        )

    @property
    def any(self) -> bool:
        return bool(self.level or self.stage or self.table or self.text)


@login_required
@require_safe
def charts(request: HttpRequest, pk: int) -> HttpResponse:
    """Of all tables or of one, over a range; live while it ends now.  `open`: charts whose tables are to be filled."""
    replicator = replicator_or_404(pk)
    now, refused = timezone.now(), ""
    try:
        shown = ranges.asked(request.GET, now)
    except ConfigurationError as error:
        shown, refused = ranges.last(ranges.USUAL, now), f"{error.message} {error.remedy}"
    offered = tables_of(replicator).select_related("objective")
    asked = request.GET.get("table", "")
    table = offered.filter(pk=int(asked)).first() if asked.isdigit() and len(asked) < MAX_ID else None
    of_table = f"&table={table.pk}" if table else ""
    context = {
        "shown": shown,
        "refused": refused,
        "table": table,
        "tables": offered.only("database", "name", "objective")[:TABLES_OFFERED],
        "charts": charts_of(replicator, shown, table=table, opened=request.GET.getlist("open")),
        "ranges": [(name, label, f"?range={name}{of_table}") for name, (label, _) in ranges.RANGES.items()],
        "address": f"?{shown.address}{of_table}",
        "stopped": f"?{urlencode(shown.stopped_query)}{of_table}",
        "going_on": f"?{urlencode(shown.query)}{of_table}",
        "begins": ranges.shown(shown.begin),
        "ends": ranges.shown(shown.end),
        "minute_days": settings.TIDEMARK_LAG_MINUTE_DAYS,
    }
    return page(request, replicator, "charts", context)


@login_required
@require_safe
def logs(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the newest lines, or those before one; followed live unless the query says otherwise."""
    replicator = replicator_or_404(pk)
    filters = Filters.of(request.GET)
    before = request.GET.get("before", "")
    lines = selectors.log_lines(
        replicator, **asdict(filters), before=int(before) if before.isdigit() else None, limit=SHOWN
    )
    tables = [str(table) for table in tables_of(replicator)[:TABLES_OFFERED]]
    query = request.GET.copy()
    query.pop("before", None)
    context = {
        "lines": lines,
        "filters": filters,
        "levels": selectors.LEVELS,
        "stages": Stage.values,
        "kept_days": settings.TIDEMARK_LOG_RETENTION_DAYS,
        "kept_lines": settings.TIDEMARK_LOG_LINES,
        "shown": SHOWN,
        "log_tables": tables,
        "following": not before and request.GET.get("follow", "on") == "on",
        "older": lines[0].pk if len(lines) == SHOWN else None,
        "before": before,
        "query": query.urlencode(),
    }
    return page(request, replicator, "logs", context)


@login_required
@require_safe
def download(request: HttpRequest, pk: int) -> StreamingHttpResponse:
    """Every line that matches, oldest first, as text or JSON lines."""
    return log_file(replicator_or_404(pk), request.GET.get("format", ""), asdict(Filters.of(request.GET)))


@login_required
@require_POST
def objective(request: HttpRequest, pk: int) -> HttpResponse:
    """Store a table's own objective; without figures, the replicator's holds for it again."""
    replicator = replicator_or_404(pk)
    form = TableObjectiveForm(request.POST, tables=tables_of(replicator).select_related("replicator"))
    if not form.is_valid():
        said = " ".join(str(text) for texts in form.errors.values() for text in texts)
        messages.error(request, f"SLO not saved. {said}")
    else:
        table, percent, seconds = form.objective
        try:
            objective_for_table(table=table, percent=percent, seconds=seconds, user=user_of(request))
        except ConfigurationError as error:
            messages.error(request, f"SLO not saved. {error.message} {error.remedy}")
        else:
            messages.success(request, f"SLO of {table} saved.")
    return redirect(reverse("replicators:settings", args=[pk]) + "#objectives")
