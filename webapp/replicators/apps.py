"""The app as Django knows it."""

from django.apps import AppConfig


class ReplicatorsConfig(AppConfig):
    name = "webapp.replicators"
    label = "replicators"
    default_auto_field = "django.db.models.BigAutoField"
