"""Every app brings its own urls; those that do not exist yet are left out."""

from __future__ import annotations

from importlib.util import find_spec

from django.http import HttpRequest, JsonResponse
from django.urls import URLPattern, URLResolver, include, path

# (prefix, module): pages first, then the API.
MODULES = (
    ("", "webapp.accounts.urls"),
    ("", "webapp.replicators.urls"),
    ("", "webapp.connections.urls"),
    ("", "webapp.monitoring.urls"),
    ("api/", "webapp.api_urls"),
)


def healthz(request: HttpRequest) -> JsonResponse:
    """For load balancers and `up`: answers without a database."""
    del request
    return JsonResponse({"status": "ok"})


urlpatterns: list[URLPattern | URLResolver] = [path("healthz", healthz, name="healthz")]
urlpatterns += [path(prefix, include(module)) for prefix, module in MODULES if find_spec(module)]
