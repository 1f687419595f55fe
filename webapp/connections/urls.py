"""Connections and the setup guides of their sources."""

from __future__ import annotations

from django.urls import path

from webapp.connections import views

app_name = "connections"
urlpatterns = [
    path("connections/", views.index, name="list"),
    path("connections/new/", views.create, name="new"),
    path("connections/test/<slug:kind>/", views.test_unsaved, name="test_unsaved"),
    path("connections/guide/<slug:kind>/", views.setup_guide, name="guide"),
    path("connections/<int:pk>/", views.edit, name="edit"),
    path("connections/<int:pk>/test/", views.test, name="test"),
    path("connections/<int:pk>/delete/", views.delete, name="delete"),
]
