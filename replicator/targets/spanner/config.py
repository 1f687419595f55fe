"""A destination's settings: which database, as whom, and where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from replicator.errors import ConfigurationError
from replicator.sources.base import FormField
from replicator.sources.shared.settings import CONNECT_SECONDS, CONNECT_TIMEOUT, number, text
from replicator.targets.google_login import LOGIN_FORM, check_login, checked_endpoint, checked_project

HOST = "spanner.googleapis.com"
_INSTANCE = re.compile(r"[a-z][a-z0-9-]{0,62}[a-z0-9]")
_DATABASE = re.compile(r"[a-z][a-z0-9_-]{0,28}[a-z0-9]")

DESTINATION_FORM = (
    FormField("project", "Project", help="Its id, such as my-project-123."),
    FormField("instance", "Instance", help="Its id. gcloud spanner instances list shows them."),
    FormField(
        "database", "Database", keeps_secret=True,
        help="It must exist, in the GoogleSQL dialect. Each source database becomes a schema of it.",
    ),
    *LOGIN_FORM,
    FormField(
        "endpoint", "Endpoint", required=False,
        help=f"Empty: https://{HOST}. An address that begins with http:// is taken of this machine only: the emulator,"
        " which asks for no login.",
    ),
    CONNECT_TIMEOUT,
)  # fmt: skip


@dataclass(frozen=True)
class SpannerDestination:
    """settings: those of the login; plaintext: an emulator, without TLS and login."""

    project: str
    instance: str
    database: str
    host: str = f"{HOST}:443"
    plaintext: bool = False
    connect_timeout: int = CONNECT_SECONDS
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """As Google's API names the database."""
        return f"projects/{self.project}/instances/{self.instance}/databases/{self.database}"

    @property
    def where(self) -> str:
        """For messages."""
        return f"Spanner database {self.instance}/{self.database}"


def destination(settings: Mapping[str, Any]) -> SpannerDestination:
    """What a destination's settings say.  Raises ConfigurationError."""
    project = checked_project(settings)
    instance, database = text(settings, "instance"), text(settings, "database")
    for name, value, form in (("instance", instance, _INSTANCE), ("database", database, _DATABASE)):
        if not value:
            raise ConfigurationError(f"The destination has no {name}.")
        if not form.fullmatch(value):
            message = f"{name} is {value!r}; it must be the id of a Spanner {name}."
            raise ConfigurationError(message, remedy=f"gcloud spanner {name}s list shows the ids.")
    parts = urlsplit(checked_endpoint(settings))
    plain = parts.scheme == "http"
    if not plain:
        check_login(settings)
    host = f"{parts.hostname or HOST}:{parts.port or (80 if plain else 443)}"
    timeout = number(settings, "connect_timeout", 1, 3600)
    return SpannerDestination(project, instance, database, host, plain, timeout or CONNECT_SECONDS, dict(settings))


def place(settings: Mapping[str, Any]) -> str:
    """Where a destination is, without secrets; empty for settings that lead nowhere."""
    said = [text(settings, name) for name in ("project", "instance", "database")]
    endpoint = text(settings, "endpoint").rstrip("/").lower()
    return "/".join([*[endpoint] * bool(endpoint), *said]) if all(said) else ""
