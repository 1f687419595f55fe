"""Connections and replicators as code: a YAML file applied through the services, any number of times.

    connections:
      - name: shop
        kind: mysql
        config: {host: db.example, user: tidemark, password: "${SHOP_PASSWORD}"}
      - name: billing
        kind: postgres
        config: {host: pg.example, database: billing, user: tidemark, password: "${BILLING_PASSWORD}"}
    replicators:
      - name: shop
        connection: shop
        tables: ["shop.*", "crm.customers", {table: crm.notes, exclude_columns: [body]}]
        exclude: ["shop.audit"]
        target: {namespace_prefix: "lake_"}
        options: {slo_minutes: 1, ddl_policy: keep}
        state: running        # running, paused, stopped; left out: as it is

Tables of Postgres are named SCHEMA.TABLE.  `${NAME}` is an environment variable (an error where it is not set), `${NAME:-text}` has a default.
What is not in the file is left alone: nothing is deleted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import yaml
from django.db import transaction

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.connections.selectors import full_config
from webapp.replicators import selectors, services
from webapp.replicators.models import Desired, Replicator, Status
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection import SelectionEntry

Kind = TypeVar("Kind")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
STATES = {
    "running": (Desired.RUNNING, services.start_replicator),
    "paused": (Desired.PAUSED, services.pause_replicator),
    "stopped": (Desired.STOPPED, services.stop_replicator),
}
MOST_OF_A_NAME, MOST_OF_A_TABLE = 100, 255  # what the columns of the models hold
CONNECTION_KEYS = {"name", "kind", "config"}
REPLICATOR_KEYS = {"name", "connection", "tables", "exclude", "target", "options", "state"}


@transaction.atomic
def apply(text: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """One line for each change that was made; all or nothing.  ConfigurationError that says where the file is wrong."""
    try:
        document = _interpolated(yaml.safe_load(text) or {}, environ)
    except yaml.YAMLError as error:
        message = f"The file is not YAML: {' '.join(str(error).split())}"
        raise ConfigurationError(message) from None
    except RecursionError:
        raise ConfigurationError("The file is nested too deeply.") from None
    _known(document, {"connections", "replicators"}, "the file")
    changes: list[str] = []
    for item in _list(document, "connections", "the file"):
        changes += _connection(item)
    for item in _list(document, "replicators", "the file"):
        changes += _replicator(item)
    return changes


def _list(item: Mapping[str, Any], key: str, where: str) -> list[Any]:
    return _of_kind(item.get(key) or [], list, f"{where}: {key} must be a list.")


def _mapping(item: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    return _of_kind(item.get(key) or {}, dict, f"{where}: {key} must be a mapping.")


def _settings(item: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    """A mapping of names to texts and numbers."""
    found = _mapping(item, key, where)
    for name, value in found.items():
        _of_kind(name, str, f"{where}: {key} has the name {name!r}, which is no text.")
        if isinstance(value, dict | list):
            raise ConfigurationError(f"{where}: {key}.{name} must be a text or a number.")
    return found


def _of_kind(value: Any, kind: type[Kind], message: str) -> Kind:
    if not isinstance(value, kind):
        raise ConfigurationError(message)
    return value


def _connection(item: Mapping[str, Any]) -> list[str]:
    name = _named(item, CONNECTION_KEYS, "connection")
    config = _settings(item, "config", f"connection {name}")
    found = Connection.objects.filter(name=name).first()
    if found is None:
        connections.create_connection(name=name, kind=str(item.get("kind", "mysql")), config=config)
        return [f"connection {name}: created"]
    if item.get("kind", found.kind) != found.kind:
        message = f"connection {name}: its kind cannot be changed from {found.kind} to {item['kind']}."
        raise ConfigurationError(message, remedy="Give the new connection another name.")
    stored = full_config(found)
    changed = sorted(key for key, value in config.items() if str(stored.get(key, "")) != str(value))
    if not changed:
        return []
    connections.update_connection(connection=found, config={**found.config, **config})
    return [f"connection {name}: changed {', '.join(changed)}"]


def _replicator(item: Mapping[str, Any]) -> list[str]:
    name = _named(item, REPLICATOR_KEYS, "replicator")
    selection = _selection(item, name)
    where = f"replicator {name}"
    given, target = _mapping(item, "options", where), _settings(item, "target", where)
    options = ReplicatorOptions.from_dict(given)
    found = selectors.by_name(name)
    changes = []
    if found is None:
        connection = Connection.objects.filter(name=str(item.get("connection"))).first()
        if connection is None:
            message = f"replicator {name}: there is no connection named {item.get('connection')!r}."
            raise ConfigurationError(message)
        found = services.create_replicator(
            name=name, connection=connection, selection=selection, target=target, options=options
        )
        changes.append(f"replicator {name}: created")
    else:
        _same_place(found, item)
        changes += _selection_changes(found, selection)
        changes += _option_changes(found, given)
    return changes + _state_changes(found, item.get("state"))


def _same_place(replicator: Replicator, item: Mapping[str, Any]) -> None:
    if item.get("connection", replicator.connection.name) != replicator.connection.name:
        message = f"replicator {replicator.name}: its connection cannot be changed."
        raise ConfigurationError(message, remedy="Change the connection's own settings, or make another replicator.")
    if "target" in item and services.checked_target(item["target"] or {}) != replicator.target:
        message = f"replicator {replicator.name}: its target cannot be changed."
        raise ConfigurationError(message, remedy="Make another replicator.")


def _selection_changes(replicator: Replicator, wanted: list[SelectionEntry]) -> list[str]:
    """Lines are added and changed (an excluded table goes with it); single tables that are no longer named are removed."""
    present = {
        (s.database, s.table): SelectionEntry(s.database, s.table, s.excluded, tuple(s.excluded_columns))
        for s in replicator.selection.all()
    }
    named = {(entry.database, entry.table): entry for entry in wanted}
    changes = []
    if fresh := [entry for key, entry in named.items() if present.get(key) != entry]:
        services.add_tables(replicator=replicator, selection=wanted)
        changes += [
            f"replicator {replicator.name}: {'excluded' if e.excluded else 'selected'} {e.database}.{e.table or '*'}"
            for e in fresh
        ]
    for key, entry in present.items():
        if key not in named and entry.table and not entry.excluded:
            services.remove_table(replicator=replicator, table=TableId(*key))
            changes.append(f"replicator {replicator.name}: removed {entry.database}.{entry.table}")
    return changes


def _option_changes(replicator: Replicator, given: Mapping[str, Any]) -> list[str]:
    """Options that the file does not name stay as they are."""
    old = replicator.parsed_options.to_dict()
    options = ReplicatorOptions.from_dict({**old, **given})
    changed = sorted(key for key, value in options.to_dict().items() if old[key] != value)
    if not changed:
        return []
    services.update_options(replicator=replicator, options=options)
    return [f"replicator {replicator.name}: changed {', '.join(changed)}"]


def _state_changes(replicator: Replicator, state: str | None) -> list[str]:
    if state is None:
        return []
    if not isinstance(state, str) or state not in STATES:
        message = f"replicator {replicator.name}: state must be one of {', '.join(STATES)}, not {state!r}."
        raise ConfigurationError(message)
    desired, change = STATES[state]
    fresh = replicator.desired == desired and replicator.status != Status.FAILED
    if fresh:
        return []
    change(replicator=replicator)
    return [f"replicator {replicator.name}: {state}"]


def _selection(item: Mapping[str, Any], name: str) -> list[SelectionEntry]:
    entries = []
    for line in _list(item, "tables", f"replicator {name}"):
        values = {"table": line} if isinstance(line, str) else line
        _known(values, {"table", "exclude_columns"}, f"replicator {name}, tables")
        database, table = _split(str(values.get("table", "")), name)
        columns = tuple(sorted(map(str, _list(values, "exclude_columns", f"replicator {name}, tables"))))
        entries.append(SelectionEntry(database, "" if table == "*" else table, excluded_columns=columns))
    left_out = _list(item, "exclude", f"replicator {name}")
    return entries + [SelectionEntry(*_split(str(line), name), excluded=True) for line in left_out]


def _split(text: str, name: str) -> tuple[str, str]:
    database, dot, table = text.partition(".")
    if max(len(database), len(table)) > MOST_OF_A_TABLE:
        message = f"replicator {name}: a database or table has at most {MOST_OF_A_TABLE} characters."
        raise ConfigurationError(message)
    if not (database and dot and table):
        message = f"replicator {name}: {text!r} must be DATABASE.TABLE (on Postgres SCHEMA.TABLE), or with * for all of its tables."
        raise ConfigurationError(message)
    return database, table


def _named(item: Any, keys: set[str], what: str) -> str:
    if not isinstance(item, Mapping) or not item.get("name"):
        message = f"Every {what} needs a name."
        raise ConfigurationError(message)
    _known(item, keys, f"{what} {item['name']}")
    name = str(item["name"])
    if len(name) > MOST_OF_A_NAME:
        message = f"The name of a {what} has at most {MOST_OF_A_NAME} characters."
        raise ConfigurationError(message)
    return name


def _known(item: Any, keys: set[str], where: str) -> None:
    if not isinstance(item, Mapping):
        message = f"{where} must be a mapping."
        raise ConfigurationError(message)
    if unknown := sorted(map(str, set(item) - keys)):
        message = f"{where}: there is no {unknown[0]!r}; there are: {', '.join(sorted(keys))}."
        raise ConfigurationError(message)


def _interpolated(value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        text = _VARIABLE.sub(lambda match: _variable(match, environ), value)
        if "\0" in text:
            message = "The file has a text with a NUL character, which cannot be stored."
            raise ConfigurationError(message)
        return text
    if isinstance(value, Mapping):
        return {key: _interpolated(item, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [_interpolated(item, environ) for item in value]
    return value


def _variable(match: re.Match[str], environ: Mapping[str, str]) -> str:
    name, default = match.groups()
    if name in environ:
        return environ[name]
    if default is None:
        message = f"The environment variable {name} is not set."
        raise ConfigurationError(message, remedy=f"export {name}=…, or write ${{{name}:-default}} into the file.")
    return str(default)
