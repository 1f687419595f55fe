"""The app."""

from __future__ import annotations

from django.apps import AppConfig


class StreamsConfig(AppConfig):
    name = "webapp.streams"
    label = "streams"
