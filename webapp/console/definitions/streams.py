"""Streams as code: a replicator's `streams` in a definitions file (`webapp.console.definitions.apply`), read and
written.

Each is `{name, shards, tables, exclude, retention_hours, enabled}`; tables are DATABASE.TABLE, `tables: null` all and
those that come later.
`snapshot: true` counts when the stream is made.  What is left out stays, a stream that is not named too; of `tables`
and `exclude` the whole list is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from webapp.console.definitions.document import known, list_at, of_kind
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.selection.entries import split_name
from webapp.streams import services
from webapp.streams.models import Stream, StreamTable
from webapp.streams.selectors import streams, tables_named

KEYS = {"name", "shards", "tables", "exclude", "retention_hours", "enabled", "snapshot"}


@dataclass(frozen=True)
class _Definition:
    """`tables`: None for all."""

    shards: int = 1
    tables: frozenset[TableId] | None = None
    exclude: frozenset[TableId] = frozenset()
    retention_hours: float = 24
    enabled: bool = True

    @classmethod
    def of(cls, stream: Stream) -> _Definition:
        tables, exclude = tables_named(stream)
        return cls(
            stream.shards,
            None if tables is None else _ids(tables),
            _ids(exclude),
            stream.retention_hours,
            stream.enabled,
        )


def _ids(tables: Collection[ReplicatorTable]) -> frozenset[TableId]:
    return frozenset(table.table_id for table in tables)


def apply_streams(replicator: Replicator, items: Collection[Any], user: User | None = None) -> list[str]:
    """One line for each stream that was made, and for each thing that was changed."""
    return [line for item in items for line in _apply(replicator, item, user)]


def _apply(replicator: Replicator, item: Any, user: User | None) -> list[str]:
    if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
        raise ConfigurationError(f"replicator {replicator.name}: every stream needs a name, which must be a string.")
    where = f"replicator {replicator.name}, stream {item['name']}"
    known(item, KEYS, where)
    stream = streams().filter(name=item["name"]).first()
    if stream is not None and stream.replicator_id != replicator.pk:
        message = f"{where}: it is a stream of the replicator {stream.replicator.name}."
        raise ConfigurationError(message, remedy="Give it another name.")
    wanted = _wanted(item, _Definition.of(stream) if stream else _Definition(), where)
    snapshot = of_kind(item.get("snapshot", False), bool, f"{where}: snapshot must be true or false.")
    try:
        if stream is None:
            _make(replicator, item["name"], wanted, snapshot=snapshot, user=user)
            return [f"{where}: created"]
        return [f"{where}: {line}" for line in _change(stream, wanted, user)]
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error.message}", remedy=error.remedy) from None


def _wanted(item: Mapping[str, Any], held: _Definition, where: str) -> _Definition:
    exclude = _tables(item, "exclude", where) if "exclude" in item else held.exclude
    tables = held.tables
    if "tables" in item:
        tables = None if item["tables"] is None else _tables(item, "tables", where)
    shards = item.get("shards", held.shards)
    if isinstance(shards, bool) or not isinstance(shards, int):
        raise ConfigurationError(f"{where}: shards must be a whole number.")
    hours = item.get("retention_hours", held.retention_hours)
    if isinstance(hours, bool) or not isinstance(hours, int | float):
        raise ConfigurationError(f"{where}: retention_hours must be a number.")
    enabled = of_kind(item.get("enabled", held.enabled), bool, f"{where}: enabled must be true or false.")
    return _Definition(shards, None if tables is None else tables - exclude, exclude, hours, enabled)


def _tables(item: Mapping[str, Any], key: str, where: str) -> frozenset[TableId]:
    return frozenset(TableId(*split_name(str(line), f"{where}: ")) for line in list_at(item, key, where))


def _make(replicator: Replicator, name: str, wanted: _Definition, *, snapshot: bool, user: User | None) -> None:
    made = services.create_stream(
        name=name,
        replicator=replicator,
        shards=wanted.shards,
        tables=None if wanted.tables is None else sorted(wanted.tables, key=str),
        exclude=sorted(wanted.exclude, key=str),
        retention_hours=wanted.retention_hours,
        snapshot=snapshot,
        user=user,
    )
    services.set_enabled(stream=made, enabled=wanted.enabled, user=user)


def _change(stream: Stream, wanted: _Definition, user: User | None) -> list[str]:
    held, changes = _Definition.of(stream), []
    if wanted.shards != held.shards:
        message = f"the number of shards cannot be changed from {held.shards} to {wanted.shards}."
        raise ConfigurationError(message, remedy="Create another stream.")
    if (wanted.tables, wanted.exclude) != (held.tables, held.exclude):
        tables = None if wanted.tables is None else sorted(wanted.tables, key=str)
        services.change_tables(stream=stream, tables=tables, exclude=sorted(wanted.exclude, key=str), user=user)
        changes.append("changed its tables")
    if wanted.retention_hours != held.retention_hours:
        services.change_retention(stream=stream, hours=wanted.retention_hours, user=user)
        changes.append(f"keeps changes for {wanted.retention_hours:g} h")
    if wanted.enabled != held.enabled:
        services.set_enabled(stream=stream, enabled=wanted.enabled, user=user)
        changes.append("enabled" if wanted.enabled else "disabled")
    return changes


def forms_of(replicator: Replicator, name: Callable[[ReplicatorTable], str]) -> list[dict[str, Any]]:
    """The replicator's streams as `apply_streams` reads them, by name; `name` says how a table is written."""
    return [_form(stream, name) for stream in streams().filter(replicator=replicator).order_by("name")]


def _form(stream: Stream, name: Callable[[ReplicatorTable], str]) -> dict[str, Any]:
    tables, exclude = tables_named(stream)
    return {
        "name": stream.name,
        "shards": stream.shards,
        "tables": None if tables is None else sorted(map(name, tables)),
        "exclude": sorted(map(name, exclude)),
        "retention_hours": stream.retention_hours,
        "enabled": stream.enabled,
    }


def tables_of_streams(replicator: Replicator) -> set[tuple[str, str]]:
    """Database and name of the tables that these forms name: they must be there before the stream."""
    named = StreamTable.objects.filter(Q(included=False) | Q(stream__every_table=False), stream__replicator=replicator)
    return set(named.values_list("table__database", "table__name"))
