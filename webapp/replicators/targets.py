"""A replicator's target: its settings, checked by its kind; the secret ones are stored encrypted (invariant 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Q

from replicator.errors import ConfigurationError
from replicator.redaction import redacted
from replicator.sources.base import CheckResult, Status
from replicator.targets.kinds import TargetForm, target_form
from webapp.connections.fields import Stored, split
from webapp.connections.secrets import unseal
from webapp.replicators.models import Replicator

DEFAULT_KIND = "iceberg"
YES_NO = {True: "yes", False: "no"}


def kind_of(settings: Mapping[str, Any]) -> TargetForm:
    """ConfigurationError for a kind that is not registered."""
    return target_form(str(settings.get("kind") or DEFAULT_KIND))


def checked_target(target: Mapping[str, Any], stored: Stored | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """Public settings with defaults, and secret ones; ConfigurationError for what is not known or makes no sense.

    stored: its secrets are kept where none are given, unless they would go elsewhere.
    """
    kind = kind_of(target)
    given = {name: YES_NO.get(value, value) if isinstance(value, bool) else value for name, value in target.items()}
    given.pop("kind", None)
    if odd := next((name for name, value in given.items() if not isinstance(value, str | int | None)), None):
        raise ConfigurationError(f"target: {odd} must be a single-line string or a number.")
    try:
        public, secret = split(kind.form, given, stored)
        kind.valid({**public, **secret})
    except ConfigurationError as error:
        error.message = error.message if error.message.startswith("target: ") else f"target: {error.message}"
        raise
    return {"kind": kind.name, **public}, secret


def check_target(target: Mapping[str, Any], stored: Stored | None = None) -> list[CheckResult]:
    """Tries the settings out; empty where there is nothing to try.  ConfigurationError as `checked_target`."""
    public, secret = checked_target(target, stored)
    kind = kind_of(public)
    if kind.check is None:
        return []
    found = kind.check({**public, **secret})
    return [CheckResult(r.name, r.title, r.status, redacted(r.detail), redacted(r.remedy)) for r in found]


def check_fixed(replicator: Replicator, kind: str, changed: Iterable[str]) -> None:
    """ConfigurationError that names what cannot be changed, and why."""
    message, remedy = f"replicator {replicator.name}: its target cannot be changed", "Create another replicator."
    now = kind_of(replicator.target)
    if kind != now.name:
        raise ConfigurationError(f"{message} to one of another kind.", remedy=remedy)
    if fixed := sorted(set(now.fixed).intersection(changed)):
        raise ConfigurationError(f"{message} in its {fixed[0]}. {now.fixed[fixed[0]]}", remedy=remedy)


def changed_target(replicator: Replicator, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with `changes` in them (an empty secret stays as it is where its address does), tried out; to be given to `services.update_target`.

    ConfigurationError for what cannot be changed, makes no sense or does not work; TargetError where nobody answers.
    """
    target = {**replicator.target, "kind": kind_of(replicator.target).name, **changes}
    stored = stored_target(replicator)
    public, secret = checked_target(target, stored)
    before = {**stored.public, **stored.secret}
    changed = {name for name, value in {**public, **secret}.items() if before.get(name, "") != value}
    check_fixed(replicator, public["kind"], changed - {"kind"})
    if not changed - {"kind"}:
        return target
    kind, found = kind_of(public), check_target(target, stored)
    moved = kind.place(public) != kind.place(replicator.target)
    if kind.written and moved and not any(one.status is Status.FAILED for one in found) and _wrote(replicator):
        found.append(kind.written({**public, **secret}))
    if failed := next((one for one in found if one.status is Status.FAILED), None):
        raise ConfigurationError(f"{failed.title}: {failed.detail}", remedy=failed.remedy)
    return target


def _wrote(replicator: Replicator) -> bool:
    return replicator.tables.filter(Q(applied__gte=0) | Q(loaded__gte=0)).exists()


def full_target(replicator: Replicator) -> dict[str, Any]:
    """With secrets: for opening the target only, never for an answer (invariant 8)."""
    stored = stored_target(replicator)
    return {**stored.public, **stored.secret}


def stored_target(replicator: Replicator) -> Stored:
    """Its settings, and the secrets that were entered for them."""
    return Stored(replicator.target, unseal(replicator.target_secrets))


def target_settings(replicator: Replicator) -> dict[str, Any]:
    """What may be known of it: values, names of secrets, when a change takes effect, what is fixed and why."""
    kind = kind_of(replicator.target)
    return {
        "settings": {**replicator.target, "kind": kind.name},
        "secrets": sorted(unseal(replicator.target_secrets)),
        "effects": dict(kind.effects),
        "fixed": dict(kind.fixed),
    }


def namespace_of(replicator: Replicator, database: str) -> str:
    """Of the database's tables in the target."""
    return kind_of(replicator.target).namespace(replicator.target, database)


def same_place(one: Replicator, other: Replicator) -> bool:
    """Tables of one name are the same tables in both targets."""
    kind = kind_of(one.target)
    return kind == kind_of(other.target) and kind.place(one.target) == kind.place(other.target)
