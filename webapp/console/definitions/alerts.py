"""Channels and rules as code: their part of a definitions file (`webapp.console.definitions.apply`), read and written.

A channel is `{name, kind, recipients}` or `{name, kind, url, key}`; a replicator's `alerts` are its rules by kind, each
`{enabled, channels, …}` with the rule's numbers by their names (`webapp.alerts.rules.PARAMETERS`).  What is left out
stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from replicator.errors import ConfigurationError
from webapp.alerts import rules, selectors, services
from webapp.alerts.models import Channel, ChannelKind, Rule
from webapp.connections.secrets import unseal
from webapp.console.definitions.document import known, list_at, named, of_kind
from webapp.replicators.models import Replicator

CHANNEL_KEYS = {"name", "kind", "recipients", "url", "key"}
SECRETS = ("url", "key")


def apply_channel(item: Any) -> list[str]:
    """One line where it was made or changed."""
    name = named(item, CHANNEL_KEYS, "channel")
    channel = Channel.objects.filter(name=name).first()
    kind = str(item.get("kind", channel.kind if channel else ChannelKind.EMAIL))
    useless = ("recipients",) if kind != ChannelKind.EMAIL else SECRETS
    if wrong := [key for key in useless if key in item]:
        raise ConfigurationError(f"channel {name}: kind {kind} has no setting {wrong[0]}.")
    hidden = {key: of_kind(item[key], str, f"channel {name}: {key} must be a text.") for key in SECRETS if key in item}
    recipients = [str(one) for one in list_at(item, "recipients", f"channel {name}")]
    changed = _changed(channel, kind, recipients, hidden) if channel else []
    if channel and not changed:
        return []
    if channel and kind == channel.kind == ChannelKind.EMAIL and not recipients:
        recipients = channel.config["recipients"]
    services.save_channel(
        channel=channel, name=name, kind=kind, recipients=recipients, url=hidden.get("url", ""), key=hidden.get("key")
    )
    return [f"channel {name}: changed {', '.join(changed)}" if channel else f"channel {name}: created"]


def _changed(channel: Channel, kind: str, recipients: list[str], hidden: Mapping[str, str]) -> list[str]:
    """Names of what differs; none of them is a value (invariant 8)."""
    stored = unseal(channel.secrets)
    changed = ["kind"] if kind != channel.kind else []
    if recipients and recipients != channel.config.get("recipients"):
        changed.append("recipients")
    return changed + [key for key, value in hidden.items() if value.strip() != stored.get(key, "")]


def apply_rules(replicator: Replicator, wanted: Mapping[str, Any], user: User | None = None) -> list[str]:
    """One line for each rule that was changed."""
    return [line for kind, item in wanted.items() for line in _rule(replicator, str(kind), item, user)]


def _rule(replicator: Replicator, kind: str, item: Any, user: User | None) -> list[str]:
    where = f"replicator {replicator.name}, alerts, {kind}"
    rule = services.rule_of(replicator, kind)
    kind = rule.kind
    known(item, {"enabled", "channels", *rules.defaults(kind)}, where)
    enabled = of_kind(item.get("enabled", rule.enabled), bool, f"{where}: enabled must be true or false.")
    held = rules.defaults(kind) | rule.params
    given = {name: value for name, value in item.items() if name not in {"enabled", "channels"}}
    params = rules.checked(kind, held | given)
    tells = set(rule.channels.values_list("pk", flat=True))
    channels = _channels(item, where) if "channels" in item else tells
    if (enabled, params, channels) == (rule.enabled, held, tells):
        return []
    services.save_rule(
        replicator=replicator, kind=kind, enabled=enabled, params=params, channels=sorted(channels), user=user
    )
    return [f"replicator {replicator.name}: alert rule {kind}"]


def _channels(item: Mapping[str, Any], where: str) -> set[int]:
    names = [str(name) for name in list_at(item, "channels", where)]
    found = dict(Channel.objects.filter(name__in=names).values_list("name", "pk"))
    if missing := [name for name in names if name not in found]:
        message = f"{where}: unknown channel {missing[0]!r}."
        raise ConfigurationError(message, remedy="Declare it under channels.")
    return set(found.values())


def channel_form(channel: Channel) -> tuple[dict[str, Any], list[str]]:
    """What may be written of it, and the names of its secrets that are set."""
    form: dict[str, Any] = {"name": channel.name, "kind": channel.kind}
    if channel.kind == ChannelKind.EMAIL:
        form["recipients"] = list(channel.config["recipients"])
    stored = unseal(channel.secrets)
    return form, [name for name in SECRETS if stored.get(name)]


def rules_form(replicator: Replicator) -> dict[str, dict[str, Any]]:
    """All of them, by kind."""
    return {rule.kind: _rule_form(rule) for rule in selectors.rules_of(replicator)}


def _rule_form(rule: Rule) -> dict[str, Any]:
    numbers = rules.defaults(rule.kind) | rule.params
    return {"enabled": rule.enabled, **numbers, "channels": [channel.name for channel in rule.channels.all()]}
