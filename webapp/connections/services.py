"""Making, changing, testing and removing connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from django.contrib.auth.models import User

from replicator.errors import TidemarkError
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult, CheckStatus
from replicator.sources.registry import source_kind
from webapp.connections import signals
from webapp.connections.endpoints import Endpoints, restart_replicators, without_secrets
from webapp.connections.models import Connection
from webapp.connections.selectors import ATTENDED, opened


def _run(kind: str, config: Mapping[str, Any], connection: Connection | None) -> list[CheckResult]:
    try:
        source = source_kind(kind).open({**config, **ATTENDED})
        try:
            return source.check(None if connection is None else _tables_read(connection))
        finally:
            source.close()
    except TidemarkError as error:
        return [CheckResult("open", "Connection settings", CheckStatus.FAILED, error.message, error.remedy)]


def _tables_read(connection: Connection) -> TableSet | None:
    """Of all replicators that use it; None where they read none yet."""
    answers = signals.tables_asked.send(Connection, connection=connection)
    return next((cast("TableSet", tables) for _, tables in answers if tables is not None), None)


def failed_table_checks(connection: Connection, tables: TableSet) -> list[CheckResult]:
    """Checks of these tables that failed, before a replicator reads them.  Raises SourceError."""
    with opened(connection) as source:
        found = without_secrets(source.check(tables))
    return [one for one in found if one.of_tables and one.status is CheckStatus.FAILED]


CONNECTIONS = Endpoints(
    Connection,
    "connection",
    valid=lambda kind, config: source_kind(kind).valid(config),
    run=_run,
    apply=restart_replicators,
    changed=signals.changed,
    works=signals.works,
)


def create_connection(*, name: str, kind: str, config: Mapping[str, Any], user: User | None = None) -> Connection:
    """See `Endpoints.create`."""
    return CONNECTIONS.create(name=name, kind=kind, config=config, user=user)


def update_connection(
    *,
    connection: Connection,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    user: User | None = None,
) -> Connection:
    """See `Endpoints.update`."""
    return CONNECTIONS.update(connection, name=name, config=config, user=user)


def delete_connection(*, connection: Connection, user: User | None = None) -> None:
    """See `Endpoints.delete`."""
    CONNECTIONS.delete(connection, user=user)


def test_connection(
    *,
    kind: str,
    config: Mapping[str, Any],
    connection: Connection | None = None,  # noqa: PT028 - not a test
) -> list[CheckResult]:
    """See `Endpoints.test`."""
    return CONNECTIONS.test(kind=kind, config=config, endpoint=connection)


test_connection.__test__ = False  # type: ignore[attr-defined]  # not a test, though pytest takes the name for one
