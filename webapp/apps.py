"""The control plane's own app: its management commands."""

from django.apps import AppConfig

from replicator.faults import arm_from_environment


class WebappConfig(AppConfig):
    """Here so that Django finds the management commands."""

    name = "webapp"
    label = "webapp"

    def ready(self) -> None:
        """The one place that arms faults, and only where the environment asks for it."""
        arm_from_environment()
