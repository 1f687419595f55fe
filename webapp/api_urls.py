"""/api/v1/ (resources), /api/schema/ (OpenAPI), /api/docs/ (its page)."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.routers import SimpleRouter

from webapp.accounts.api import MeViewSet, TokenViewSet
from webapp.api_base import NothingHere
from webapp.connections.api import ConnectionViewSet, KindViewSet
from webapp.monitoring.api import FailureViewSet, LogViewSet, MetricsViewSet, TimelineViewSet
from webapp.replicators.api import ReplicatorViewSet
from webapp.replicators.table_api import TableViewSet

router = SimpleRouter()
router.register("tokens", TokenViewSet, basename="api-token")
router.register("source-kinds", KindViewSet, basename="api-kind")
router.register("connections", ConnectionViewSet, basename="api-connection")
router.register("replicators", ReplicatorViewSet, basename="api-replicator")
router.register(r"replicators/(?P<replicator>\d+)/tables", TableViewSet, basename="api-table")

BELOW = "replicators/<int:replicator>/"
v1: list[URLPattern | URLResolver] = [
    path("me/", MeViewSet.as_view({"get": "retrieve"}), name="api-me"),
    path(f"{BELOW}failures/", FailureViewSet.as_view({"get": "list"}), name="api-failures"),
    path(f"{BELOW}failures/counts/", FailureViewSet.as_view({"get": "counts"}), name="api-failure-counts"),
    path(f"{BELOW}logs/", LogViewSet.as_view({"get": "list"}), name="api-logs"),
    path(f"{BELOW}logs/download/", LogViewSet.as_view({"get": "download"}), name="api-logs-download"),
    path(f"{BELOW}timeline/", TimelineViewSet.as_view({"get": "list"}), name="api-timeline"),
    path(f"{BELOW}metrics/", MetricsViewSet.as_view({"get": "list"}), name="api-metrics"),
    path(f"{BELOW}slo/", MetricsViewSet.as_view({"get": "slo"}), name="api-slo"),
    *router.urls,
    re_path(r"^.*$", NothingHere.as_view()),
]
urlpatterns: list[URLPattern | URLResolver] = [
    path("v1/", include(v1)),
    path("schema/", SpectacularAPIView.as_view(), name="api-schema"),
    path("docs/", SpectacularSwaggerView.as_view(url_name="api-schema"), name="api-docs"),
]
