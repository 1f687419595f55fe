"""Adding tables to a replicator that exists, running or not."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from replicator.errors import ConfigurationError, TidemarkError
from replicator.model.identifiers import TableId, written_database
from webapp.connections import selectors as connections
from webapp.console.views.detail import replicator_or_404
from webapp.replicators import services
from webapp.replicators.models import Replicator
from webapp.replicators.selection.entries import WILD, SelectionEntry, named_entry, protected, refuse_missing
from webapp.web.responses import done, user_of


@login_required
@require_POST
def add(request: HttpRequest, pk: int) -> HttpResponse:
    """The named tables and patterns of a database, one a line; without names the whole database with its future
    tables.
    """
    replicator = replicator_or_404(pk)
    page = reverse("replicators:tables", args=[pk])
    database = request.POST.get("database", "").strip()
    names = [name.strip() for name in request.POST.get("tables", "").splitlines() if name.strip()]
    try:
        entries = protected(replicator, _entries(replicator, database, names))
        services.add_tables(replicator=replicator, selection=entries, user=user_of(request))
    except TidemarkError as error:
        return done(request, f"{error.message} {error.remedy}", level="error", to=page)
    what = f"{len(names)} table{'s' if len(names) > 1 else ''} of {database}" if names else f"All tables of {database}"
    return done(request, f"{what} will be copied; the other tables continue meanwhile.", to=page)


def _entries(replicator: Replicator, database: str, names: list[str]) -> list[SelectionEntry]:
    """ConfigurationError for what the source does not have."""
    rule = connections.name_rule(replicator.connection, [database, *names])
    database, names = rule.name(database), [rule.name(name) for name in names]
    if not names:
        if database not in {found.name for found in connections.databases(replicator.connection)}:
            word = replicator.connection.database_word
            raise ConfigurationError(
                f"The source has no {word} {database or 'without a name'}.", remedy="Check the spelling."
            )
        return [SelectionEntry(database)]
    within = written_database(database)
    patterns = [named_entry(f"!{within}.{name[1:]}" if name[0] == "!" else f"{within}.{name}") for name in names]
    patterns = [entry for entry in patterns if entry.wide]
    wanted = [TableId(database, name) for name in names if not any(one in name for one in WILD)]
    tables = [SelectionEntry(table.database, table.name) for table in wanted]
    refuse_missing(replicator.connection, tables)
    return patterns + tables
