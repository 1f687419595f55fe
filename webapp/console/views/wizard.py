"""The wizard's steps, one page each; the draft keeps what was decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from replicator.errors import ConfigurationError, TidemarkError
from replicator.model.identifiers import TableId, TablePattern
from replicator.model.routing import Routing
from replicator.sources.registry import KINDS
from replicator.targets.base import TargetTable
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import TargetKind
from replicator.targets.registry import target_kind
from webapp.connections import selectors as connections
from webapp.connections.forms import PREFIX, ConnectionForm, SettingsForm
from webapp.connections.presentation import check_lines, check_summary
from webapp.connections.selectors import full_config
from webapp.connections.views import known_kind
from webapp.connections.views import save as save_connection
from webapp.console.presenters.forms import NameForm, OptionsForm
from webapp.console.views.wizard_draft import STEPS, TITLES, Wizard, create, open_wizard
from webapp.destinations import selectors as destinations
from webapp.destinations.forms import DestinationForm
from webapp.destinations.models import Destination
from webapp.destinations.services import built_in, refuse_failed
from webapp.destinations.views import PAGES as DESTINATION_PAGES
from webapp.replicators import services
from webapp.replicators.selection.entries import WILD
from webapp.replicators.targets import check_target, checked_settings
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
    given = request.GET.get("destination", "")
    asked = {"destination": int(given)} if given.isdecimal() and Destination.objects.filter(pk=given).exists() else {}
    form = ConnectionForm(kind=kind)
    error = ""
    if request.method == "POST" and request.POST.get("connection", "new") == "new":
        form = ConnectionForm(request.POST, kind=kind)
        if form.is_valid() and (made := save_connection(request, form)) is not None:
            return _next(wizard, "source", connection=made.pk, **asked)
    elif request.method == "POST":
        chosen = next((c for c in found if str(c.pk) == request.POST["connection"]), None)
        if chosen is not None:
            other: dict[str, object] = (
                {} if wizard.data.get("connection") == chosen.pk else {"selection": {}, "accepted": []}
            )
            return _next(wizard, "source", connection=chosen.pk, **other, **asked)
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
    chosen, kind = _chosen(request, wizard)
    typed = wizard.data.get("typed", {})
    place = chosen or DestinationForm(request.POST or None, kind=kind.name, initial=typed)
    form = place if isinstance(place, DestinationForm) else None
    same = chosen is not None and chosen == wizard.destination
    own = SettingsForm(request.POST or None, settings=kind.form, initial=(wizard.target if same else {}) | typed)
    valid = request.method == "POST" and [one.is_valid() for one in (form, own) if one is not None]
    if valid and all(valid):
        made = _decided(request, place, own)
        if made is not None:
            return _next(wizard, "target", destination=made[0].pk, target=made[1], typed={})
    context = {
        "form": form,
        "own": own,
        "chosen": chosen,
        "kind": kind,
        "destinations": destinations.list_destinations(),
        "kinds": [one for one in destinations.kinds() if one.destination_form],
        "names": _target_names(wizard, kind, {name: own[name].value() or "" for name in own.fields}),
    }
    return _page(request, wizard, "target", context)


def _chosen(request: HttpRequest, wizard: Wizard) -> tuple[Destination | None, TargetKind]:
    """A destination and its kind, or None and the kind of a new one; 404 for what does not exist."""
    named, kind = request.GET.get("destination", ""), request.GET.get("kind", "")
    if kind or named == "new":
        return None, target_kind(DESTINATION_PAGES.known_kind(kind))
    if named and not named.isdecimal():
        raise Http404
    found = get_object_or_404(Destination, pk=named) if named else wizard.destination or built_in()
    return found, found.plugin


def _decided(
    request: HttpRequest, place: Destination | DestinationForm, own: SettingsForm
) -> tuple[Destination, dict[str, Any]] | None:
    """The destination, made where it is new, and the replicator's settings, which work; None where a form says why they
    do not.
    """
    form = place if isinstance(place, DestinationForm) else None
    try:
        reach = full_config(place) if isinstance(place, Destination) else place.config
        refuse_failed(check_target({"kind": place.kind, **reach, **own.config}))
        made = place if isinstance(place, Destination) else DESTINATION_PAGES.save(request, place)
        return None if made is None else (made, checked_settings(made, own.config))
    except TidemarkError as error:
        (form or own).add_error(None, f"{error.message} {error.remedy}")
        return None


def _target_names(wizard: Wizard, kind: TargetKind, settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names in the source and in the target; empty while the routing rules make no sense."""
    try:
        routing = Routing.of(settings)
    except ConfigurationError:
        return []
    selected = wizard.selected
    wide = [TablePattern(database, "*") for database in sorted(selected.databases)]
    wide += [TablePattern(one.database, one.table) for one in selected.patterns if not one.excluded]
    tables: list[TableId] = []
    for pattern in wide:
        tables += [table for table in routing.patterns(pattern.database) if pattern.matches(table)]
        tables.append(TableId(pattern.database, pattern.pattern))
    tables += sorted(selected.tables)[:NAMES_SHOWN]
    return [(str(table), _shown_name(kind, settings, table)) for table in list(dict.fromkeys(tables))[:NAMES_SHOWN]]


