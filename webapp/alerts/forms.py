"""Forms of the alert pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils import timezone

from replicator.errors import ConfigurationError
from webapp.alerts import selectors, services
from webapp.alerts.models import Channel, ChannelKind, Rule
from webapp.alerts.rules import EXPLAINED, PARAMETERS, Parameter, defaults
from webapp.replicators.models import Replicator

TEXT = {"class": "input", "autocomplete": "off"}
SNOOZES = ((1, "1 hour"), (8, "8 hours"), (24, "1 day"), (168, "1 week"))


def quiet_context(replicator: Replicator) -> dict[str, Any]:
    """What the card "Snoozed alerts" of a replicator's settings shows."""
    rules, now = selectors.rules_of(replicator), timezone.now()
    snoozed = [rule for rule in rules if rule.snoozed_until is not None and rule.snoozed_until > now]
    return {"replicator": replicator, "rules_quiet": rules, "snoozed": snoozed, "snoozes": SNOOZES, "now": now}


class ChannelForm(forms.Form):
    """A channel; `save` has the last word on what may stand in it."""

    name = forms.CharField(
        label="Name",
        max_length=100,
        widget=forms.TextInput(attrs=TEXT),
        error_messages={"required": "Enter a name for the channel."},
    )
    kind = forms.ChoiceField(
        label="Kind",
        choices=ChannelKind.choices,
        widget=forms.Select(attrs={"class": "select", "data-channel-kind": ""}),
    )
    recipients = forms.CharField(
        label="E-mail addresses",
        required=False,
        help_text="Separated by commas or line breaks. For channels of kind E-mail.",
        widget=forms.Textarea(attrs={"class": "textarea", "rows": 2, "autocomplete": "off"}),
    )
    url = forms.CharField(
        label="Address",
        required=False,
        max_length=2000,
        help_text="https://… For webhooks and Slack. Stored encrypted and never shown again.",
        widget=forms.PasswordInput(attrs=TEXT | {"class": "input mono", "autocomplete": "new-password"}),
    )
    key = forms.CharField(
        label="Signing key",
        required=False,
        max_length=200,
        help_text="Webhooks are signed with it: X-Tidemark-Signature, HMAC-SHA256 of the body.",
        widget=forms.PasswordInput(attrs=TEXT | {"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, channel: Channel | None = None, **kwargs: Any) -> None:
        """Starts from `channel`; its secrets stay where nothing is typed."""
        self.channel = channel
        if channel is not None:
            known = {"name": channel.name, "kind": channel.kind}
            kwargs["initial"] = known | {"recipients": ", ".join(channel.config.get("recipients", []))}
        super().__init__(*args, **kwargs)
        if channel is not None and channel.kind != ChannelKind.EMAIL:
            self.fields["url"].help_text = f"One at {channel.destination} is stored; leave it empty to keep it."
            self.fields["key"].help_text += " Leave it empty to keep the stored one."

    def save(self) -> Channel | None:
        """None where it was refused; the form says why."""
        data = self.cleaned_data
        try:
            return services.save_channel(
                channel=self.channel,
                name=data["name"],
                kind=data["kind"],
                recipients=data["recipients"].replace("\n", ",").replace(";", ",").split(","),
                url=data["url"],
                key=data["key"] or None,
            )
        except ConfigurationError as error:
            self.add_error(None, error.message)
            return None


class ParameterField:
    """A number of a rule, for the template."""

    def __init__(self, rule: Rule, parameter: Parameter, value: float) -> None:
        self.parameter, self.name = parameter, f"{rule.kind}-{parameter.name}"
        self.value = f"{value:g}"


class RuleLine:
    """A rule with its fields, for the template and back."""

    def __init__(self, rule: Rule, channels: list[Channel]) -> None:
        """`channels`: all there are."""
        self.rule = rule
        self.explained = EXPLAINED[rule.kind]
        chosen = {channel.pk for channel in rule.channels.all()}
        values = defaults(rule.kind) | rule.params
        self.fields = [ParameterField(rule, one, values[one.name]) for one in PARAMETERS[rule.kind]]
        self.channels = [(channel, channel.pk in chosen) for channel in channels]

    def change(self, data: QueryDict) -> dict[str, Any]:
        """Return the typed values; ConfigurationError for a parameter that is not a number."""
        params = {}
        for one in self.fields:
            text = data.get(one.name, "").strip()
            try:
                params[one.parameter.name] = float(text)
            except ValueError:
                raise ConfigurationError(f"{one.parameter.label}: a number, not {text!r}.") from None
        picked = [int(pk) for pk in data.getlist(f"{self.rule.kind}-channels") if pk.isdigit()]
        return {"enabled": f"{self.rule.kind}-enabled" in data, "params": params, "channels": picked}
