"""The wizard's steps.  Each is a page of its own; the draft keeps what was decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from replicator.errors import ConfigurationError, TidemarkError
from replicator.sources.base import Status
from replicator.sources.registry import KINDS
from replicator.targets.kinds import FORMS
from webapp.connections import selectors as connections
from webapp.connections.fields import Stored
from webapp.connections.forms import ConnectionForm
from webapp.connections.presentation import check_lines, check_summary
from webapp.connections.secrets import seal
from webapp.connections.views import known_kind
from webapp.connections.views import save as save_connection
from webapp.console.presenters.forms import KafkaForm, NameForm, OptionsForm, TargetForm
from webapp.console.views.wizard_draft import STEPS, TITLES, Wizard, create, open_wizard
from webapp.replicators import services
from webapp.replicators.targets import DEFAULT_KIND, check_target, checked_target, kind_of
from webapp.web.responses import user_of

NAMES_SHOWN = 12
MAX_TYPED = 10_000


def _page(request: HttpRequest, wizard: Wizard, step: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    rail = [
        (
            name,
            TITLES[name],
            name != STEPS[-1] and not wizard.missing(name) and wizard.reached(name),
            wizard.reached(name),
        )
        for name in STEPS
    ]
    context |= {"wizard": wizard, "draft": wizard.draft, "step": step, "title": TITLES[step], "rail": rail}
    context |= {"number": STEPS.index(step) + 1, "of": len(STEPS), "section": "replicators"}
    if step != STEPS[0]:
        context["previous"] = STEPS[STEPS.index(step) - 1]
    return render(request, f"replicators/wizard/{step}.html", context, status=status)


def _next(wizard: Wizard, step: str, **changes: Any) -> HttpResponse:
    following = STEPS[STEPS.index(step) + 1]
    wizard.save(following, **changes)
    assert wizard.draft is not None
    return redirect("replicators:step", wizard.draft.pk, following)


@login_required
def begin(request: HttpRequest) -> HttpResponse:
    """The first step; the draft begins to exist with the first answer."""
    return _source(request, Wizard(user_of(request), None))


@login_required
def step(request: HttpRequest, draft: int, step: str) -> HttpResponse:
    """Any step of a draft; one that is not reached yet leads to the first that is incomplete."""
    wizard = open_wizard(user_of(request), draft)
    if step not in VIEWS:
        raise Http404
    if not wizard.reached(step):
        first = next(name for name in STEPS if wizard.missing(name))
        messages.info(request, wizard.missing(first))
        return redirect("replicators:step", draft, first)
    return VIEWS[step](request, wizard)


@login_required
@require_POST
def discard(request: HttpRequest, draft: int) -> HttpResponse:
    """Forget a draft."""
    services.discard_draft(user=user_of(request), draft_id=draft)
    messages.success(request, "Draft discarded.")
    return redirect("replicators:fleet")


def _source(request: HttpRequest, wizard: Wizard) -> HttpResponse:
    kind = known_kind(request.GET.get("kind"))
    found = list(connections.list_connections())
    form = ConnectionForm(kind=kind)
    error = ""
    if request.method == "POST" and request.POST.get("connection", "new") == "new":
        form = ConnectionForm(request.POST, kind=kind)
        if form.is_valid() and (made := save_connection(request, form)) is not None:
            return _next(wizard, "source", connection=made.pk)
    elif request.method == "POST":
        chosen = next((c for c in found if str(c.pk) == request.POST["connection"]), None)
        if chosen is not None:
            other: dict[str, object] = (
                {} if wizard.data.get("connection") == chosen.pk else {"selection": {}, "accepted": []}
            )
            return _next(wizard, "source", connection=chosen.pk, **other)
        error = "Choose one of the connections, or create a new one."
    preset = request.POST.get("connection") or request.GET.get("connection") or str(wizard.data.get("connection") or "")
    if preset != "new" and preset not in {str(c.pk) for c in found}:
        preset = str(found[0].pk) if found else "new"
    context = {"connections": found, "form": form, "kind": KINDS[kind], "kinds": connections.kinds(), "error": error}
    context["chosen"] = preset
    return _page(request, wizard, "source", context)


def _test(request: HttpRequest, wizard: Wizard) -> HttpResponse:
    connection = wizard.source
    error = ""
    if request.method == "POST":
        error = wizard.missing("test")
        if not error:
            return _next(wizard, "test")
    checks = check_lines(connection.last_check)
    context = {
        "connection": connection,
        "checks": checks,
        "summary": check_summary(checks),
        "checked_at": connection.last_checked_at,
        "blocked": error,
        "untested": not checks,
    }
    return _page(request, wizard, "test", context)


def _tables(request: HttpRequest, wizard: Wizard) -> HttpResponse:
    error = ""
    if request.method == "POST":
        error = wizard.missing("tables")
        if not error:
            return _next(wizard, "tables")
    return _page(request, wizard, "tables", {"error": error})


def _target(request: HttpRequest, wizard: Wizard) -> HttpResponse:
    kind = _target_kind(request, wizard)
    form = _target_form(kind, request, wizard)
    if request.method == "POST" and form.is_valid() and (decided := _decided(form, kind, wizard)) is not None:
        public, secret = decided
        return _next(wizard, "target", target=public, target_secrets=seal(secret), typed={})
    shown = {"kind": kind} | {name: form[name].value() or "" for name in form.fields}
    context = {"form": form, "kind": FORMS[kind], "kinds": FORMS.values(), "names": _target_names(wizard, shown)}
    return _page(request, wizard, "target", context)


def _target_kind(request: HttpRequest, wizard: Wizard) -> str:
    kind = request.GET.get("kind") or str(wizard.target.get("kind") or DEFAULT_KIND)
    if kind not in FORMS:
        raise Http404
    return kind


def _target_form(kind: str, request: HttpRequest, wizard: Wizard) -> TargetForm | KafkaForm:
    decided = wizard.target if wizard.target.get("kind", DEFAULT_KIND) == kind else {}
    initial = decided | wizard.data.get("typed", {})
    if kind == "kafka":
        return KafkaForm(request.POST or None, initial=initial, stored=bool(wizard.target_secrets))
    return TargetForm(request.POST or None, initial=initial)


def _decided(form: TargetForm | KafkaForm, kind: str, wizard: Wizard) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Settings that work; None where the form says why they do not."""
    given = {"kind": kind} | {name: "" if value is None else value for name, value in form.cleaned_data.items()}
    stored = Stored(wizard.target, wizard.target_secrets)
    try:
        failed = next((one for one in check_target(given, stored) if one.status is Status.FAILED), None)
        if failed is None:
            return checked_target(given, stored)
        form.add_error(None, f"{failed.title}: {failed.detail} {failed.remedy}")
    except ConfigurationError as error:
        form.add_error(None, f"{error.message} {error.remedy}")
    return None


