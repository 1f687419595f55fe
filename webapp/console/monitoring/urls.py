"""Charts, failures and logs, and the promises of tables."""

from __future__ import annotations

from django.urls import path

from webapp.console.monitoring import charts_and_logs
from webapp.console.monitoring import dead_letters as dead_letter_views
from webapp.console.monitoring import failures as failure_views

app_name = "monitoring"
urlpatterns = [
    path("failures/", failure_views.of_fleet, name="all_failures"),
    path("replicators/<int:pk>/failures/", failure_views.of_replicator, name="failures"),
    path("replicators/<int:pk>/parked/", dead_letter_views.of_replicator, name="parked"),
    path("replicators/<int:pk>/parked/<int:row>/bytes/", dead_letter_views.download, name="parked_bytes"),
    path("replicators/<int:pk>/parked/<int:row>/<slug:action>/", dead_letter_views.act, name="act_on_parked"),
    path("replicators/<int:pk>/charts/", charts_and_logs.charts, name="charts"),
    path("replicators/<int:pk>/logs/", charts_and_logs.logs, name="logs"),
    path("replicators/<int:pk>/logs/download/", charts_and_logs.download, name="download"),
    path("replicators/<int:pk>/promises/", charts_and_logs.promise, name="promise"),
]
