"""Making, changing, testing and removing connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from replicator.errors import ConfigurationError, TidemarkError
from replicator.model.table_set import TableSet
from replicator.redaction import redacted
from replicator.sources.base import CheckResult, Status
from replicator.sources.registry import source_kind
from webapp.accounts.audit import changes, enter
from webapp.connections import signals
from webapp.connections.fields import Stored, split
from webapp.connections.models import Connection
from webapp.connections.secrets import seal, unseal
from webapp.connections.selectors import ATTENDED, full_config


@transaction.atomic
def create_connection(*, name: str, kind: str, config: Mapping[str, Any], user: User | None = None) -> Connection:
    """ConfigurationError that names the field which is missing or wrong."""
    _check_name(name)
    public, secret = _checked(kind, config)
    made = Connection.objects.create(name=name.strip(), kind=kind, config=public, secrets=seal(secret), created_by=user)
    _audit("created", made, user, changes({}, public))
    return made


@transaction.atomic
def update_connection(
    *,
    connection: Connection,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    user: User | None = None,
) -> Connection:
    """An empty secret keeps the stored one, unless it would go elsewhere.

    Running replicators read the new values at their next slice.
    """
    changed, before = [], {"name": connection.name, **connection.config}
    if name is not None and name.strip() != connection.name:
        _check_name(name)
        connection.name = name.strip()
        changed.append("name")
    if config is not None:
        old = connection.config
        form = source_kind(connection.kind).form
        connection.config, secret = _checked(connection.kind, config, _stored(connection, config))
        connection.secrets = seal(secret)
        changed += [name for name, value in connection.config.items() if old.get(name) != value]
        changed += [field.name for field in form if field.secret and config.get(field.name)]
        _restart_replicators(connection)
    connection.save()
    _note_change(connection, changed, user)
    _audit("changed", connection, user, changes(before, {"name": connection.name, **connection.config}), changed)
    if config is not None:
        signals.works.send(
            Connection, connection=connection, why=f"the connection {connection.name} was changed", user=user
        )
    return connection


def _note_change(connection: Connection, changed: Sequence[str], user: User | None) -> None:
    """Which settings, never a value of one (invariant 8)."""
    if changed:
        summary = f"The connection {connection.name} was changed: {', '.join(sorted(changed))}"
        signals.changed.send(Connection, connection=connection, summary=summary, user=user)


def _audit(
    what: str,
    connection: Connection,
    user: User | None,
    changed: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
) -> None:
    """Secrets by their names only."""
    said = f": {', '.join(sorted(set(names)))}" if names else ""
    enter(
        f"connection_{what}", f"Connection {connection.name} {what}{said}", user=user,
        about=connection.name, detail={"changes": dict(changed)} if changed else {},
    )  # fmt: skip


def delete_connection(*, connection: Connection, user: User | None = None) -> None:
    """ConfigurationError while a replicator uses it."""
    names = list(connection.replicators.values_list("name", flat=True)[:3])
    if names:
        raise ConfigurationError(
            f"The connection {connection.name} is used by {', '.join(names)}.",
            remedy="Delete these replicators first.",
        )
    _audit("deleted", connection, user)
    connection.delete()


def test_connection(
    *,
    kind: str,
    config: Mapping[str, Any],
    connection: Connection | None = None,  # noqa: PT028 - not a test
    tables: TableSet | None = None,  # noqa: PT028
) -> list[CheckResult]:
    """Run the source's checks; with `connection`, what is not given is as it is stored, and the result is stored on it.

    ConfigurationError for settings that are wrong, and for a stored secret that would go elsewhere than it was entered
    for.
    """
    given = config if connection is None else {**connection.config, **config}
    stored = None if connection is None else _stored(connection, given)
    public, secret = _checked(kind, given, stored)
    values = {**public, **secret}
    results = _run_checks(kind, values, tables)
    if connection is not None:
        lines = [asdict(result) | {"status": str(result.status)} for result in results]
        Connection.objects.filter(pk=connection.pk).update(last_check=lines, last_checked_at=timezone.now())
        connection.refresh_from_db(fields=["last_check", "last_checked_at"])
        if values == full_config(connection) and all(result.status is not Status.FAILED for result in results):
            why = f"the test of the connection {connection.name} passed"
            signals.works.send(Connection, connection=connection, why=why, user=None)
    return results


test_connection.__test__ = False  # type: ignore[attr-defined]  # not a test, whatever pytest thinks of the name


def _run_checks(kind: str, config: Mapping[str, Any], tables: TableSet | None) -> list[CheckResult]:
    try:
        source = source_kind(kind).open({**config, **ATTENDED})
        try:
            results = source.check(tables)
        finally:
            source.close()
    except TidemarkError as error:
        results = [CheckResult("open", "Connection settings", Status.FAILED, error.message, error.remedy)]
    return [CheckResult(r.name, r.title, r.status, redacted(r.detail), redacted(r.remedy)) for r in results]


def _check_name(name: str) -> None:
    if not name.strip():
        message = "A connection needs a name."
        raise ConfigurationError(message)
    if Connection.objects.filter(name=name.strip()).exists():
        message = f"There is already a connection named {name.strip()}."
        raise ConfigurationError(message, remedy="Choose another name.")


def _checked(
    kind: str, config: Mapping[str, Any], stored: Stored | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    public, secret = split(source_kind(kind).form, config, stored)
    source_kind(kind).valid({**public, **secret})
    return public, secret


def _stored(connection: Connection, config: Mapping[str, Any]) -> Stored:
    """Its secrets are decrypted only where one of them is left out: where that fails, all can be given again."""
    needed = any(field.secret and not config.get(field.name) for field in source_kind(connection.kind).form)
    return Stored(connection.config, unseal(connection.secrets) if needed else {})


def _restart_replicators(connection: Connection) -> None:
    """Make running slices end, and waiting ones begin, so that the next one opens the source with the new values."""
    replicators = connection.replicators.order_by("id")
    replicators.update(next_retry_at=None, plan_version=F("plan_version") + 1)
    for replicator in replicators:  # what a stage waits for is its failures' time
        replicator.failures.filter(table=None, resolved_at=None).update(next_retry_at=None)
