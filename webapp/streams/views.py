"""The page of all streams."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from webapp.streams import selectors, services
from webapp.streams.forms import StreamForm
from webapp.web.responses import done, is_htmx, user_of

SHOWN = 200


@login_required
def index(request: HttpRequest) -> HttpResponse:
    """List, and make a new one."""
    if is_htmx(request):
        return render(request, "streams/index_live.html", _context())
    form = StreamForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and (made := form.save(user_of(request))):
        messages.success(request, f"Stream {made} created. Clients read it with an API token.")
        return redirect("streams:index")
    return render(request, "streams/index.html", _context() | {"form": form})


def _context() -> dict[str, Any]:
    found = list(selectors.streams()[:SHOWN])
    lags = selectors.group_lags(found)
    lines = [(stream, lags.get(stream.pk, []), *selectors.tables_named(stream)) for stream in found]
    return {"lines": lines, "section": "streams", "any_replicator": selectors.replicators().exists()}


@login_required
@require_POST
def enable(request: HttpRequest, name: str) -> HttpResponse:
    """It gives changes again."""
    stream = get_object_or_404(selectors.streams(), name=name)
    services.set_enabled(stream=stream, enabled=True, user=user_of(request))
    return done(request, f"Stream {stream} enabled.", to=reverse("streams:index"))


@login_required
@require_POST
def disable(request: HttpRequest, name: str) -> HttpResponse:
    """It gives nothing, and nothing is kept for it."""
    stream = get_object_or_404(selectors.streams(), name=name)
    services.set_enabled(stream=stream, enabled=False, user=user_of(request))
    return done(request, f"Stream {stream} disabled. Its changes are no longer retained.", to=reverse("streams:index"))


@login_required
@require_POST
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """With its groups."""
    stream = get_object_or_404(selectors.streams(), name=name)
    services.delete_stream(stream=stream, user=user_of(request))
    messages.success(request, f"Stream {name} deleted.")
    return redirect("streams:index")
