"""Connections, alert channels and replicators with their streams as code: a YAML file applied through the services, any
number of times.

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
        tables:
          - shop.*
          - crm.customers
          - {table: crm.notes, exclude_columns: [body], slo: {percent: 99.9, minutes: 0.5}}
          # mode: mirror, soft_delete, history, changelog; left out: as it is
          - {table: shop.orders, mode: history, mask: {email: hash}, row_filter: "id > 9", target: sales.orders}
        exclude: ["shop.audit"]
        destination: lake       # left out: the lakehouse of this installation
        target: {namespace_prefix: "lake_"}
        options: {slo_minutes: 1, ddl_policy: keep}
        alerts: {lag: {minutes: 5, channels: [on call]}, slo_burn: {enabled: false}}
        streams:
          - {name: orders, shards: 4, tables: [shop.orders], retention_hours: 48}
        state: running        # running, paused, stopped; left out: as it is
    destinations:
      - name: events
        kind: kafka
        config:
          bootstrap_servers: "k1:9092"
          security_protocol: SASL_SSL
          username: tidemark
          password: "${KAFKA_PASSWORD}"
    channels:
      - name: on call
        kind: webhook         # or slack; email has recipients: [ada@example.com]
        url: "${ON_CALL_URL}"
        key: "${ON_CALL_KEY}"

Tables of Postgres are named SCHEMA.TABLE.  `${NAME}` is an environment variable (an error where it is not set),
`${NAME:-text}` has a default, `$${` is `${`.  A table's own objective is `slo`; `slo: null` is the replicator's again.
`target` is what its copy is called (docs/selection.md). A stream without `tables`, or `tables: null`, carries all
(docs/streams.md); its tables are there already, or named under `tables`. `shop.order_*` are all tables that match, with
those that come later unless `new_tables: false`; `!shop.order_tmp*` are none of them.  `mask` gives columns other
values, `row_filter` says which rows are taken (docs/selection.md).  What is not in the file is left alone: nothing is
deleted, and a table that is there keeps its masks, row filter and left-out columns unless its line says others (`mask:
{}` for none).  `manage.py export` writes such a file (`webapp.console.definitions.export`).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.model.masks import parse_masks
from replicator.model.mode import Mode
from replicator.model.row_filter import parse_filter
from replicator.model.table_set import NameRule
from replicator.sources.registry import DEFAULT_KIND
from replicator.targets import registry as targets
from webapp.connections.endpoints import Endpoints
from webapp.connections.models import Connection
from webapp.connections.selectors import full_config
from webapp.connections.services import CONNECTIONS
from webapp.console.definitions.alerts import apply_channel, apply_rules
from webapp.console.definitions.document import known, list_at, mapping_at, named, of_kind, parsed, settings_at
from webapp.console.definitions.streams import apply_streams
from webapp.destinations import services as destinations
from webapp.destinations.services import DESTINATIONS
from webapp.monitoring.models import TableObjective
from webapp.monitoring.services import objective_for_table
from webapp.replicators import selectors, services
from webapp.replicators.models import Desired, Replicator, ReplicatorTable, Status
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.entries import (
    SelectionEntry,
    covered,
    named_entry,
    protected,
    rule_for,
    selected,
    split_name,
    under,
)
from webapp.replicators.selection.target_names import TargetName, chosen_target_name, parsed_target_name
from webapp.replicators.services.modes import change_mode, effect, parsed_mode

STATES = {
    "running": (Desired.RUNNING, services.start_replicator),
    "paused": (Desired.PAUSED, services.pause_replicator),
    "stopped": (Desired.STOPPED, services.stop_replicator),
}
ENDPOINT_KEYS = {"name", "kind", "config"}
TABLE_KEYS = {"table", "exclude_columns", "mask", "mode", "new_tables", "row_filter", "slo", "target"}
PROTECTS = {
    "exclude_columns": "excluded_columns",
    "mask": "masks",
    "row_filter": "row_filter",
}  # keys, and what they are of a line
REPLICATOR_KEYS = {
    "name",
    "connection",
    "destination",
    "tables",
    "exclude",
    "target",
    "options",
    "alerts",
    "streams",
    "state",
}


@transaction.atomic
def apply(text: str, environ: Mapping[str, str] = os.environ, user: User | None = None) -> list[str]:
    """One line for each change that was made; all or nothing.  ConfigurationError that says where the file is wrong."""
    document = parsed(text, environ)
    known(document, {"channels", "connections", "destinations", "replicators"}, "the file")
    changes: list[str] = []
    for item in list_at(document, "connections", "the file"):
        changes += _endpoint(CONNECTIONS, DEFAULT_KIND, item, user)
    for item in list_at(document, "destinations", "the file"):
        changes += _endpoint(DESTINATIONS, targets.DEFAULT, item, user)
    for item in list_at(document, "channels", "the file"):
        changes += apply_channel(item)
    for item in list_at(document, "replicators", "the file"):
        changes += _replicator(item, user)
    return changes


def _endpoint(endpoints: Endpoints[Any], default: str, item: Mapping[str, Any], user: User | None) -> list[str]:
    """A connection or a destination; `default`: its kind where the item names none."""
    word = endpoints.word
    name = named(item, ENDPOINT_KEYS, word)
    config = settings_at(item, "config", f"{word} {name}")
    found = endpoints.model._default_manager.filter(name=name).first()  # noqa: SLF001 - Django's own name for it
    if found is None:
        endpoints.create(name=name, kind=str(item.get("kind", default)), config=config, user=user)
        return [f"{word} {name}: created"]
    if item.get("kind", found.kind) != found.kind:
        message = f"{word} {name}: its kind cannot be changed from {found.kind} to {item['kind']}."
        raise ConfigurationError(message, remedy=f"Give the new {word} another name.")
    stored = full_config(found)
    changed = sorted(key for key, value in config.items() if str(stored.get(key, "")) != str(value))
    if not changed:
        return []
    endpoints.update(found, config={**found.config, **config}, user=user)
    return [f"{word} {name}: changed {', '.join(changed)}"]


def _replicator(item: Mapping[str, Any], user: User | None) -> list[str]:
    name = named(item, REPLICATOR_KEYS, "replicator")
    selection = _selection(item, name)
    where = f"replicator {name}"
    given, target = mapping_at(item, "options", where), settings_at(item, "target", where)
    options = ReplicatorOptions.from_dict(given)
    found = selectors.by_name(name)
    connection = found.connection if found else _connection_named(item, name)
    names = rule_for(connection, selection, found)
    selection = under(names, selection)
    before = set(found.tables.values_list("database", "name")) if found else set()
    changes = []
    if found is None:
        found = services.create_replicator(
            name=name,
            connection=connection,
            selection=selection,
            destination=destinations.named(str(item["destination"])) if "destination" in item else None,
            target=target,
            options=options,
            user=user,
        )
        changes.append(f"replicator {name}: created")
    else:
        said = _protections(item, name, names)
        selection = protected(found, selection, [said.get((one.database, one.table), ()) for one in selection])
        changes += _target_changes(found, item, target, user)
        changes += _selection_changes(found, selection, user)
        changes += _option_changes(found, given, user)
    changes += _target_name_changes(found, selection, before, user)
    changes += _objective_changes(found, item, names, user)
    changes += apply_rules(found, mapping_at(item, "alerts", where), user)
    changes += apply_streams(found, list_at(item, "streams", where), user)
    return changes + _state_changes(found, item.get("state"), user)


def _protections(item: Mapping[str, Any], name: str, names: NameRule) -> dict[tuple[str, str], list[str]]:
    """What each line of the file says of what is protected, by the table's name in the source (invariant 12)."""
    said = {}
    for line in list_at(item, "tables", f"replicator {name}"):
        if not isinstance(line, str):
            entry = named_entry(str(line.get("table", "")), f"replicator {name}: ")
            given = [field for key, field in PROTECTS.items() if key in line]
            said[names.name(entry.database), names.name(entry.table)] = given
    return said


