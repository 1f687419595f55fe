"""Streams."""

from __future__ import annotations

from django.urls import path

from webapp.streams import views

app_name = "streams"
urlpatterns = [
    path("streams/", views.index, name="index"),
    path("streams/<slug:name>/enable/", views.enable, name="enable"),
    path("streams/<slug:name>/disable/", views.disable, name="disable"),
    path("streams/<slug:name>/delete/", views.delete, name="delete"),
]
