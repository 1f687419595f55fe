"""The app as Django knows it."""

from django.apps import AppConfig


class ReplicatorsConfig(AppConfig):
    name = "webapp.replicators"
    label = "replicators"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """What happens to a connection is its replicators' business."""
        from webapp.connections import signals  # noqa: PLC0415
        from webapp.destinations import signals as destinations  # noqa: PLC0415
        from webapp.replicators import receivers  # noqa: PLC0415 - its models are not there before

        signals.changed.connect(receivers.on_connection_changed)
        signals.works.connect(receivers.on_connection_works)
        signals.tables_asked.connect(receivers.on_tables_asked)
        destinations.changed.connect(receivers.on_destination_changed)
        destinations.works.connect(receivers.on_destination_works)
