"""Forms of objectives."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet

from webapp.replicators.models import ReplicatorTable

NUMBER = {"class": "input input-number", "step": "any"}


class TableObjectiveForm(forms.Form):
    """A table's own objective; both figures, or neither for the replicator's."""

    table = forms.ModelChoiceField(
        ReplicatorTable.objects.none(),
        label="Table",
        widget=forms.Select(attrs={"class": "select"}),
        error_messages={"required": "Choose a table.", "invalid_choice": "Choose one of the replicator’s tables."},
    )
    percent = forms.FloatField(
        label="Percent of changes", min_value=0.1, max_value=100, required=False, widget=forms.NumberInput(attrs=NUMBER)
    )
    minutes = forms.FloatField(
        label="Minutes", min_value=1 / 60, max_value=1440, required=False, widget=forms.NumberInput(attrs=NUMBER)
    )

    def __init__(self, *args: Any, tables: QuerySet[ReplicatorTable], **kwargs: Any) -> None:
        """`tables`: those that may be chosen."""
        super().__init__(*args, **kwargs)
        field = self.fields["table"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = tables

    @property
    def objective(self) -> tuple[ReplicatorTable, float | None, float | None]:
        """Table, percent, seconds."""
        minutes = self.cleaned_data["minutes"]
        seconds = None if minutes is None else round(minutes * 60, 3)
        return self.cleaned_data["table"], self.cleaned_data["percent"], seconds