def _shown_name(kind: TargetKind, settings: Mapping[str, Any], table: TableId) -> str:
    """Of a table, or of a pattern, in which stars stay."""
    if not set(table.name) & set(WILD):
        return str(TargetTable(*kind.table_name(settings, table)))
    place = TargetTable(*replace(kind, identifiers=IdentifierPolicy()).table_name(settings, table))
    if set(place.namespace) & set(WILD):
        return str(place)
    return str(replace(place, namespace=kind.identifiers.legal(place.namespace)))


def _options_form(wizard: Wizard, data: QueryDict | None = None) -> OptionsForm:
    values = wizard.source.value_options
    return OptionsForm(data, options=wizard.options, values_of=values, modes=wizard.kind.capabilities.modes)


def _options(request: HttpRequest, wizard: Wizard) -> HttpResponse:
    name_form = NameForm(request.POST or None, initial={"name": wizard.name})
    form = _options_form(wizard, request.POST or None)
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
        found = wizard.assess().tables
    except TidemarkError as problem:
        return f"{problem.message} {problem.remedy}"
    accepted = set(wizard.data.get("accepted", ()))
    if impossible := [str(one.table) for one in found if one.support == "none"]:
        return (
            f"{len(impossible)} of {len(found)} tables cannot be copied, for example {impossible[0]}. Remove these"
            " tables."
        )
    if open_ones := [str(one.table) for one in found if one.support == "partial" and str(one.table) not in accepted]:
        return (
            f"{len(open_ones)} of {len(found)} tables {'has' if len(open_ones) == 1 else 'have'} remarks, for example"
            f" {open_ones[0]}. Accept or remove them."
        )
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
        "values": [
            (one.label, dict(one.choices).get(getattr(options, one.name))) for one in wizard.source.value_options
        ],
        "selected": wizard.selected,
        "names": _target_names(wizard, wizard.kind, wizard.target) if wizard.destination else [],
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
        _, kind = _chosen(request, wizard)
        plain = ["name", *(PREFIX + one.name for one in kind.destination_form if not one.secret)]
        plain += [one.name for one in kind.form]
        typed = {name: request.POST[name][:MAX_TYPED] for name in plain if name in request.POST}
        wizard.save(step, typed=typed)
        names = _target_names(wizard, kind, typed)
        return render(request, "replicators/wizard/target_names.html", {"names": names})
    if step == "options":
        form = _options_form(wizard)
        typed = {name: request.POST[name][:100] for name in form.fields if name in request.POST}
        typed["initial_snapshot"] = "initial_snapshot" in request.POST
        wizard.save(step, name=request.POST.get("name", "").strip()[:100], typed_options=typed)
    return render(request, "replicators/wizard/saved.html", {"draft": wizard.draft})
