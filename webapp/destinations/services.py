"""Making, changing, testing and removing destinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q

from replicator.errors import ConfigurationError, TidemarkError
from replicator.sources.base import CheckResult, CheckStatus
from replicator.targets import registry
from replicator.targets.registry import target_kind
from webapp.connections.endpoints import Endpoints, restart_replicators, without_secrets
from webapp.connections.secrets import unseal
from webapp.destinations import signals
from webapp.destinations.models import Destination

BUILT_IN = "Lakehouse"


def _run(kind: str, config: Mapping[str, Any]) -> list[CheckResult]:
    try:
        check = target_kind(kind).check
        return check(config) if check else []
    except TidemarkError as error:
        return [CheckResult("open", "Destination settings", CheckStatus.FAILED, error.message, error.remedy)]


def _valid(kind: str, config: Mapping[str, Any]) -> None:
    target_kind(kind).valid(config)


def _apply(destination: Destination) -> None:
    """What waits for its retry time is tried at once: tables before their replicators, as the workers lock them."""
    for replicator in destination.replicators.order_by("id"):
        replicator.tables.filter(retry_at__isnull=False).update(retry_at=None)
    restart_replicators(destination)


def _guard(destination: Destination, values: Mapping[str, Any]) -> None:
    """Replicators go on only where they can write, and where what they have written before is."""
    replicators = list(destination.replicators.all())
    if not replicators:
        return
    kind = target_kind(destination.kind)
    refuse_failed(_run(destination.kind, values))
    if kind.written and kind.place(values) != kind.place(destination.config):
        for one in replicators:
            if one.tables.filter(Q(applied__gte=0) | Q(loaded__gte=0)).exists():
                refuse_failed([kind.written({**one.target, **values})])


def refuse_failed(found: Sequence[CheckResult]) -> None:
    """ConfigurationError with the first that failed."""
    if failed := next((one for one in without_secrets(found) if one.status is CheckStatus.FAILED), None):
        raise ConfigurationError(f"{failed.title}: {failed.detail}", remedy=failed.remedy)


DESTINATIONS = Endpoints(
    Destination,
    "destination",
    valid=_valid,
    run=lambda kind, config, _: _run(kind, config),
    apply=_apply,
    changed=signals.changed,
    works=signals.works,
    guard=_guard,
)


def built_in() -> Destination:
    """Return the oldest destination of the default kind; where there is none, create the installation's lakehouse."""
    found = Destination.objects.filter(kind=registry.DEFAULT).order_by("id").first()
    return found or Destination.objects.get_or_create(name=BUILT_IN, defaults={"kind": registry.DEFAULT})[0]


def destination_for(kind: str, settings: Mapping[str, Any], user: User | None = None) -> Destination:
    """One that has exactly these settings, secrets included, made where there is none.  ConfigurationError.

    For who describes a target without naming a destination, as before there were any.
    """
    public, secret = DESTINATIONS.checked(kind, settings)
    if kind == registry.DEFAULT and (public, secret) == DESTINATIONS.checked(kind, {}):
        return built_in()
    for one in Destination.objects.filter(kind=kind, config=public).order_by("id"):
        if unseal(one.secrets) == secret:
            return one
    title = " ".join(filter(None, (target_kind(kind).title, target_kind(kind).place(public))))[:90]
    name, number = title, 1
    while Destination.objects.filter(name=name).exists():
        number += 1
        name = f"{title} {number}"
    return DESTINATIONS.create(name=name, kind=kind, config={**public, **secret}, user=user)


def named(name: str) -> Destination:
    """ConfigurationError for one that does not exist."""
    if (found := Destination.objects.filter(name=name).first()) is None:
        raise ConfigurationError(f"Unknown destination {name!r}.")
    return found
