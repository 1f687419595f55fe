"""The control plane's own app: its management commands."""

from django.apps import AppConfig


class WebappConfig(AppConfig):
    """Here so that Django finds the management commands."""

    name = "webapp"
    label = "webapp"
