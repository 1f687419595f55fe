"""Changing channels and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from replicator.errors import ConfigurationError
from webapp.alerts import rules
from webapp.alerts.delivery import send
from webapp.alerts.evaluation import make_rules
from webapp.alerts.messages import of_test
from webapp.alerts.models import OLD_KINDS, Channel, ChannelKind, Rule, RuleKind
from webapp.connections.secrets import seal, unseal
from webapp.monitoring.services import note
from webapp.replicators.models import Replicator
from webapp.web.outbound import NotSentError, checked_url

MAX_RECIPIENTS = 20
MAX_SNOOZE = timedelta(days=30)


def save_channel(
    *,
    channel: Channel | None = None,
    name: str,
    kind: str,
    recipients: Sequence[str] = (),
    url: str = "",
    key: str | None = None,
) -> Channel:
    """A new one, or a change.  Empty url and key (None) keep what is stored; an empty text removes the key.

    Another url asks for the key again: it is used only for the address for which it was entered (invariant 8).
    ConfigurationError that says what is wrong.
    """
    channel = channel or Channel()
    name = name.strip()
    if not name:
        raise ConfigurationError("A channel needs a name.")
    if Channel.objects.filter(name=name).exclude(pk=channel.pk).exists():
        raise ConfigurationError(f"There is already a channel named {name}.", remedy="Choose another name.")
    if kind not in ChannelKind.values:
        raise ConfigurationError(f"Unknown channel kind {kind!r}; known kinds: {', '.join(ChannelKind.values)}.")
    stored = _stored(channel) if kind == channel.kind else {}
    channel.name, channel.kind = name, kind
    if kind == ChannelKind.EMAIL:
        channel.config, channel.secrets = {"recipients": _recipients(recipients)}, ""
    else:
        hidden = {"url": url.strip() or stored.get("url", ""), "key": stored.get("key", "") if key is None else key}
        if not hidden["url"]:
            raise ConfigurationError("The address is missing.")
        if key is None and hidden["key"] and hidden["url"] != stored["url"]:
            raise ConfigurationError(
                "The signing key must be entered again, because the address was changed. A stored secret is only used"
                " for the address for which it was entered.",
                remedy="Send the key together with the new address.",
            )
        channel.config = {"host": str(checked_url(hidden["url"]).hostname)}
        channel.secrets = seal({part: value for part, value in hidden.items() if value})
    channel.save()
    return channel


def _stored(channel: Channel) -> dict[str, str]:
    """Nothing where it cannot be decrypted any more: then all of it has to be typed again."""
    try:
        return unseal(channel.secrets)
    except ConfigurationError:
        return {}


def _recipients(given: Sequence[str]) -> list[str]:
    found = [address.strip() for address in given if address.strip()]
    if not found:
        raise ConfigurationError("Name at least one e-mail address.")
    if len(found) > MAX_RECIPIENTS:
        raise ConfigurationError(f"At most {MAX_RECIPIENTS} addresses are allowed. Use a mailing list for more.")
    for address in found:
        try:
            validate_email(address)
        except ValidationError:
            raise ConfigurationError(f"{address!r} is not a valid e-mail address.") from None
    return found


def try_channel(*, channel: Channel) -> str:
    """Send a test message now; why it could not be sent, or empty."""
    return _tried(channel, None)


def try_rules(*, replicator: Replicator) -> dict[str, str]:
    """Send a test message to every channel that one of its rules tells, now; by channel why it could not be sent, or
    empty.
    """
    channels = Channel.objects.filter(rules__replicator=replicator, rules__enabled=True).distinct()
    return {channel.name: _tried(channel, replicator) for channel in channels}


def _tried(channel: Channel, replicator: Replicator | None) -> str:
    try:
        send(channel, of_test(timezone.now(), replicator))
    except NotSentError as error:
        return error.reason
    return ""


def delete_channel(*, channel: Channel) -> None:
    """Delete the channel and its queued messages."""
    channel.delete()


@transaction.atomic
def save_rule(
    *,
    replicator: Replicator,
    kind: str,
    enabled: bool | None = None,
    params: Mapping[str, Any] | None = None,
    channels: Sequence[int] | None = None,
    user: User | None = None,
) -> Rule:
    """What is None stays.  Takes effect with the next round, within half a minute."""
    rule = rule_of(replicator, kind)
    changed = []
    if enabled is not None and enabled != rule.enabled:
        rule.enabled = enabled
        changed.append("on" if enabled else "off")
    if params is not None and (values := rules.checked(rule.kind, params)) != rule.params:
        rule.params = values
        changed += [f"{name} {value:g}" for name, value in values.items()]
    if channels is not None:
        found = {channel.pk: channel for channel in Channel.objects.filter(pk__in=channels)}
        if unknown := sorted(set(channels) - set(found)):
            raise ConfigurationError(f"Unknown channel {unknown[0]}.")
        if set(rule.channels.values_list("pk", flat=True)) != set(found):
            rule.channels.set(found.values())
            changed.append(f"notifies {', '.join(sorted(str(one) for one in found.values())) or 'no channels'}")
    if changed:
        rule.save()
        summary = f"Alert rule changed: {rule.get_kind_display()} ({', '.join(changed)})"
        note(replicator=replicator, kind="alert_rule", summary=summary, user=user)
    return rule


def rule_of(replicator: Replicator, kind: str) -> Rule:
    """ConfigurationError for a kind that does not exist; it may have its deprecated name."""
    kind = OLD_KINDS.get(kind, kind)
    if kind not in RuleKind.values:
        raise ConfigurationError(f"Unknown alert rule {kind!r}; known rules: {', '.join(RuleKind.values)}.")
    make_rules([replicator])
    return Rule.objects.select_related("replicator").get(replicator=replicator, kind=kind)


def snooze(*, rule: Rule, until: datetime | None, user: User | None = None) -> Rule:
    """Send no new alert of the rule until then (None: end the snooze); one that still holds then is sent."""
    _check_snooze(until)
    rule.snoozed_until = until
    rule.save(update_fields=["snoozed_until"])
    summary = f"Alert snoozed: {rule.get_kind_display()}" if until else f"Snooze ended: {rule.get_kind_display()}"
    detail = {"until": until.isoformat() if until else None}
    note(replicator=rule.replicator, kind="alert_snoozed", summary=summary, detail=detail, user=user)
    return rule


@transaction.atomic
def snooze_all(*, replicator: Replicator, until: datetime | None, user: User | None = None) -> None:
    """Every rule of it, as `snooze` does one: for work that is planned."""
    _check_snooze(until)
    make_rules([replicator])
    Rule.objects.filter(replicator=replicator).update(snoozed_until=until)
    detail = {"until": until.isoformat() if until else None}
    summary = "All alerts snoozed" if until else "All snoozes ended"
    note(replicator=replicator, kind="alert_snoozed", summary=summary, detail=detail, user=user)


def _check_snooze(until: datetime | None) -> None:
    if until is not None and until > timezone.now() + MAX_SNOOZE:
        raise ConfigurationError("An alert can be snoozed for 30 days at most; switch its rule off instead.")
