"""The fleet page."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.connections import selectors as connections
from webapp.console.presenters.fleet import fleet
from webapp.replicators import selectors


@login_required
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Every replicator, the ones in trouble first, and the user's drafts."""
    context = {
        "fleet": fleet(request.GET, reverse("replicators:fleet_rows")),
        "drafts": list(selectors.drafts_of(request.user)),
        "connections": connections.list_connections().exists(),
        "kinds": connections.kinds(),
        "section": "replicators",
    }
    return render(request, "replicators/fleet.html", context)


@login_required
@require_safe
def rows(request: HttpRequest) -> HttpResponse:
    """The live part of the fleet page; 304 where it would be the same again."""
    found = fleet(request.GET, reverse("replicators:fleet_rows"))
    return render(request, "replicators/fleet_rows.html", {"fleet": found})
