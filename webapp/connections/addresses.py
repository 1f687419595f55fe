"""The addresses of the pages of endpoints."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.urls import URLPattern, path
from django.views.decorators.http import require_POST, require_safe

from webapp.connections.pages import EndpointPages


def addresses(pages: EndpointPages) -> list[URLPattern]:
    """Below the section's name."""
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
