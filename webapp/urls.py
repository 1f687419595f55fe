"""Every app brings its own urls; those that do not exist yet are left out."""

from __future__ import annotations

from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

from webapp.telemetry import probes

# (prefix, module): pages first, then the API.
MODULES = (
    ("", "webapp.accounts.urls"),
    ("", "webapp.console.urls"),
    ("", "webapp.connections.urls"),
    ("", "webapp.destinations.urls"),
    ("", "webapp.console.monitoring.urls"),
    ("", "webapp.alerts.urls"),
    ("", "webapp.streams.urls"),
    ("api/", "webapp.console.api.urls"),
)


urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", probes.healthz, name="healthz"),
    path("readyz", probes.readyz, name="readyz"),
    path("metrics", probes.metrics, name="metrics"),
]
urlpatterns += [path(prefix, include(module)) for prefix, module in MODULES if find_spec(module)]
