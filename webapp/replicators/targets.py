"""What a replicator sets of its target for itself, and what the kind of its destination makes of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import User

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.model.mode import Mode
from replicator.sources.base import CheckResult
from replicator.state.journal import DdlAction
from replicator.targets import registry
from replicator.targets.kind import TargetKind
from replicator.targets.registry import target_kind
from webapp.connections.endpoints import without_secrets
from webapp.connections.fields import split
from webapp.connections.secrets import unseal
from webapp.connections.selectors import full_config, public_config
from webapp.destinations.models import Destination
from webapp.destinations.services import DESTINATIONS, destination_for, refuse_failed
from webapp.replicators.models import Replicator
from webapp.replicators.options import ReplicatorOptions

YES_NO = {True: "yes", False: "no"}


def kind_of(replicator: Replicator) -> TargetKind:
    """As its destination has it.  ConfigurationError for a kind that is not registered."""
    return replicator.destination.plugin


def wanted_target(
    target: Mapping[str, Any], destination: Destination | None = None, user: User | None = None
) -> tuple[Destination, dict[str, Any]]:
    """Destination and the replicator's own settings, with defaults.  ConfigurationError.

    Without `destination`, the settings of one stand in `target` with its kind, as before there were destinations: one
    that has them is taken, or made.
    """
    given = _plain(target)
    kind = target_kind(str(given.pop("kind", "") or (destination.kind if destination else registry.DEFAULT)))
    reach = {field.name for field in kind.destination_form} & given.keys()
    if destination is None:
        destination = destination_for(kind.name, {name: given.pop(name) for name in reach}, user)
    elif kind.name != destination.kind or reach:
        wrong = min(reach) if reach else "kind"
        message = f"target: {wrong} is a setting of the destination {destination.name}."
        raise ConfigurationError(message, remedy="Change it there, or name another destination.")
    return destination, checked_settings(destination, given)


def checked_settings(destination: Destination, target: Mapping[str, Any]) -> dict[str, Any]:
    """A replicator's own settings with defaults; ConfigurationError for what is not known or makes no sense."""
    kind = target_kind(destination.kind)
    try:
        public, _ = split(kind.form, _plain(target))
        kind.check_settings({**full_config(destination), **public})
    except ConfigurationError as error:
        error.message = error.message if error.message.startswith("target: ") else f"target: {error.message}"
        raise
    return public


def _plain(target: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: YES_NO.get(value, value) if isinstance(value, bool) else value for name, value in target.items()}
    if odd := next((name for name, value in given.items() if not isinstance(value, str | int | None)), None):
        raise ConfigurationError(f"target: {odd} must be a single-line string or a number.")
    return {name: "\n".join(value.splitlines()) if isinstance(value, str) else value for name, value in given.items()}


def refuse_options(kind: TargetKind, options: ReplicatorOptions) -> None:
    """ConfigurationError for what this kind of destination cannot do."""
    modes, mode = kind.capabilities.modes, Mode(options.mode)
    if mode not in (modes or {Mode.MIRROR}):
        named = ", ".join(sorted(one.label for one in modes))
        can = f"It has {named}." if modes else "It keeps every change."
        raise ConfigurationError(f"{kind.title} does not have the mode {mode.label}.", remedy=can)


def followed_ddl(kind: TargetKind, policy: Mapping[str, DdlAction]) -> dict[str, DdlAction]:
    """The policy, with a stop where the target cannot follow."""
    can = kind.capabilities.ddl
    return {
        name: DdlAction.STOP if action is DdlAction.APPLY and name not in can else action
        for name, action in policy.items()
    }


def check_fixed(replicator: Replicator, kind: str, changed: Iterable[str]) -> None:
    """ConfigurationError that names what cannot be changed, and why."""
    message, remedy = f"replicator {replicator.name}: its target cannot be changed", "Create another replicator."
    now = kind_of(replicator)
    if kind != now.name:
        raise ConfigurationError(f"{message} to one of another kind.", remedy=remedy)
    if fixed := sorted(set(now.fixed).intersection(changed)):
        raise ConfigurationError(f"{message} in its {fixed[0]}. {now.fixed[fixed[0]]}", remedy=remedy)


def parted(replicator: Replicator, target: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the destination that differ from its own, and the replicator's own as they would be.

    What `target` does not name stays; what it names as null is the default (a secret that is null or empty stays).
    ConfigurationError for what cannot be changed, and for a destination that others use, too.
    """
    given, kind, destination = _plain(target), kind_of(replicator), replicator.destination
    check_fixed(replicator, str(given.pop("kind", "") or kind.name), ())
    held = full_config(destination)
    secret = {field.name for field in kind.destination_form if field.secret}
    reach = {
        field.name: value
        for field in kind.destination_form
        if field.name in given
        and (value := given.pop(field.name)) != held.get(field.name, field.default)
        and not (field.name in secret and value in {"", None})
    }
    own = checked_settings(destination, {**replicator.target, **given})
    check_fixed(
        replicator, kind.name, [name for name, value in own.items() if replicator.target.get(name, "") != value]
    )
    if reach and (others := destination.replicators.exclude(pk=replicator.pk).first()):
        message = f"The destination {destination.name} is also used by {others.name}."
        raise ConfigurationError(message, remedy=f"Change {', '.join(sorted(reach))} in the destination.")
    return reach, own


def check_target(target: Mapping[str, Any]) -> list[CheckResult]:
    """Tries settings out, destination's and replicator's together; empty where there is nothing to try.

    ConfigurationError for what is not known or makes no sense.
    """
    given = _plain(target)
    kind = target_kind(str(given.pop("kind", "") or registry.DEFAULT))
    public, secret = split(kind.settings, given)
    values = {**public, **secret}
    kind.check_settings(values)
    return without_secrets(kind.check(values) if kind.check else [])


def try_target(replicator: Replicator, changes: Mapping[str, Any]) -> None:
    """Test a user's changes, before `services.update_target`.  Takes a while.

    ConfigurationError for what cannot be changed, makes no sense or does not work; TargetError for a target that does
    not answer.
    """
    reach, own = parted(replicator, changes)
    destination = replicator.destination
    if reach:
        DESTINATIONS.try_out(destination, {**destination.config, **reach})
    elif own != replicator.target:
        refuse_failed(check_target({"kind": destination.kind, **full_config(destination), **own}))


def full_target(replicator: Replicator) -> dict[str, Any]:
    """With secrets: for opening the target only, never for an answer (invariant 8)."""
    return {**full_config(replicator.destination), **replicator.target}


def public_target(replicator: Replicator) -> dict[str, Any]:
    """Return the kind, and all settings that are not secret."""
    return {"kind": replicator.destination.kind, **public_config(replicator.destination), **replicator.target}


def target_settings(replicator: Replicator) -> dict[str, Any]:
    """What may be known of it: values, names of secrets, when a change takes effect, what is fixed and why."""
    kind = kind_of(replicator)
    return {
        "settings": public_target(replicator),
        "secrets": sorted(unseal(replicator.destination.secrets)),
        "effects": dict(kind.effects),
        "fixed": dict(kind.fixed),
    }


def target_name(replicator: Replicator, table: TableId) -> tuple[str, str, str]:
    """Namespace, name and part in the target by the routing rules, or the table's own names."""
    return kind_of(replicator).table_name(replicator.target, table)


def same_place(one: Replicator, other: Replicator) -> bool:
    """Tables of one name are the same tables in both targets."""
    kind = kind_of(one)
    return kind.name == kind_of(other).name and kind.place(one.destination.config) == kind.place(
        other.destination.config
    )
