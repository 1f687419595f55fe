"""Connections: list, create, change, test, delete; setup guides."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import ConfigurationError, TidemarkError
from replicator.sources.base import CheckResult
from replicator.sources.registry import DEFAULT_KIND, KINDS
from webapp.connections import selectors, services
from webapp.connections.forms import ConnectionForm
from webapp.connections.models import Connection
from webapp.connections.presentation import check_lines, check_summary, guide
from webapp.web.edit_conflicts import TOLD, changed_meanwhile

SECTION = {"section": "connections"}


def known_kind(kind: str | None) -> str:
    """`kind`, or the usual one where none was named; 404 for an unknown one."""
    if not kind:
        return DEFAULT_KIND
    if kind not in KINDS:
        raise Http404
    return kind


@login_required
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Every connection."""
    context = SECTION | {"connections": selectors.list_connections(), "kinds": selectors.kinds()}
    return render(request, "connections/list.html", context)


@login_required
def create(request: HttpRequest) -> HttpResponse:
    """A new connection; it is tested right after it was saved."""
    kind = known_kind(request.GET.get("kind"))
    form = ConnectionForm(request.POST or None, kind=kind)
    if request.method == "POST" and form.is_valid():
        connection = save(request, form)
        if connection is not None:
            messages.success(request, f"Connection {connection.name} saved.")
            return redirect("connections:edit", pk=connection.pk)
    context = SECTION | {"form": form, "kind": KINDS[kind], "kinds": selectors.kinds()}
    return render(request, "connections/edit.html", context)


def save(request: HttpRequest, form: ConnectionForm) -> Connection | None:
    """Create or change; what the service refuses becomes the form's error."""
    user = cast("User", request.user)
    name = form.cleaned_data["name"]
    try:
        if form.connection is None:
            return services.create_connection(name=name, kind=form.kind, config=form.config, user=user)
        return services.update_connection(connection=form.connection, name=name, config=form.config, user=user)
    except ConfigurationError as error:
        form.add_error(None, f"{error.message} {error.remedy}".strip())
        return None


@login_required
def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Change a connection, and see its last test; `next`: the draft that one came from, and goes back to."""
    connection = get_object_or_404(Connection, pk=pk)
    back = request.GET.get("next", "")
    back = back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) else ""
    form = ConnectionForm(request.POST or None, kind=connection.kind, connection=connection)
    stored = [connection.name, connection.config, connection.secrets]
    if changed_meanwhile(request, stored):
        form.add_error(None, TOLD)
    elif request.method == "POST" and form.is_valid() and save(request, form) is not None:
        messages.success(request, "Saved. Running replicators use the new settings within a minute.")
        return redirect(back) if back else redirect("connections:edit", pk=pk)
    connection.refresh_from_db()
    checks = check_lines(connection.last_check)
    context = SECTION | {
        "form": form,
        "connection": connection,
        "kind": KINDS[connection.kind],
        "checks": checks,
        "summary": check_summary(checks),
        "checked_at": connection.last_checked_at,
        "used_by": list(connection.replicators.all()),
        "back": back,
        "stored": stored,
    }
    return render(request, "connections/edit.html", context)


@login_required
@require_POST
def test(request: HttpRequest, pk: int) -> HttpResponse:
    """Test a stored connection; with a form in the request, as it would be after saving."""
    connection = get_object_or_404(Connection, pk=pk)
    config = {}
    if "name" in request.POST:
        form = ConnectionForm(request.POST, kind=connection.kind, connection=connection)
        if not form.is_valid():
            return _incomplete(request, form)
        config = form.config
    return _run_test(request, kind=connection.kind, config=config, connection=connection)


@login_required
@require_POST
def test_unsaved(request: HttpRequest, kind: str) -> HttpResponse:
    """Test what is typed in, before it is saved; the name does not matter yet."""
    data = request.POST.copy()
    data["name"] = "\N{NO-BREAK SPACE}untested"
    form = ConnectionForm(data, kind=known_kind(kind))
    if not form.is_valid():
        return _incomplete(request, form)
    return _run_test(request, kind=form.kind, config=form.config, connection=None)


def _incomplete(request: HttpRequest, form: ConnectionForm) -> HttpResponse:
    problems = " ".join(str(error) for errors in form.errors.values() for error in errors)
    error = ConfigurationError(f"The form is not complete: {problems}", remedy="Correct the settings, then test again.")
    return render(request, "parts/check_results.html", {"error": error})


def _run_test(
    request: HttpRequest, *, kind: str, config: dict[str, object], connection: Connection | None
) -> HttpResponse:
    try:
        results: list[CheckResult] = services.test_connection(kind=kind, config=config, connection=connection)
    except TidemarkError as error:
        return render(request, "parts/check_results.html", {"error": error})
    lines = check_lines(results)
    return render(request, "parts/check_results.html", {"checks": lines, "summary": check_summary(lines)})


@login_required
@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Refused with a sentence while a replicator uses it."""
    connection = get_object_or_404(Connection, pk=pk)
    try:
        services.delete_connection(connection=connection, user=cast("User", request.user))
    except ConfigurationError as error:
        messages.error(request, f"{error.message} {error.remedy}")
        return redirect("connections:edit", pk=pk)
    messages.success(request, f"Connection {connection.name} deleted.")
    return redirect("connections:list")


@login_required
@require_safe
def setup_guide(request: HttpRequest, kind: str) -> HttpResponse:
    """How to prepare a server of this kind."""
    title, html = guide(known_kind(kind))
    return render(request, "connections/guide.html", SECTION | {"title": title, "html": html})
