"""What there is, as the file that `webapp.console.definitions.apply.apply` takes: applied where it was written, it
changes nothing.

Secrets are never in it (invariant 8): each stands as `${NAME}`, and the file's first lines say which variables to set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId, written_database, written_name
from webapp.alerts.models import Channel
from webapp.connections.models import Connection, Endpoint
from webapp.connections.secrets import unseal
from webapp.connections.selectors import public_config
from webapp.console.definitions.alerts import channel_form, rules_form
from webapp.console.definitions.document import literal
from webapp.console.definitions.streams import forms_of, tables_of_streams
from webapp.destinations.models import Destination
from webapp.monitoring.models import TableObjective
from webapp.replicators.models import Desired, Replicator, TableSelection
from webapp.replicators.selection.target_names import TargetName, chosen_target_name, written_target_name

HEAD = "# Written by manage.py export; manage.py apply reads it.\n"


class Variables:
    """Names of environment variables for secrets, none of them twice."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def reference(self, *words: str) -> str:
        """What stands in the file in place of a secret."""
        plain = re.sub(r"[^A-Z0-9]+", "_", "_".join(words).upper()).strip("_")
        name = fresh = f"_{plain}" if plain[:1].isdigit() else plain
        number = 1
        while fresh in self.names:
            number += 1
            fresh = f"{name}_{number}"
        self.names.append(fresh)
        return f"${{{fresh}}}"


def export(names: Sequence[str] = ()) -> str:
    """Of the replicators named, with their connections and the channels that they tell; of everything where none is
    named.

    ConfigurationError for a name that does not exist, and for what cannot be written.
    """
    replicators = list(Replicator.objects.exclude(desired=Desired.DELETED).select_related("connection", "destination"))
    connections, channels = list(Connection.objects.order_by("name")), list(Channel.objects.order_by("name"))
    destinations = list(Destination.objects.order_by("name"))
    if names:
        if unknown := sorted(set(names) - {one.name for one in replicators}):
            raise ConfigurationError(f"Unknown replicator {unknown[0]}.")
        replicators = [one for one in replicators if one.name in names]
        used = {one.connection_id for one in replicators}
        connections = [one for one in connections if one.pk in used]
        destinations = [one for one in destinations if one.pk in {row.destination_id for row in replicators}]
        channels = [one for one in channels if one.rules.filter(replicator__in=replicators).exists()]
    variables = Variables()
    document = {
        "connections": [_endpoint(one, variables) for one in connections],
        "destinations": [_endpoint(one, variables) for one in destinations],
        "channels": [_channel(one, variables) for one in channels],
        "replicators": [literal(_replicator(one)) for one in replicators],
    }
    text = yaml.safe_dump(
        {key: items for key, items in document.items() if items}, sort_keys=False, allow_unicode=True, width=140
    )
    return HEAD + _to_set(variables.names) + text


def _to_set(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"# Set before: {listed}\n" if listed else ""


def _endpoint(one: Endpoint, variables: Variables) -> dict[str, Any]:
    """Secrets as references, all else literally."""
    config: dict[str, Any] = literal(public_config(one))
    for name, value in unseal(one.secrets).items():
        if value:
            config[name] = variables.reference(one.name, name)
    return {"name": literal(one.name), "kind": one.kind, "config": config}


def _channel(channel: Channel, variables: Variables) -> dict[str, Any]:
    form, hidden = channel_form(channel)
    return {**literal(form), **{name: variables.reference(channel.name, name) for name in hidden}}


def _replicator(replicator: Replicator) -> dict[str, Any]:
    lines = list(replicator.selection.all())
    objectives = {
        (one.table.database, one.table.name): {"percent": one.percent, "minutes": one.seconds / 60}
        for one in TableObjective.objects.filter(table__replicator=replicator).select_related("table")
        if one.percent is not None and one.seconds is not None
    }
    modes = _modes(replicator, lines)
    renames = replicator.destination.plugin.capabilities.renames  # else a name can be kept, and not be given
    target_names = {
        (row.database, row.name): target_name
        for row in replicator.tables.all()
        if renames and (target_name := chosen_target_name(row))
    }
    tables: list[str | dict[str, Any]] = []
    for line in lines:
        if not line.excluded:
            key = (line.database, line.table)
            tables.append(
                _line(line, _own(modes.pop(key, line.mode), objectives.pop(key, None), target_names.pop(key, None)))
            )
    lone = tables_of_streams(replicator) - {(line.database, line.table) for line in lines}
    for key in sorted(modes.keys() | objectives.keys() | target_names.keys() | lone):
        own = _own(modes.get(key, ""), objectives.get(key), target_names.get(key))
        name = written_name(TableId(*key))
        tables.append({"table": name, **own} if own else name)
    excluded = [_line_name(line) for line in lines if line.excluded]
    streams = forms_of(replicator, lambda table: written_name(table.table_id))
    return {
        "name": replicator.name,
        "connection": replicator.connection.name,
        "destination": replicator.destination.name,
        "tables": tables,
        **({"exclude": excluded} if excluded else {}),
        "target": dict(replicator.target),
        "options": replicator.parsed_options.to_dict(),
        "alerts": rules_form(replicator),
        **({"streams": streams} if streams else {}),
        "state": str(replicator.desired),
    }


def _modes(replicator: Replicator, lines: Sequence[TableSelection]) -> dict[tuple[str, str], str]:
    """Of tables that are in another mode than new ones of their database."""
    whole = {line.database: line.mode for line in lines if not line.table and not line.excluded}
    default = replicator.parsed_options.mode
    rows = replicator.tables.values_list("database", "name", "mode")
    return {(database, name): mode for database, name, mode in rows if mode != (whole.get(database) or default)}


def _own(mode: str, slo: dict[str, float] | None, target_name: TargetName | None) -> dict[str, Any]:
    """What a table has that its line in the database has not; without what is not said."""
    said = {"mode": mode, "slo": slo, "target": written_target_name(target_name) if target_name else None}
    return {key: value for key, value in said.items() if value}


def _line(line: TableSelection, own: dict[str, Any]) -> str | dict[str, Any]:
    more: dict[str, Any] = {"exclude_columns": list(line.excluded_columns), "mask": _masks(line)}
    more |= {"row_filter": line.row_filter, **own}
    said = {key: value for key, value in more.items() if value}
    said |= {} if line.new_tables else {"new_tables": False}
    return {"table": _line_name(line), **said} if said else _line_name(line)


def _line_name(line: TableSelection) -> str:
    if line.pattern or not line.table:
        return f"{written_database(line.database)}.{line.table or '*'}"
    return written_name(TableId(line.database, line.table))


def _masks(line: TableSelection) -> dict[str, Any]:
    """A mask that is its kind and nothing else is said in one word."""
    return {column: mask["kind"] if len(mask) == 1 else dict(mask) for column, mask in line.masks.items()}
