"""The snapshots of one table: reading rows by keys or by a condition, and what became of it."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from replicator.errors import ConfigurationError, TidemarkError
from webapp.console.presenters.labels import run_word
from webapp.console.views.detail import page, table_or_404
from webapp.replicators import services
from webapp.replicators.models import ReplicatorTable, SnapshotRun
from webapp.replicators.services.partial_snapshots import require_streaming
from webapp.replicators.target_tables import past_of
from webapp.web.responses import is_htmx, user_of

SHOWN = 20
MAX_BYTES = 16 * 1024 * 1024  # of a file with keys
WRITTEN = {"class": "textarea mono", "spellcheck": "false", "autocomplete": "off"}


class KeysForm(forms.Form):
    """Typed, pasted or from a file."""

    keys = forms.CharField(
        label="Keys",
        required=False,
        strip=False,
        max_length=MAX_BYTES,
        widget=forms.Textarea(attrs=WRITTEN | {"rows": 6}),
    )
    file = forms.FileField(
        label="A file with keys", required=False, widget=forms.ClearableFileInput(attrs={"class": "input"})
    )

    def clean(self) -> dict[str, object]:
        """One of the two, as text."""
        given, file = self.cleaned_data.get("keys", ""), self.cleaned_data.get("file")
        if bool(given.strip()) == bool(file):
            message = "Either enter keys or select a file."
            raise forms.ValidationError(message)
        if file:
            if file.size > MAX_BYTES:
                message = f"The file is larger than {MAX_BYTES >> 20} MiB."
                raise forms.ValidationError(message)
            try:
                self.cleaned_data["keys"] = file.read().decode("utf-8-sig")
            except UnicodeDecodeError:
                message = "The file is not valid UTF-8."
                raise forms.ValidationError(message) from None
        return self.cleaned_data


class ConditionForm(forms.Form):
    """What would stand behind WHERE."""

    where = forms.CharField(label="Condition", widget=forms.Textarea(attrs=WRITTEN | {"rows": 6}))


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def snapshots(request: HttpRequest, pk: int, table: int) -> HttpResponse:
    """Ask for a part of the table; see what is read of it, and what was."""
    row = table_or_404(pk, table)
    replicator = row.replicator
    posted = request.POST if request.method == "POST" else None
    by_keys = KeysForm(posted if posted and "by_keys" in posted else None, request.FILES or None)
    by_condition = ConditionForm(posted if posted and "by_condition" in posted else None)
    for form in (by_keys, by_condition):
        if form.is_bound and form.is_valid() and (run := _asked(request, row, form)):
            messages.success(request, f"{run.what[:1].upper()}{run.what[1:]} are read; the table continues to stream.")
            return redirect("replicators:table_snapshots", pk=pk, table=table)
    runs = list(row.runs.select_related("table")[:SHOWN])
    context: dict[str, object] = {
        "table": row,
        "past": None if is_htmx(request) else past_of(row),
        "runs": [(run, run_word(run)) for run in runs],
        "under_way": any(run.open for run in runs),
        "all_paused": all(run.paused for run in runs if run.open),
    }
    if not is_htmx(request):
        newest = row.schemas.order_by("-version").first()
        context |= {"by_keys": by_keys, "by_condition": by_condition, "why_not": _why_not(row)}
        context["key"] = newest.parsed.key if newest else ()
    return page(request, replicator, "table_snapshots", context)


def _asked(request: HttpRequest, table: ReplicatorTable, form: forms.Form) -> SnapshotRun | None:
    """None where it was refused: the form says why."""
    try:
        if isinstance(form, KeysForm):
            return services.read_keys(table=table, keys=form.cleaned_data["keys"], user=user_of(request))
        return services.read_rows(table=table, condition=form.cleaned_data["where"], user=user_of(request))
    except TidemarkError as error:
        form.add_error(None, f"{error.message} {error.remedy}")
        return None


def _why_not(table: ReplicatorTable) -> str:
    try:
        require_streaming(table)
    except ConfigurationError as error:
        return f"{error.message} {error.remedy}"
    return ""
