"""Alerts."""

from __future__ import annotations

from django.urls import path

from webapp.alerts import views

app_name = "alerts"
urlpatterns = [
    path("alerts/", views.index, name="index"),
    path("alerts/rules/<int:pk>/snooze/", views.snooze, name="snooze"),
    path("alerts/channels/", views.channels, name="channels"),
    path("alerts/channels/<int:pk>/", views.channel, name="channel"),
    path("alerts/channels/<int:pk>/delete/", views.delete, name="delete"),
    path("alerts/channels/<int:pk>/test/", views.test, name="test"),
    path("replicators/<int:pk>/alerts/", views.save_rules, name="save_rules"),
    path("replicators/<int:pk>/alerts/quiet/", views.quiet, name="quiet"),
    path("replicators/<int:pk>/alerts/test/", views.test_rules, name="test_rules"),
]
