"""Encrypting everything stored again, after a change of the key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Model

from replicator.errors import ConfigurationError
from webapp.alerts.models import Channel
from webapp.connections.models import Connection
from webapp.connections.secrets import resealed
from webapp.destinations.models import Destination
from webapp.replicators.models import Replicator


@dataclass
class Rekeyed:
    """changed: how many secrets are under the new key since now; unreadable: whose no known key opens."""

    changed: int = 0
    unreadable: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Place:
    """A column with tokens: `read` gives one row's, `write` the column's value with another."""

    model: type[Model]
    title: str
    column: str
    read: Callable[[Any], str] = str
    write: Callable[[Any, str], Any] = lambda _, token: token


_PLACES = (
    _Place(Connection, "connection", "secrets"),
    _Place(Destination, "destination", "secrets"),
    _Place(Replicator, "masks of replicator", "secrets"),
    _Place(Channel, "alert channel", "secrets"),
)


def rekey() -> Rekeyed:
    """Encrypt each secret separately, with compare-and-set: concurrent writes stay, and a second run continues with the
    rest.
    """
    done = Rekeyed()
    for place in _PLACES:
        for pk in list(place.model._default_manager.values_list("pk", flat=True)):  # noqa: SLF001 - Django's own name for it
            _rekey_row(place, pk, done)
    return done


def _rekey_row(place: _Place, pk: Any, done: Rekeyed) -> None:
    while True:
        row = place.model._default_manager.filter(pk=pk)  # noqa: SLF001
        found: Iterable[Any] = row.values_list(place.column, flat=True)
        value = next(iter(found), None)
        if value is None or not (token := place.read(value)):
            return
        try:
            fresh = resealed(token)
        except ConfigurationError:
            done.unreadable.append(f"{place.title} {row.get()}")
            return
        if not fresh:
            return
        if row.filter(**{place.column: value}).update(**{place.column: place.write(value, fresh)}):
            done.changed += 1
            return
