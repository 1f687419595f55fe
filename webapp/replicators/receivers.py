"""Receivers of the signals of apps below this one.  Modules that a process seldom needs are imported on a signal."""

from __future__ import annotations

from django.contrib.auth.models import User

from replicator.model.table_set import TableSet
from webapp.connections.models import Connection
from webapp.destinations.models import Destination
from webapp.replicators.signals import note


def on_connection_changed(*, connection: Connection, summary: str, user: User | None, **_: object) -> None:
    """The receiver of `webapp.connections.signals.changed`: a line on the timeline of every replicator that uses it."""
    for replicator in connection.replicators.all():
        note(replicator=replicator, kind="connection", summary=summary, user=user)


def on_destination_changed(*, destination: Destination, summary: str, user: User | None, **_: object) -> None:
    """The receiver of `webapp.destinations.signals.changed`."""
    for replicator in destination.replicators.all():
        note(replicator=replicator, kind="target", summary=summary, user=user)


def on_connection_works(*, connection: Connection, why: str, user: User | None, **_: object) -> None:
    """The receiver of `webapp.connections.signals.works`."""
    from webapp.replicators.services import go_on  # noqa: PLC0415 - commands that change nothing do without it

    go_on(endpoint=connection, why=why, user=user)


def on_destination_works(*, destination: Destination, why: str, user: User | None, **_: object) -> None:
    """The receiver of `webapp.destinations.signals.works`."""
    from webapp.replicators.services import go_on  # noqa: PLC0415 - commands that change nothing do without it

    go_on(endpoint=destination, why=why, user=user)


def on_tables_asked(*, connection: Connection, **_: object) -> TableSet | None:
    """The receiver of `webapp.connections.signals.tables_asked`."""
    from webapp.replicators.selectors import tables_read  # noqa: PLC0415 - seldom needed

    return tables_read(connection)
