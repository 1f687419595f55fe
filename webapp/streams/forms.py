"""The form that makes a stream."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import User

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from webapp.replicators.models import Replicator
from webapp.replicators.selection.entries import split_name
from webapp.streams import selectors, services
from webapp.streams.models import Stream

TEXT = {"class": "input", "autocomplete": "off"}
LINES = {"class": "textarea mono", "rows": 2, "autocomplete": "off"}


class StreamForm(forms.Form):
    """`save` has the last word on what may stand in it."""

    name = forms.CharField(
        label="Name",
        max_length=63,
        help_text="Small letters, digits, - and _. Used by clients.",
        widget=forms.TextInput(attrs=TEXT | {"class": "input mono"}),
        error_messages={"required": "Enter a name for the stream."},
    )
    replicator = forms.ModelChoiceField(
        Replicator.objects.none(),
        label="Replicator",
        empty_label=None,
        widget=forms.Select(attrs={"class": "select"}),
        error_messages={"required": "Choose a replicator."},
    )
    shards = forms.IntegerField(
        label="Shards",
        initial=1,
        help_text="Maximum number of clients of a group that read in parallel. It cannot be changed later.",
        widget=forms.NumberInput(attrs={"class": "input input-number", "min": 1, "max": services.MAX_SHARDS}),
    )
    retention_hours = forms.FloatField(
        label="Retention",
        initial=24,
        help_text="Hours. A client that is away for longer has to start over.",
        widget=forms.NumberInput(attrs={"class": "input input-number", "min": 1, "max": services.MAX_HOURS}),
    )
    tables = forms.CharField(
        label="Only these tables",
        required=False,
        help_text="database.table, one per line. Empty: all current and future tables.",
        widget=forms.Textarea(attrs=LINES),
    )
    exclude = forms.CharField(
        label="Not these tables",
        required=False,
        help_text="database.table, one per line.",
        widget=forms.Textarea(attrs=LINES),
    )
    snapshot = forms.BooleanField(
        label="Include existing rows",
        required=False,
        help_text="The tables are resnapshotted while streaming continues. Otherwise clients get new changes only.",
        widget=forms.CheckboxInput(attrs={"class": "switch", "role": "switch"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["replicator"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = selectors.replicators()

    def save(self, user: User) -> Stream | None:
        """None where it was refused; the form says why."""
        data = self.cleaned_data
        try:
            tables = _names(data["tables"])
            return services.create_stream(
                name=data["name"],
                replicator=data["replicator"],
                shards=data["shards"],
                tables=tables or None,
                exclude=_names(data["exclude"]),
                retention_hours=data["retention_hours"],
                snapshot=data["snapshot"],
                user=user,
            )
        except ConfigurationError as error:
            self.add_error(None, error.message)
            return None


def _names(text: str) -> list[TableId]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [TableId(*split_name(line)) for line in lines]