def _target_names(wizard: Wizard, target: Mapping[str, Any]) -> list[tuple[str, str]]:
    selected, namespace = wizard.selected, kind_of(target).namespace
    whole = [(f"{name}.*", f"{namespace(target, name)}.*") for name in sorted(selected.databases)]
    whole += [
        (str(one), f"{namespace(target, one.database)}.{one.table}") for one in selected.patterns if not one.excluded
    ]
    tables = sorted(selected.tables)[: NAMES_SHOWN + 1]
    single = [(str(table), f"{namespace(target, table.database)}.{table.name}") for table in tables]
    return (whole + single)[:NAMES_SHOWN]


def _options(request: HttpRequest, wizard: Wizard) -> HttpResponse:
    name_form = NameForm(request.POST or None, initial={"name": wizard.name})
    form = OptionsForm(request.POST or None, options=wizard.options)
    typed = wizard.data.get("typed_options", {})
    form.initial |= typed
    if request.method == "POST" and all([name_form.is_valid(), form.is_valid()]):
        changes = {"options": form.options.to_dict(), "typed_options": {}}
        return _next(wizard, "options", name=name_form.cleaned_data["name"], **changes)
    return _page(request, wizard, "options", {"name_form": name_form, "form": form})


def _assessment(request: HttpRequest, wizard: Wizard) -> HttpResponse:
    error = ""
    if request.method == "POST":
        error = _assessment_problem(wizard)
        if not error:
            return _next(wizard, "assessment", assessed=wizard.fingerprint)
    return _page(request, wizard, "assessment", {"error": error})


def _assessment_problem(wizard: Wizard) -> str:
    try:
        found = wizard.assess()
    except TidemarkError as problem:
        return f"{problem.message} {problem.remedy}"
    accepted = set(wizard.data.get("accepted", ()))
    if impossible := [str(one.table) for one in found if one.support == "none"]:
        return f"{len(impossible)} of {len(found)} tables cannot be copied, for example {impossible[0]}. Remove these tables."
    if open_ones := [str(one.table) for one in found if one.support == "partial" and str(one.table) not in accepted]:
        return f"{len(open_ones)} of {len(found)} tables {'has' if len(open_ones) == 1 else 'have'} remarks, for example {open_ones[0]}. Accept or remove them."
    return "" if found else "No tables selected. Go back and select some."


def _review(request: HttpRequest, wizard: Wizard) -> HttpResponse:
    error = ""
    if request.method == "POST":
        start = request.POST.get("start") == "yes"
        try:
            replicator = create(wizard, start=start)
        except ConfigurationError as problem:
            error = f"{problem.message} {problem.remedy}"
        else:
            messages.success(request, f"{replicator.name} is created{' and starting' if start else ''}.")
            return redirect("replicators:overview", replicator.pk)
    options = wizard.options
    context = {
        "error": error,
        "options": options,
        "selected": wizard.selected,
        "names": _target_names(wizard, wizard.target),
    }
    return _page(request, wizard, "review", context)


VIEWS: dict[str, Callable[[HttpRequest, Wizard], HttpResponse]] = {
    "source": _source,
    "test": _test,
    "tables": _tables,
    "target": _target,
    "options": _options,
    "assessment": _assessment,
    "review": _review,
}


@login_required
@transaction.atomic
@require_POST
def keep(request: HttpRequest, draft: int, step: str) -> HttpResponse:
    """What is typed in, right or wrong, is kept; checked when the step is left."""
    wizard = open_wizard(user_of(request), draft, lock=True)
    typed: dict[str, Any]
    if step == "target":
        kind = _target_kind(request, wizard)
        plain = [field.name for field in FORMS[kind].form if not field.secret]
        typed = {name: request.POST[name][:MAX_TYPED] for name in plain if name in request.POST}
        wizard.save(step, typed=typed)
        names = _target_names(wizard, typed | {"kind": kind})
        return render(request, "replicators/wizard/target_names.html", {"names": names})
    if step == "options":
        form = OptionsForm(options=wizard.options)
        typed = {name: request.POST[name][:100] for name in form.fields if name in request.POST}
        typed["initial_snapshot"] = "initial_snapshot" in request.POST
        wizard.save(step, name=request.POST.get("name", "").strip()[:100], typed_options=typed)
    return render(request, "replicators/wizard/saved.html", {"draft": wizard.draft})
