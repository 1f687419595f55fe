"""The pages of endpoints: list, create, change, test, delete; setup guides.

The same for connections and destinations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import ConfigurationError, TidemarkError
from webapp.connections.endpoints import Endpoints
from webapp.connections.forms import EndpointForm
from webapp.connections.models import Endpoint
from webapp.connections.presentation import check_lines, check_summary, guide
from webapp.web.edit_conflicts import TOLD, changed_meanwhile


@dataclass(frozen=True)
class Words:
    """What the pages say of them.

    about: what they are for; empty: where there is none yet; unused: where no replicator uses it;
    kind: what a kind is one of; deletion: what goes with it; use: the button that makes a replicator with it.
    """

    one: str
    many: str
    about: str
    empty: str
    unused: str
    kind: str
    deletion: str
    use: str


@dataclass(frozen=True)
class EndpointPages:
    """usual: the kind of a new one where none is named; makes: can one of the kind be made?

    section: the namespace of the addresses, and of the top bar.
    """

    section: str
    words: Words
    services: Endpoints[Any]
    form: type[EndpointForm]
    kinds: Callable[[], Mapping[str, Any]]
    listed: Callable[[], Any]
    usual: str
    makes: Callable[[Any], bool] = lambda _: True

    @property
    def context(self) -> dict[str, Any]:
        """Of every page."""
        new = [one for one in self.kinds().values() if self.makes(one)]
        return {"section": self.section, "words": self.words, "kinds": new}

    def known_kind(self, kind: str | None) -> str:
        """`kind`, or the usual one where none was named; 404 for an unknown one."""
        if not kind:
            return self.usual
        if kind not in self.kinds():
            raise Http404
        return kind

    def _get(self, pk: int) -> Any:
        return get_object_or_404(self.services.model, pk=pk)

    def index(self, request: HttpRequest) -> HttpResponse:
        """Every one of them."""
        return render(request, "endpoints/list.html", self.context | {"endpoints": self.listed()})

    def create(self, request: HttpRequest) -> HttpResponse:
        """A new one."""
        kind = self.known_kind(request.GET.get("kind"))
        form = self.form(request.POST or None, kind=kind)
        if request.method == "POST" and form.is_valid() and (made := self.save(request, form)) is not None:
            messages.success(request, f"{self.words.one} {made.name} saved.")
            return redirect(f"{self.section}:edit", pk=made.pk)
        return render(request, "endpoints/edit.html", self.context | {"form": form, "kind": self.kinds()[kind]})

    def save(self, request: HttpRequest, form: EndpointForm) -> Any:
        """Create or change; what the service refuses becomes the form's error, and None."""
        user = cast("User", request.user)
        name = form.cleaned_data["name"]
        try:
            if form.endpoint is None:
                return self.services.create(name=name, kind=form.kind, config=form.config, user=user)
            self.services.try_out(form.endpoint, form.config)
            return self.services.update(form.endpoint, name=name, config=form.config, user=user)
        except TidemarkError as error:
            form.add_error(None, f"{error.message} {error.remedy}".strip())
            return None

    def edit(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Change one, and see its last test; `next`: the draft that one came from, and goes back to."""
        endpoint = self._get(pk)
        back = request.GET.get("next", "")
        back = back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) else ""
        form = self.form(request.POST or None, kind=endpoint.kind, endpoint=endpoint)
        stored = [endpoint.name, endpoint.config, endpoint.secrets]
        if changed_meanwhile(request, stored):
            form.add_error(None, TOLD)
        elif request.method == "POST" and form.is_valid() and self.save(request, form) is not None:
            messages.success(request, "Saved. Running replicators use the new settings within a minute.")
            return redirect(back) if back else redirect(f"{self.section}:edit", pk=pk)
        endpoint.refresh_from_db()
        checks = check_lines(endpoint.last_check)
        context = self.context | {
            "form": form,
            "endpoint": endpoint,
            "kind": self.kinds()[endpoint.kind],
            "checks": checks,
            "summary": check_summary(checks),
            "checked_at": endpoint.last_checked_at,
            "used_by": list(endpoint.replicators.all()),
            "back": back,
            "stored": stored,
        }
        return render(request, "endpoints/edit.html", context)

    def test(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Test a stored one; with a form in the request, as it would be after saving."""
        endpoint = self._get(pk)
        config = {}
        if "name" in request.POST:
            form = self.form(request.POST, kind=endpoint.kind, endpoint=endpoint)
            if not form.is_valid():
                return _incomplete(request, form)
            config = form.config
        return self._run_test(request, kind=endpoint.kind, config=config, endpoint=endpoint)

    def test_unsaved(self, request: HttpRequest, kind: str) -> HttpResponse:
        """Test what is typed in, before it is saved; the name does not matter yet."""
        data = request.POST.copy()
        data["name"] = "\N{NO-BREAK SPACE}untested"
        form = self.form(data, kind=self.known_kind(kind))
        if not form.is_valid():
            return _incomplete(request, form)
        return self._run_test(request, kind=form.kind, config=form.config, endpoint=None)

    def _run_test(
        self, request: HttpRequest, *, kind: str, config: dict[str, object], endpoint: Endpoint | None
    ) -> HttpResponse:
        context: dict[str, Any] = {"listed": endpoint if "listed" in request.POST else None}
        try:
            lines = check_lines(self.services.test(kind=kind, config=config, endpoint=endpoint))
            context |= {"checks": lines, "summary": check_summary(lines)}
        except TidemarkError as error:
            context["error"] = error
        return render(request, "parts/check_results.html", context)

    def delete(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Refused with a sentence while a replicator uses it."""
        endpoint = self._get(pk)
        try:
            self.services.delete(endpoint, user=cast("User", request.user))
        except ConfigurationError as error:
            messages.error(request, f"{error.message} {error.remedy}")
            return redirect(f"{self.section}:edit", pk=pk)
        messages.success(request, f"{self.words.one} {endpoint.name} deleted.")
        return redirect(f"{self.section}:list")

    def setup_guide(self, request: HttpRequest, kind: str) -> HttpResponse:
        """How to prepare a server of this kind."""
        found = self.kinds()[self.known_kind(kind)]
        return render(
            request, "endpoints/guide.html", self.context | {"title": found.title, "html": guide(found.guide)}
        )


def _incomplete(request: HttpRequest, form: EndpointForm) -> HttpResponse:
    problems = " ".join(str(error) for errors in form.errors.values() for error in errors)
    error = ConfigurationError(f"The form is not complete: {problems}", remedy="Correct the settings, then test again.")
    return render(request, "parts/check_results.html", {"error": error})


def addresses(pages: EndpointPages) -> list[URLPattern]:
    """Of the pages, below the section's name."""
    at = pages.section
    return [
        path(f"{at}/", login_required(require_safe(pages.index)), name="list"),
        path(f"{at}/new/", login_required(pages.create), name="new"),
        path(f"{at}/test/<slug:kind>/", login_required(require_POST(pages.test_unsaved)), name="test_unsaved"),
        path(f"{at}/guide/<slug:kind>/", login_required(require_safe(pages.setup_guide)), name="guide"),
        path(f"{at}/<int:pk>/", login_required(pages.edit), name="edit"),
        path(f"{at}/<int:pk>/test/", login_required(require_POST(pages.test)), name="test"),
        path(f"{at}/<int:pk>/delete/", login_required(require_POST(pages.delete)), name="delete"),
    ]
