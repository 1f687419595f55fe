"""A destination's settings: which project, where its datasets lie, as whom."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replicator.errors import ConfigurationError
from replicator.sources.base import FormField
from replicator.sources.shared.settings import CONNECT_SECONDS, CONNECT_TIMEOUT, number, text
from replicator.targets.google_login import LOGIN_FORM, check_login, checked_endpoint, checked_project

LOCATION = "US"
COMMIT_SECONDS = 120
MAX_COMMIT_SECONDS = 3600
SCOPES = ("https://www.googleapis.com/auth/bigquery",)
_LOCATION = re.compile(r"[A-Za-z]{2}|[a-z]+(?:-[a-z]+)*-?[a-z]+[0-9]{1,2}|omni-[a-z0-9-]+")

DESTINATION_FORM = (
    FormField(
        "project", "Project", keeps_secret=True,
        help="The id of a Google Cloud project. Each source database becomes a dataset of it.",
    ),
    FormField(
        "location", "Location", required=False, default=LOCATION, main=True, keeps_secret=True,
        help="Where datasets are made, such as US, EU or europe-west1. Datasets that exist must lie there.",
    ),
    *LOGIN_FORM,
    FormField(
        "commit_seconds", "Seconds between commits", "number", required=False, default=str(COMMIT_SECONDS),
        keeps_secret=True, main=True,
        help="Of one table, at least. Each commit reads the table’s keys and rewrites what it changes, which is billed;"
        " load jobs are limited in number by day. 0: as soon as changes come.",
    ),
    FormField(
        "endpoint", "Address of the API", required=False,
        help="Of a private endpoint, such as https://bigquery-xyz.p.googleapis.com. Empty: Google’s own.",
    ),
    CONNECT_TIMEOUT,
)  # fmt: skip


@dataclass(frozen=True)
class BigQueryDestination:
    """login: the settings that `google_login` reads; endpoint: empty for Google's own."""

    project: str
    location: str
    endpoint: str
    commit_seconds: int
    connect_timeout: int
    login: Mapping[str, Any] = field(repr=False)

    @property
    def where(self) -> str:
        """For messages."""
        return f"BigQuery project {self.project}"


def destination(settings: Mapping[str, Any]) -> BigQueryDestination:
    """What a destination's settings say.  Raises ConfigurationError."""
    project = checked_project(settings)
    location = text(settings, "location") or LOCATION
    if not _LOCATION.fullmatch(location):
        message = f"location is {location!r}; it must be a location of BigQuery, such as US, EU or europe-west1."
        raise ConfigurationError(message)
    check_login(settings)
    seconds = number(settings, "commit_seconds", 0, MAX_COMMIT_SECONDS)
    return BigQueryDestination(
        project,
        location,
        checked_endpoint(settings),
        COMMIT_SECONDS if seconds is None else seconds,
        number(settings, "connect_timeout", 1, 3600) or CONNECT_SECONDS,
        {one.name: text(settings, one.name) for one in LOGIN_FORM},
    )


def place(settings: Mapping[str, Any]) -> str:
    """Where a destination is, without secrets; empty for settings that lead nowhere."""
    project, endpoint = text(settings, "project"), text(settings, "endpoint").rstrip("/").lower()
    if not project:
        return ""
    return f"{endpoint.partition('://')[2]}/{project}" if endpoint else project
