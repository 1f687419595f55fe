"""The logs of a replicator."""

from __future__ import annotations

from django.urls import path

from webapp.monitoring import views

app_name = "monitoring"
urlpatterns = [
    path("replicators/<int:pk>/logs/", views.logs, name="logs"),
    path("replicators/<int:pk>/logs/download/", views.download, name="download"),
]