def _connection_named(item: Mapping[str, Any], name: str) -> Connection:
    connection = Connection.objects.filter(name=str(item.get("connection"))).first()
    if connection is None:
        message = f"replicator {name}: unknown connection {item.get('connection')!r}."
        raise ConfigurationError(message)
    return connection


def _target_changes(
    replicator: Replicator, item: Mapping[str, Any], target: Mapping[str, Any], user: User | None
) -> list[str]:
    if item.get("connection", replicator.connection.name) != replicator.connection.name:
        message = f"replicator {replicator.name}: its connection cannot be changed."
        raise ConfigurationError(message, remedy="Change the connection's own settings, or make another replicator.")
    if item.get("destination", replicator.destination.name) != replicator.destination.name:
        message = f"replicator {replicator.name}: its destination cannot be changed."
        raise ConfigurationError(message, remedy="Change the destination's own settings, or make another replicator.")
    if "target" not in item:
        return []
    own = dict.fromkeys(one.name for one in replicator.destination.plugin.form)  # the file says all of them
    changed = services.update_target(replicator=replicator, target={**own, **target}, user=user)
    return [f"replicator {replicator.name}: changed {', '.join(changed)} of its target"] if changed else []


def _selection_changes(replicator: Replicator, wanted: list[SelectionEntry], user: User | None) -> list[str]:
    """Add and change lines (an exclusion removes its table); remove single tables and patterns no longer in the file.

    A table that is there through its database or a pattern needs no separate line where the file names it only for its
    objective.
    """
    lines = {(entry.database, entry.table): entry for entry in wanted}
    changes = _mode_changes(replicator, wanted, user)
    present = {}
    for s in replicator.selection.all():
        said = lines.get((s.database, s.table))
        mode = s.mode if said is not None and said.mode else ""  # a file that names none leaves it as it is
        present[s.database, s.table] = replace(SelectionEntry.of(s), mode=mode)
    there = set(replicator.tables.values_list("database", "name"))
    wide = selected(entry for entry in wanted if entry.wide)
    for key, entry in list(lines.items()):
        plain = entry == SelectionEntry(*key)
        if plain and key not in present and key in there and TableId(*key) in wide:
            del lines[key]
    if fresh := [entry for key, entry in lines.items() if present.get(key) != entry]:
        services.add_tables(replicator=replicator, selection=list(lines.values()), user=user)
        changes += [
            f"replicator {replicator.name}: {'excluded' if e.excluded else 'selected'} {e.database}.{e.table or '*'}"
            for e in fresh
        ]
    for key, entry in present.items():
        if key not in lines and entry.table and not entry.excluded:
            if entry.pattern:
                services.remove_pattern(replicator=replicator, database=key[0], pattern=key[1], user=user)
            else:
                services.remove_table(replicator=replicator, table=TableId(*key), user=user)
            changes.append(f"replicator {replicator.name}: removed {entry.database}.{entry.table}")
    return changes


