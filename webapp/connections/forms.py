"""The form of a connection, made from what the source's plugin asks for."""

from __future__ import annotations

from typing import Any

from django import forms

from replicator.sources.base import FormField
from webapp.connections import selectors
from webapp.connections.models import Connection

PREFIX = "setting-"


def _widget(field: FormField, *, stored: bool) -> forms.Widget:
    attrs = {"class": "input", "autocomplete": "off", "spellcheck": "false"}
    if field.kind == "password":
        placeholder = "unchanged" if stored else ""
        return forms.PasswordInput(attrs=attrs | {"autocomplete": "new-password", "placeholder": placeholder})
    if field.kind == "textarea":
        return forms.Textarea(attrs=attrs | {"class": "textarea mono", "rows": 4})
    if field.kind == "choice":
        return forms.Select(attrs={"class": "select"}, choices=field.choices)
    if field.kind == "number":
        return forms.NumberInput(attrs=attrs | {"class": "input input-number"})
    return forms.TextInput(attrs=attrs)


def form_field(field: FormField, *, stored: bool) -> forms.Field:
    """`stored`: there is a connection already, whose secrets are kept where the field stays empty."""
    common: dict[str, Any] = {
        "label": field.label,
        "required": field.required and not (field.secret and stored),
        "help_text": field.help,
        "initial": field.default,
        "widget": _widget(field, stored=stored and field.secret),
        "error_messages": {
            "required": f"{field.label} is missing.",
            "invalid": f"{field.label} must be a whole number.",
        },
    }
    if field.kind == "number":
        return forms.IntegerField(min_value=0, **common)
    if field.kind == "choice":
        return forms.ChoiceField(choices=field.choices, **common)
    return forms.CharField(strip=not field.secret, **common)


class ConnectionForm(forms.Form):
    """`config` gives the plugin's settings back; with `connection` the form changes it."""

    name = forms.CharField(
        label="Name",
        max_length=100,
        help_text="For example “shop production”.",
        widget=forms.TextInput(attrs={"class": "input", "autocomplete": "off"}),
        error_messages={"required": "Enter a name for the connection."},
    )

    def __init__(self, *args: Any, kind: str, connection: Connection | None = None, **kwargs: Any) -> None:
        """Adds one field per setting."""
        self.kind = kind
        self.connection = connection
        if connection is not None:
            shown = {PREFIX + name: value for name, value in selectors.public_config(connection).items()}
            kwargs["initial"] = {"name": connection.name} | shown
        super().__init__(*args, **kwargs)
        self.settings = list(selectors.form_fields(kind))
        for field in self.settings:
            self.fields[PREFIX + field.name] = form_field(field, stored=connection is not None)

    @property
    def main_fields(self) -> list[forms.BoundField]:
        """What everybody fills in."""
        return [self[PREFIX + field.name] for field in self.settings if field.required or field.secret]

    @property
    def further_fields(self) -> list[forms.BoundField]:
        """What has to be touched seldom."""
        return [self[PREFIX + field.name] for field in self.settings if not (field.required or field.secret)]

    @property
    def further_errors(self) -> bool:
        """True where one of the further fields is wrong or was set: they are shown then."""
        return any(field.errors or (self.connection and field.value()) for field in self.further_fields)

    @property
    def config(self) -> dict[str, Any]:
        """Settings by the plugin's names; valid forms only."""
        found = {field.name: self.cleaned_data.get(PREFIX + field.name) for field in self.settings}
        return {name: "" if value is None else value for name, value in found.items()}

    def clean_name(self) -> str:
        """Unique."""
        name: str = self.cleaned_data["name"].strip()
        others = Connection.objects.filter(name=name)
        if self.connection is not None:
            others = others.exclude(pk=self.connection.pk)
        if others.exists():
            message = f"There is already a connection named {name}. Choose another name."
            raise forms.ValidationError(message)
        return name
