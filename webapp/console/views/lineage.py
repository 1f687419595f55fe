"""Lineage pages: an overview per replicator, and field by field per table."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.console.presenters import detail
from webapp.console.views.detail import page, replicator_or_404, table_or_404
from webapp.replicators import lineage
from webapp.web.paging import Pager, page_number

TABLES_PER_PAGE = 50
MAX_VERSION_DIGITS = 9  # digits of a version


@login_required
@require_safe
def overview(request: HttpRequest, pk: int) -> HttpResponse:
    """Which table goes where; searchable, paged."""
    replicator = replicator_or_404(pk)
    search = request.GET.get("q", "").strip()
    found = detail.find_tables(replicator, search=search).order_by("database", "name")
    total = found.count()
    number = min(page_number(request.GET), max(1, -(-total // TABLES_PER_PAGE)))
    pager = Pager(number, TABLES_PER_PAGE, total, request.path, request.GET, "#lineage-live")
    tables = list(found[pager.first - 1 : pager.first - 1 + TABLES_PER_PAGE])
    context = {"nodes": lineage.overview(replicator, tables), "pager": pager, "search": search}
    return page(request, replicator, "lineage", context)


@login_required
@require_safe
def table(request: HttpRequest, pk: int, table: int) -> HttpResponse:
    """One table field by field at one version: `version`, `q`, and `all=1` for every column one by one."""
    row = table_or_404(pk, table)
    replicator = row.replicator
    search = request.GET.get("q", "").strip()
    asked = request.GET.get("version", "")
    expanded = request.GET.get("all", "") == "1"
    found = lineage.table_lineage(
        row,
        version=int(asked) if asked.isdigit() and len(asked) < MAX_VERSION_DIGITS else None,
        search=search,
        collapse=not expanded,
    )
    return page(
        request, replicator, "lineage_table", {"table": row, "lineage": found, "search": search, "expanded": expanded}
    )
