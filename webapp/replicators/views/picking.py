"""Choosing tables: the server searches and pages, the draft keeps the choice; made for 20,000 tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.sources.base import TableInfo
from webapp.connections import selectors as connections
from webapp.connections.models import Connection
from webapp.replicators.presentation import Pager, page_number
from webapp.replicators.templatetags.humanised import slug
from webapp.replicators.views.drafting import Wizard, open_wizard
from webapp.replicators.views.replies import user_of

PER_PAGE = 100
MATCHING_PAGE = 1000


@dataclass(frozen=True)
class Row:
    """A table in the list; `slug` is an id for the page, the same for the same table."""

    info: TableInfo
    selected: bool
    left_out: int

    @property
    def slug(self) -> str:
        return slug(self.info.table)


@login_required
@require_safe
def listing(request: HttpRequest, draft: int) -> HttpResponse:
    """Databases, and a page of tables."""
    return _listing(request, open_wizard(user_of(request), draft), request.GET)


def _listing(request: HttpRequest, wizard: Wizard, view: QueryDict) -> HttpResponse:
    database, search, number = view.get("database", ""), view.get("q", "").strip(), page_number(view)
    context: dict[str, Any] = {"draft": wizard.draft, "database": database, "search": search, "page": number}
    context["word"] = wizard.source.database_word
    try:
        databases = wizard.databases()
        found, total = connections.tables(
            wizard.source, database or None, search, limit=PER_PAGE, offset=(number - 1) * PER_PAGE
        )
    except TidemarkError as error:
        return render(request, "replicators/wizard/picker.html", context | {"error": error})
    selected = wizard.selected
    query = QueryDict(mutable=True)
    query.update({"database": database, "q": search})
    path = request.path.replace("/pick/", "/list/")
    context |= {
        "databases": [(d, d.name in selected.databases, selected.count_in(d)) for d in databases],
        "all_tables": sum(d.tables for d in databases),
        "rows": [Row(i, i.table in selected, len(selected.columns.get(i.table, ()))) for i in found],
        "pager": Pager(number, PER_PAGE, total, path, query, "#picker"),
        "total": total,
        "chosen": selected.count(databases),
        "selected": selected,
        "whole": database in selected.databases,
    }
    return render(request, "replicators/wizard/picker.html", context)


@login_required
@transaction.atomic
@require_POST
def pick(request: HttpRequest, draft: int) -> HttpResponse:
    """Take or leave a database, a table, or everything that matches."""
    wizard = open_wizard(user_of(request), draft, lock=True)
    selected = wizard.selected
    post = request.POST
    operation, on = post.get("op"), post.get("on") == "1"
    try:
        if operation == "database":
            selected.set_database(post["of"], on=on)
        elif operation == "table":
            selected.set_tables([TableId(post["of"], post["table"])], on=on)
        elif operation == "matching":
            found = matching(wizard.source, post.get("database") or None, post.get("q", "").strip())
            selected.set_tables(found, on=on)
        elif operation == "nothing":
            selected = type(selected)()
    except TidemarkError as error:
        return render(request, "replicators/wizard/picker.html", {"draft": wizard.draft, "error": error})
    wizard.save("tables", selection=selected.to_dict())
    return _listing(request, wizard, post)


def matching(connection: Connection, database: str | None, search: str) -> Iterator[TableId]:
    """Every table that matches, page by page."""
    offset, total = 0, 1
    while offset < total:
        page, total = connections.tables(connection, database, search, limit=MATCHING_PAGE, offset=offset)
        yield from (info.table for info in page)
        offset += MATCHING_PAGE


@login_required
@transaction.atomic
def columns(request: HttpRequest, draft: int) -> HttpResponse:
    """The columns of one table; those without a tick are left out."""
    wizard = open_wizard(user_of(request), draft, lock=True)
    given = request.POST if request.method == "POST" else request.GET
    table = TableId(given.get("of", ""), given.get("table", ""))
    context: dict[str, Any] = {"draft": wizard.draft, "table": table, "slug": given.get("slug", "")[:12]}
    try:
        schema = connections.describe(wizard.source, [table]).get(table)
    except TidemarkError as error:
        return render(request, "replicators/wizard/columns.html", context | {"error": error})
    if schema is None or isinstance(schema, TableError):
        missing = TableError(f"{table} is not there any more.", remedy="Search again.")
        return render(request, "replicators/wizard/columns.html", context | {"error": schema or missing})
    selected = wizard.selected
    if request.method == "POST":
        kept = set(request.POST.getlist("column")) | set(schema.key)
        selected.leave_out(table, [name for name in schema.names if name not in kept])
        wizard.save("tables", selection=selected.to_dict())
    out = selected.columns.get(table, set())
    context["columns"] = [(c, c.name in schema.key, c.name not in out) for c in schema.columns]
    return render(request, "replicators/wizard/columns.html", context | {"left_out": len(out)})
