"""The app as Django knows it."""

from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    name = "webapp.monitoring"
    label = "monitoring"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """What happens to replicators is written down."""
        from webapp.monitoring import services  # noqa: PLC0415 - its models are not there before
        from webapp.replicators import signals  # noqa: PLC0415

        signals.happened.connect(services.on_happened)
        signals.tried_again.connect(services.on_tried_again)
