"""The app as Django knows it."""

from django.apps import AppConfig


class TelemetryConfig(AppConfig):
    name = "webapp.telemetry"
    label = "telemetry"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect receivers here: processes without Celery count failures and deliver lineage, too."""
        from webapp.telemetry import receivers  # noqa: PLC0415 - its models are not there before
        from webapp.worker import signals  # noqa: PLC0415

        signals.failed.connect(receivers.on_failed)
        signals.looked.connect(receivers.on_looked)
