"""What is taken of one table of a replicator: columns, masks and rows, with the effect of a change before it is
applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from replicator.errors import ConfigurationError, TableDisappeared, TableError, TidemarkError
from replicator.model.row_filter import RowFilter
from replicator.model.schema import TableSchema
from replicator.sources.registry import source_kind
from webapp.connections import selectors as connections
from webapp.console.views.column_lines import ColumnLine, column_lines, filter_of
from webapp.console.views.detail import page, table_or_404
from webapp.replicators import services
from webapp.replicators.models import ReplicatorTable
from webapp.replicators.selection.change_preview import effects
from webapp.replicators.selection.entries import SelectionEntry
from webapp.web.edit_conflicts import refuse_if_changed
from webapp.web.responses import user_of


@login_required
def columns(request: HttpRequest, pk: int, table: int) -> HttpResponse:
    """A first POST shows the effect; one with `apply` does it.

    Of a table that cannot be copied as it is, one with `exclude` leaves that column out.
    """
    row = table_or_404(pk, table)
    replicator = row.replicator
    context: dict[str, Any] = {"table": row}
    line = replicator.selection.filter(database=row.database, table=row.name, pattern=False, excluded=False).first()
    taken = SelectionEntry.of(line) if line is not None else SelectionEntry(row.database, row.name)
    try:
        schema = _schema(row, taken.excluded_columns)
    except TidemarkError as error:
        if request.method == "POST" and error.column and request.POST.get("exclude") == error.column:
            return _exclude(request, row, taken, error.column)
        return page(request, replicator, "columns", context | {"error": error}, live=False)
    stored = asdict(taken) | {"row_filter": str(taken.row_filter)}
    context["stored"] = stored
    post = request.POST if request.method == "POST" else None
    out = set(taken.excluded_columns)
    if post is not None:
        out = set(schema.names) - set(post.getlist("column")) - set(schema.key)
    lines = column_lines(schema, out, taken.masks, post)
    typed = str(taken.row_filter) if post is None else post.get("row_filter", "")
    row_filter, problem = filter_of(typed, schema, out, source_kind(replicator.connection.kind))
    context |= {"columns": lines, "row_filter": typed, "filter_problem": problem}
    if post is not None and row_filter is not None and not any(one.error for one in lines):
        entry = _entry(row, lines, row_filter)
        try:
            refuse_if_changed(request, stored)
            if "apply" in post:
                services.add_tables(replicator=replicator, selection=[entry], user=user_of(request))
                messages.success(request, f"Columns, masks and row filter of {row} changed.")
                return redirect("replicators:tables", pk)
            context["effects"] = effects(replicator, [entry])
        except ConfigurationError as error:
            context["problem"] = error
    return page(request, replicator, "columns", context, live=False)


def _exclude(request: HttpRequest, row: ReplicatorTable, taken: SelectionEntry, column: str) -> HttpResponse:
    entry = replace(taken, excluded_columns=(*taken.excluded_columns, column))
    try:
        services.add_tables(replicator=row.replicator, selection=[entry], user=user_of(request))
    except ConfigurationError as error:
        messages.error(request, f"{error.message} {error.remedy}")
    else:
        messages.success(request, f"The column {column} of {row} is excluded.")
    return redirect("replicators:table_columns", row.replicator_id, row.pk)


def _schema(row: ReplicatorTable, left_out: Sequence[str]) -> TableSchema:
    found = connections.describe(row.replicator.connection, [row.table_id], {row.table_id: left_out}).get(row.table_id)
    if isinstance(found, TableError):
        raise found
    if found is None:
        message = f"{row} no longer exists."
        raise TableDisappeared(message, table=str(row))
    return found


def _entry(row: ReplicatorTable, lines: Sequence[ColumnLine], row_filter: RowFilter) -> SelectionEntry:
    return SelectionEntry(
        row.database,
        row.name,
        excluded_columns=tuple(line.name for line in lines if not line.kept),
        masks={line.name: line.mask for line in lines if line.mask is not None},
        row_filter=row_filter,
    )
