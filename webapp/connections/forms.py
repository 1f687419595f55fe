"""The form of an endpoint, made from what its kind asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django import forms

from replicator.sources.base import FormField
from webapp.connections import selectors
from webapp.connections.models import Connection, Endpoint

PREFIX = "setting-"


def _widget(field: FormField, *, stored: bool, prefix: str = "") -> forms.Widget:
    attrs = {"class": "input", "autocomplete": "off", "spellcheck": "false"}
    if field.when:  # read by static/js/conditions.js
        attrs["data-when"] = json.dumps({prefix + name: values for name, values in field.when})
    if field.kind == "password":
        placeholder = "unchanged" if stored else ""
        return forms.PasswordInput(attrs=attrs | {"autocomplete": "new-password", "placeholder": placeholder})
    if field.kind == "textarea":
        return forms.Textarea(attrs=attrs | {"class": "textarea mono", "rows": 4})
    if field.kind == "choice":
        return forms.Select(attrs=attrs | {"class": "select"}, choices=field.choices)
    if field.kind == "number":
        return forms.NumberInput(attrs=attrs | {"class": "input input-number"})
    return forms.TextInput(attrs=attrs)


def form_field(field: FormField, *, stored: bool, prefix: str = "") -> forms.Field:
    """`stored`: there is a connection already, whose secrets are kept where the field stays empty.

    prefix: of the names of the form's fields.
    """
    common: dict[str, Any] = {
        "label": field.label,
        "required": field.required and not field.when and not (field.secret and stored),
        "help_text": field.help,
        "initial": field.default,
        "widget": _widget(field, stored=stored and field.secret, prefix=prefix),
        "error_messages": {
            "required": f"{field.label} is missing.",
            "invalid": f"{field.label} must be a whole number.",
        },
    }
    made: forms.Field
    if field.kind == "number":
        made = forms.IntegerField(min_value=0, **common)
    elif field.kind == "choice":
        made = forms.ChoiceField(choices=field.choices, **common)
    else:
        made = forms.CharField(strip=not field.secret, **common)
    made.optional = not field.required or (field.secret and stored)  # type: ignore[union-attr]  # for templates
    return made


class SettingsForm(forms.Form):
    """Settings of a plugin's form, each under `prefix` and its name."""

    setting_prefix = ""

    def __init__(self, *args: Any, settings: Sequence[FormField], stored: bool = False, **kwargs: Any) -> None:
        """Adds one field per setting.  stored: there are secrets already, which are kept where a field stays empty."""
        super().__init__(*args, **kwargs)
        self.settings = list(settings)
        for field in self.settings:
            self.fields[self.setting_prefix + field.name] = form_field(field, stored=stored, prefix=self.setting_prefix)

    def _bound(self, *, main: bool) -> list[forms.BoundField]:
        shown = [one for one in self.settings if (one.required or one.secret or one.main) == main]
        return [self[self.setting_prefix + one.name] for one in shown]

    @property
    def main_fields(self) -> list[forms.BoundField]:
        """What everybody fills in."""
        return self._bound(main=True)

    @property
    def further_fields(self) -> list[forms.BoundField]:
        """What has to be touched seldom."""
        return self._bound(main=False)

    @property
    def further_errors(self) -> bool:
        """True where one of the further fields is invalid or differs from its default: they are shown then."""
        return any(
            field.errors or str(field.value() or "") != str(field.field.initial or "") for field in self.further_fields
        )

    @property
    def config(self) -> dict[str, Any]:
        """Settings by the plugin's names; valid forms only."""
        found = {one.name: self.cleaned_data.get(self.setting_prefix + one.name) for one in self.settings}
        return {name: "" if value is None else value for name, value in found.items()}


class EndpointForm(SettingsForm):
    """The form of an endpoint's name and settings; with `endpoint` it changes that one."""

    setting_prefix = PREFIX
    model: type[Endpoint]
    word = "endpoint"
    example = ""
    name = forms.CharField(
        label="Name",
        max_length=100,
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, kind: str, endpoint: Endpoint | None = None, **kwargs: Any) -> None:
        """See `SettingsForm`."""
        self.kind = kind
        self.endpoint = endpoint
        if endpoint is not None:
            shown = {PREFIX + name: value for name, value in selectors.public_config(endpoint).items()}
            kwargs["initial"] = {"name": endpoint.name} | shown
        super().__init__(*args, settings=self.model.form_of(kind), stored=endpoint is not None, **kwargs)
        self.fields["name"].help_text = self.example
        self.fields["name"].error_messages["required"] = f"Enter a name for the {self.word}."

    def clean_name(self) -> str:
        """Unique."""
        name: str = self.cleaned_data["name"].strip()
        others = self.model._default_manager.filter(name=name)  # noqa: SLF001 - Django's own name for it
        if self.endpoint is not None:
            others = others.exclude(pk=self.endpoint.pk)
        if others.exists():
            message = f"There is already a {self.word} named {name}. Choose another name."
            raise forms.ValidationError(message)
        return name


class ConnectionForm(EndpointForm):
    model = Connection
    word = "connection"
    example = "For example “shop production”."