def _mode_changes(replicator: Replicator, wanted: list[SelectionEntry], user: User | None) -> list[str]:
    """Of tables that are there: the file's word is the confirmation."""
    named = {(entry.database, entry.table) for entry in wanted if entry.mode and entry.table}
    changes = []
    for entry in wanted:
        if entry.excluded or not entry.mode:
            continue
        for row in covered(replicator, entry).exclude(mode=entry.mode).select_related("replicator"):
            if entry.table or (row.database, row.name) not in named:
                said = effect(row, Mode(entry.mode))
                change_mode(table=row, mode=entry.mode, confirmed=True, user=user)
                changes.append(f"replicator {replicator.name}: {said}")
    return changes


def _option_changes(replicator: Replicator, given: Mapping[str, Any], user: User | None) -> list[str]:
    """Options that the file does not name stay as they are."""
    old = replicator.parsed_options.to_dict()
    options = replicator.parsed_options.changed(given)
    changed = sorted(key for key, value in options.to_dict().items() if old[key] != value)
    if not changed:
        return []
    services.update_options(replicator=replicator, options=options, user=user)
    return [f"replicator {replicator.name}: changed {', '.join(changed)}"]


def _target_name_changes(
    replicator: Replicator, wanted: list[SelectionEntry], before: Collection[tuple[str, str]], user: User | None
) -> list[str]:
    """Rename tables to the target names in the file; those not there `before` were created with that name."""
    changes = []
    for entry in {(entry.database, entry.table): entry for entry in wanted}.values():
        if entry.target_name is None:
            continue
        table = ReplicatorTable.objects.get(replicator=replicator, database=entry.database, name=entry.table)
        old = chosen_target_name(table) or TargetName(table.target_namespace, table.target_name)
        if (entry.database, entry.table) not in before:
            changes.append(f"replicator {replicator.name}: the target table of {table} is {entry.target_name}")
        elif old != entry.target_name:
            services.rename_target(
                table=table, namespace=entry.target_name.namespace, name=entry.target_name.name, user=user
            )
            changes.append(
                f"replicator {replicator.name}: the target table of {table} is renamed from {old} to"
                f" {entry.target_name}"
            )
    return changes


