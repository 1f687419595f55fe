"""The worker app."""

from django.apps import AppConfig


class WorkerConfig(AppConfig):
    name = "webapp.worker"
    label = "worker"
    default_auto_field = "django.db.models.BigAutoField"
