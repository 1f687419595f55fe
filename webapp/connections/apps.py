"""The app as Django knows it."""

from django.apps import AppConfig


class ConnectionsConfig(AppConfig):
    name = "webapp.connections"
    label = "connections"
    default_auto_field = "django.db.models.BigAutoField"
