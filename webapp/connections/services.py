"""Making, changing, testing and removing connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from replicator.errors import TidemarkError
from replicator.sources.base import CheckResult, CheckStatus
from replicator.sources.registry import source_kind
from webapp.connections import signals
from webapp.connections.endpoints import Endpoints, restart_replicators
from webapp.connections.models import Connection
from webapp.connections.selectors import ATTENDED


def _run(kind: str, config: Mapping[str, Any]) -> list[CheckResult]:
    try:
        source = source_kind(kind).open({**config, **ATTENDED})
        try:
            return source.check()
        finally:
            source.close()
    except TidemarkError as error:
        return [CheckResult("open", "Connection settings", CheckStatus.FAILED, error.message, error.remedy)]


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
