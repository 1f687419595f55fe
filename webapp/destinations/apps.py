"""The app as Django knows it."""

from django.apps import AppConfig


class DestinationsConfig(AppConfig):
    name = "webapp.destinations"
    label = "destinations"
    default_auto_field = "django.db.models.BigAutoField"
