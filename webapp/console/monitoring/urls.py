"""Charts, failures and logs, and the objectives of tables."""

from __future__ import annotations

from django.urls import path

from webapp.console.monitoring import charts_and_logs
from webapp.console.monitoring import dead_letters as dead_letter_views
from webapp.console.monitoring import failures as failure_views

app_name = "monitoring"
# Deprecated: addresses that were released, by the names of the present ones, which come later and are the ones made.
OLD = [
    path("replicators/<int:pk>/parked/", dead_letter_views.of_replicator, name="dead_letters"),
    path("replicators/<int:pk>/parked/<int:row>/bytes/", dead_letter_views.download, name="dead_letter_bytes"),
    path("replicators/<int:pk>/parked/<int:row>/<slug:action>/", dead_letter_views.act, name="act_on_dead_letter"),
    path("replicators/<int:pk>/promises/", charts_and_logs.objective, name="objective"),
]
urlpatterns = [
    *OLD,
    path("failures/", failure_views.of_fleet, name="all_failures"),
    path("replicators/<int:pk>/failures/", failure_views.of_replicator, name="failures"),
    path("replicators/<int:pk>/dead-letters/", dead_letter_views.of_replicator, name="dead_letters"),
    path("replicators/<int:pk>/dead-letters/<int:row>/bytes/", dead_letter_views.download, name="dead_letter_bytes"),
    path(
        "replicators/<int:pk>/dead-letters/<int:row>/<slug:action>/", dead_letter_views.act, name="act_on_dead_letter"
    ),
    path("replicators/<int:pk>/charts/", charts_and_logs.charts, name="charts"),
    path("replicators/<int:pk>/logs/", charts_and_logs.logs, name="logs"),
    path("replicators/<int:pk>/logs/download/", charts_and_logs.download, name="download"),
    path("replicators/<int:pk>/objectives/", charts_and_logs.objective, name="objective"),
]
