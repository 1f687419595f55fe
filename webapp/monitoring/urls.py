"""Charts, failures and logs, and the promises of tables."""

from __future__ import annotations

from django.urls import path

from webapp.monitoring import views
from webapp.monitoring.dead_letters import views as dead_letter_views
from webapp.monitoring.failures import views as failure_views

app_name = "monitoring"
urlpatterns = [
    path("failures/", failure_views.of_fleet, name="all_failures"),
    path("replicators/<int:pk>/failures/", failure_views.of_replicator, name="failures"),
    path("replicators/<int:pk>/parked/", dead_letter_views.of_replicator, name="parked"),
    path("replicators/<int:pk>/parked/<int:row>/bytes/", dead_letter_views.download, name="parked_bytes"),
    path("replicators/<int:pk>/parked/<int:row>/<slug:action>/", dead_letter_views.act, name="act_on_parked"),
    path("replicators/<int:pk>/charts/", views.charts, name="charts"),
    path("replicators/<int:pk>/logs/", views.logs, name="logs"),
    path("replicators/<int:pk>/logs/download/", views.download, name="download"),
    path("replicators/<int:pk>/promises/", views.promise, name="promise"),
]
