"""/api/v1/ (resources), /api/schema/ (OpenAPI), /api/docs/ (its page)."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.routers import SimpleRouter

from webapp.accounts.api import AuditViewSet, MeViewSet, TokenViewSet, UserViewSet
from webapp.alerts.api import AlertViewSet, ChannelViewSet, RuleViewSet
from webapp.api.base import NothingHere
from webapp.connections.api import ConnectionViewSet, KindViewSet
from webapp.console.api.replicators import ReplicatorViewSet
from webapp.console.api.tables import TableViewSet
from webapp.console.definitions.api import DefinitionsViewSet
from webapp.console.monitoring.api import (
    FailureViewSet,
    FleetFailureViewSet,
    LogViewSet,
    MetricsViewSet,
    TableObjectiveViewSet,
    TimelineViewSet,
)
from webapp.console.monitoring.dead_letters_api import DeadLetterRowViewSet, ParkedRowViewSet
from webapp.destinations.api import DestinationKindViewSet, DestinationViewSet
from webapp.streams.api import GroupViewSet, StreamViewSet

router = SimpleRouter()
router.register("tokens", TokenViewSet, basename="api-token")
router.register("users", UserViewSet, basename="api-user")
router.register("audit", AuditViewSet, basename="api-audit")
router.register("source-kinds", KindViewSet, basename="api-kind")
router.register("connections", ConnectionViewSet, basename="api-connection")
router.register("destination-kinds", DestinationKindViewSet, basename="api-destination-kind")
router.register("destinations", DestinationViewSet, basename="api-destination")
router.register("alert-channels", ChannelViewSet, basename="api-alert-channel")
router.register("alerts", AlertViewSet, basename="api-alert")
router.register("definitions", DefinitionsViewSet, basename="api-definitions")
router.register("replicators", ReplicatorViewSet, basename="api-replicator")
router.register(r"replicators/(?P<replicator>\d+)/tables", TableViewSet, basename="api-table")
router.register(
    r"replicators/(?P<replicator>\d+)/dead-letter-rows", DeadLetterRowViewSet, basename="api-dead-letter-row"
)
router.register("streams", StreamViewSet, basename="api-stream")

# Deprecated: addresses that were released, by the names of the present ones, which come later and are the ones made.
old = SimpleRouter()
old.register(r"replicators/(?P<replicator>\d+)/parked-rows", ParkedRowViewSet, basename="api-dead-letter-row")

BELOW = "replicators/<int:replicator>/"
GROUP = "streams/<slug:name>/groups/<slug:group>/"
v1: list[URLPattern | URLResolver] = [
    path("me/", MeViewSet.as_view({"get": "retrieve"}), name="api-me"),
    path("failures/", FleetFailureViewSet.as_view({"get": "list"}), name="api-all-failures"),
    path("failures/counts/", FleetFailureViewSet.as_view({"get": "counts"}), name="api-all-failure-counts"),
    path(f"{BELOW}failures/", FailureViewSet.as_view({"get": "list"}), name="api-failures"),
    path(f"{BELOW}failures/counts/", FailureViewSet.as_view({"get": "counts"}), name="api-failure-counts"),
    path(f"{BELOW}logs/", LogViewSet.as_view({"get": "list"}), name="api-logs"),
    path(f"{BELOW}logs/download/", LogViewSet.as_view({"get": "download"}), name="api-logs-download"),
    path(f"{BELOW}timeline/", TimelineViewSet.as_view({"get": "list"}), name="api-timeline"),
    path(f"{BELOW}metrics/", MetricsViewSet.as_view({"get": "list"}), name="api-metrics"),
    path(f"{BELOW}charts/", MetricsViewSet.as_view({"get": "charts"}), name="api-charts"),
    path(f"{BELOW}slo/tables/", TableObjectiveViewSet.as_view({"get": "list"}), name="api-table-objectives"),
    path(
        f"{BELOW}slo/tables/<int:table>/",
        TableObjectiveViewSet.as_view({"put": "update", "delete": "destroy"}),
        name="api-table-objective",
    ),
    path(f"{BELOW}slo/", MetricsViewSet.as_view({"get": "slo"}), name="api-slo"),
    path(f"{BELOW}alert-rules/", RuleViewSet.as_view({"get": "list"}), name="api-alert-rules"),
    path(f"{BELOW}alert-rules/snooze/", RuleViewSet.as_view({"post": "snooze"}), name="api-alert-rules-snooze"),
    path(f"{BELOW}alert-rules/test/", RuleViewSet.as_view({"post": "test"}), name="api-alert-rules-test"),
    path(f"{BELOW}alert-rules/<slug:kind>/", RuleViewSet.as_view({"patch": "partial_update"}), name="api-alert-rule"),
    path(GROUP, GroupViewSet.as_view({"delete": "destroy"}), name="api-stream-group"),
    path(f"{GROUP}join/", GroupViewSet.as_view({"post": "join"}), name="api-stream-group-join"),
    path(f"{GROUP}heartbeat/", GroupViewSet.as_view({"post": "heartbeat"}), name="api-stream-group-heartbeat"),
    path(f"{GROUP}leave/", GroupViewSet.as_view({"post": "leave"}), name="api-stream-group-leave"),
    *old.urls,
    *router.urls,
    re_path(r"^.*$", NothingHere.as_view()),
]
urlpatterns: list[URLPattern | URLResolver] = [
    path("v1/", include(v1)),
    path("schema/", SpectacularAPIView.as_view(), name="api-schema"),
    path("docs/", SpectacularSwaggerView.as_view(url_name="api-schema"), name="api-docs"),
]