def _objective_changes(
    replicator: Replicator, item: Mapping[str, Any], names: NameRule, user: User | None
) -> list[str]:
    """Of the tables that say something of it; named ones have their rows by now."""
    changes = []
    for line in list_at(item, "tables", f"replicator {replicator.name}"):
        if isinstance(line, str) or "slo" not in line:
            continue
        percent, seconds = _objective(line, replicator.name)
        named = TableId(*split_name(str(line["table"]), f"replicator {replicator.name}: "))
        table = selectors.table_of(replicator, names.table(named))
        if table is None:
            message = (
                f"replicator {replicator.name}: {line['table']} is not a single table and cannot have its own SLO."
            )
            raise ConfigurationError(message)
        held = TableObjective.objects.filter(table=table).values_list("percent", "seconds").first() or (None, None)
        if held != (percent, seconds):
            objective_for_table(table=table, percent=percent, seconds=seconds, user=user)
            changes.append(f"replicator {replicator.name}: SLO of {table}")
    return changes


def _objective(line: Mapping[str, Any], name: str) -> tuple[float | None, float | None]:
    """Percent and seconds; two times None for the replicator's."""
    if line["slo"] is None:
        return None, None
    where = f"replicator {name}, {line.get('table')}"
    given = mapping_at(line, "slo", where)
    known(given, {"percent", "minutes"}, f"{where}, slo")
    numbers: list[Any] = [given.get(key) for key in ("percent", "minutes")]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers):
        raise ConfigurationError(f"{where}: slo has a percent and minutes, both numbers.")
    percent, minutes = numbers
    return percent, round(minutes * 60, 6)


def _state_changes(replicator: Replicator, state: str | None, user: User | None) -> list[str]:
    if state is None:
        return []
    if not isinstance(state, str) or state not in STATES:
        message = f"replicator {replicator.name}: state must be one of {', '.join(STATES)}, not {state!r}."
        raise ConfigurationError(message)
    desired, change = STATES[state]
    fresh = replicator.desired == desired and replicator.status != Status.FAILED
    if fresh:
        return []
    change(replicator=replicator, user=user)
    return [f"replicator {replicator.name}: {state}"]


def _selection(item: Mapping[str, Any], name: str) -> list[SelectionEntry]:
    where = f"replicator {name}: "
    entries = [
        _entry({"table": line} if isinstance(line, str) else line, name)
        for line in list_at(item, "tables", f"replicator {name}")
    ]
    left_out = [str(line) for line in list_at(item, "exclude", f"replicator {name}")]
    return entries + [named_entry(f"!{line.removeprefix('!')}", where) for line in left_out]


def _entry(values: Mapping[str, Any], name: str) -> SelectionEntry:
    where = f"replicator {name}, tables"
    known(values, TABLE_KEYS, where)
    given = of_kind(values.get("row_filter") or "", str, f"replicator {name}: row_filter must be a text.")
    new_tables = of_kind(values.get("new_tables", True), bool, f"replicator {name}: new_tables must be true or false.")
    entry = named_entry(str(values.get("table", "")), f"replicator {name}: ")
    target_name = parsed_target_name(values["target"], f"replicator {name}, {entry}") if "target" in values else None
    if target_name and (entry.wide or entry.excluded):
        message = f"replicator {name}: {entry} is not a single selected table and cannot have its own target."
        raise ConfigurationError(message)
    return replace(
        entry,
        excluded_columns=tuple(sorted(map(str, list_at(values, "exclude_columns", where)))),
        masks=parse_masks(mapping_at(values, "mask", where)),
        row_filter=parse_filter(given),
        new_tables=new_tables,
        mode=parsed_mode(str(values["mode"])).value if "mode" in values else "",
        target_name=target_name,
    )
