"""The copy of one table in the target: what it is made of, how to query it, its first rows."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from replicator.errors import TidemarkError
from webapp.console.views.detail import page, table_or_404
from webapp.replicators.target_tables import PREVIEW_ROWS, sharing, target_preview, target_report
from webapp.replicators.targets import kind_of


@login_required
@require_safe
def target(request: HttpRequest, pk: int, table: int) -> HttpResponse:
    """Figures and examples."""
    row = table_or_404(pk, table)
    context: dict[str, Any] = {"table": row, "kind": kind_of(row.replicator), "preview_rows": PREVIEW_ROWS}
    context |= {"part": row.target.tenant, "sharing": sharing(row)}
    try:
        context["report"] = target_report(row)
    except TidemarkError as error:
        context["error"] = error
    return page(request, row.replicator, "target_table", context, live=False)


@login_required
@require_safe
def preview(request: HttpRequest, pk: int, table: int) -> HttpResponse:
    """Rows, for htmx to put into the page."""
    row = table_or_404(pk, table)
    context: dict[str, Any] = {"table": row}
    try:
        context["preview"] = target_preview(row)
    except TidemarkError as error:
        context["error"] = error
    return render(request, "replicators/detail/target_preview.html", context)
