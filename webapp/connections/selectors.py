"""Reading connections, and through them the source's catalog."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.db.models import Count, QuerySet

from replicator.errors import ConfigurationError, TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.model.types import STRING
from replicator.sources.base import DatabaseInfo, Source, TableInfo
from replicator.sources.registry import KINDS, SourceKind, source_kind
from webapp.connections.models import Connection, Endpoint
from webapp.connections.secrets import unseal

# A client does not wait longer for a page; its statement must not go on at the source.
ATTENDED = {"statement_timeout": 30}


def list_connections() -> QuerySet[Connection]:
    """By name, each with `replicator_count`."""
    return Connection.objects.annotate(replicator_count=Count("replicators")).order_by("name")


def get_connection(pk: int) -> Connection:
    """Connection.DoesNotExist for an unknown one."""
    return Connection.objects.get(pk=pk)


def kinds() -> list[SourceKind]:
    """Every registered source."""
    return list(KINDS.values())


def full_config(connection: Endpoint) -> dict[str, Any]:
    """With secrets: for opening it only, never for an answer (invariant 8)."""
    return {**connection.config, **unseal(connection.secrets)}


def public_config(connection: Endpoint) -> dict[str, Any]:
    """Without secrets, which are stored apart; also of a kind that no plugin has any more."""
    return dict(connection.config)


@contextmanager
def opened(connection: Connection) -> Iterator[Source]:
    """The source behind a connection, for who waits for its answers; closed at the end of the block."""
    source = source_kind(connection.kind).open(full_config(connection) | ATTENDED)
    try:
        yield source
    finally:
        source.close()


def name_rule(connection: Connection, names: Iterable[str]) -> NameRule:
    """How the source compares these names of databases and tables.  It is asked only where that makes a difference.

    ConfigurationError where it cannot be asked: what is left out or masked under another spelling would be taken as it
    is.
    """
    if not (capitals := sorted({name for name in names if name != name.lower()})):
        return EXACT_NAMES
    try:
        with opened(connection) as source:
            return source.names()
    except TidemarkError as error:
        message = (
            f"{connection.name} cannot be asked whether {capitals[0]} and {capitals[0].lower()} are one name there:"
            f" {error.message}"
        )
        raise ConfigurationError(message, remedy=error.remedy or "Try again when the source can be reached.") from None


def databases(connection: Connection) -> list[DatabaseInfo]:
    """Databases of the source."""
    with opened(connection) as source:
        return source.catalog().databases()


def tables(
    connection: Connection, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
) -> tuple[list[TableInfo], int]:
    """One page of tables and the number of all that match."""
    with opened(connection) as source:
        return source.catalog().tables(database=database, search=search, limit=limit, offset=offset)


def describe(
    connection: Connection, tables: Sequence[TableId], left_out: Mapping[TableId, Collection[str]] | None = None
) -> dict[TableId, TableSchema | TableError]:
    """See `described`."""
    with opened(connection) as source:
        return described(source, tables, left_out or {})


def described(
    source: Source, tables: Sequence[TableId], left_out: Mapping[TableId, Collection[str]]
) -> dict[TableId, TableSchema | TableError]:
    """Present schemas of tables with all their columns.

    A table that can be replicated only without its columns of `left_out` has them last, as texts without a source type.
    """
    found = dict(source.catalog().describe(tables))
    again = [table for table, one in found.items() if isinstance(one, TableError) and left_out.get(table)]
    if again:
        before = source.tables
        out = {table: frozenset(left_out[table]) for table in again}
        source.tables = replace(before or TableSet(), excluded_columns=out)
        for table, one in source.catalog().describe(again).items():
            if not isinstance(one, TableError):
                hidden = [Column(name, STRING, nullable=True, source_type="") for name in sorted(out[table])]
                one = replace(one, columns=(*one.columns, *hidden))  # noqa: PLW2901 - the same table
            found[table] = one
        source.tables = before
    return found
