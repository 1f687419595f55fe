"""The app as Django knows it."""

from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "webapp.monitoring"
    label = "monitoring"
    default_auto_field = "django.db.models.BigAutoField"
