"""Choosing tables: the server searches and pages, the draft keeps the choice; made for 20,000 tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import ConfigurationError, TableError, TidemarkError
from replicator.model.identifiers import TableId, TablePattern
from replicator.model.mode import Mode
from replicator.sources.base import TableInfo
from replicator.sources.registry import source_kind
from webapp.connections import selectors as connections
from webapp.connections.models import Connection
from webapp.console.views.column_lines import column_lines, filter_of
from webapp.console.views.wizard_draft import Wizard, open_wizard
from webapp.replicators.selection.entries import SelectionEntry, named_entry
from webapp.web.formatting import slug
from webapp.web.paging import Pager, page_number
from webapp.web.responses import user_of

PER_PAGE = 100
MATCHING_PAGE = 1000
MATCHES_SHOWN = 12


@dataclass(frozen=True)
class Row:
    """A table in the list; `slug` is an id for the page, the same for the same table."""

    info: TableInfo
    selected: bool
    left_out: int
    mode: str
    masked: int
    filtered: bool

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
        "rows": [
            Row(
                i,
                i.table in selected,
                len(selected.columns.get(i.table, ())),
                selected.modes.get(i.table, ""),
                len(selected.masks.get(i.table, ())),
                bool(selected.filters.get(i.table)),
            )
            for i in found
        ],
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
    """Take or leave a database, a table, everything that matches, or a pattern."""
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
        elif operation == "pattern":
            entry = pattern_entry(post.get("pattern", ""), new_tables=post.get("new_tables") == "1")
            selected.set_pattern(entry, on=on)
        elif operation == "nothing":
            selected = type(selected)()
    except TidemarkError as error:
        return render(request, "replicators/wizard/picker.html", {"draft": wizard.draft, "error": error})
    wizard.save("tables", selection=selected.to_dict())
    return _listing(request, wizard, post)


def pattern_entry(text: str, *, new_tables: bool = True) -> SelectionEntry:
    """ConfigurationError for a text that names a single table."""
    entry = named_entry(text.strip())
    if not entry.wide:
        message = f"{text.strip()} has neither * nor ?."
        raise ConfigurationError(message, remedy="Tick a single table in the list.")
    return replace(entry, table=entry.table or "*", pattern=True, new_tables=new_tables or entry.excluded)


@login_required
@require_safe
def pattern(request: HttpRequest, draft: int) -> HttpResponse:
    """What a pattern matches now, while it is typed."""
    wizard = open_wizard(user_of(request), draft)
    text = request.GET.get("pattern", "").strip()
    context: dict[str, Any] = {"text": text}
    try:
        if text:
            entry = pattern_entry(text)
            wanted = TablePattern(entry.database, entry.table)
            found = [table for table in matching(wizard.source, entry.database, "") if wanted.matches(table)]
            context |= {"entry": entry, "found": found[:MATCHES_SHOWN], "count": len(found)}
    except TidemarkError as error:
        context["error"] = error
    return render(request, "replicators/wizard/pattern.html", context)


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
    """The columns of one table; those without a tick are left out, others may be masked."""
    wizard = open_wizard(user_of(request), draft, lock=True)
    given = request.POST if request.method == "POST" else request.GET
    table = TableId(given.get("of", ""), given.get("table", ""))
    context: dict[str, Any] = {"draft": wizard.draft, "table": table, "slug": given.get("slug", "")[:12]}
    selected = wizard.selected
    try:
        schema = connections.describe(wizard.source, [table], selected.columns).get(table)
    except TidemarkError as error:
        return render(request, "replicators/wizard/columns.html", context | {"error": error})
    if schema is None or isinstance(schema, TableError):
        missing = TableError(f"{table} no longer exists.", remedy="Search again.")
        return render(request, "replicators/wizard/columns.html", context | {"error": schema or missing})
    if request.method == "POST":
        kept = set(request.POST.getlist("column")) | set(schema.key)
        selected.leave_out(table, [name for name in schema.names if name not in kept])
        selected.keep_as(table, request.POST.get("mode", ""))
    out, masks = selected.columns.get(table, set()), selected.masks.get(table, {})
    lines = column_lines(schema, out, masks, request.POST if request.method == "POST" else None)
    typed = request.POST.get("row_filter", "") if request.method == "POST" else selected.filters.get(table, "")
    row_filter, problem = filter_of(typed, schema, out, source_kind(wizard.source.kind))
    context |= {"row_filter": typed, "filter_problem": problem}
    if request.method == "POST":
        if row_filter is not None:
            selected.filters[table] = str(row_filter)
        selected.masks[table] = {line.name: line.mask for line in lines if line.mask is not None}
        wizard.save("tables", selection=selected.to_dict())
    context |= {"columns": lines, "left_out": len(out), "masked": sum(line.mask is not None for line in lines)}
    context |= {"mode": selected.modes.get(table, "")}
    context["modes"] = [(mode.value, mode.label) for mode in Mode if schema.key or not mode.needs_key]
    return render(request, "replicators/wizard/columns.html", context)
