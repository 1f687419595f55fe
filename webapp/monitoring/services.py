"""Writing what happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from webapp.monitoring.models import TimelineEvent
from webapp.replicators.models import Replicator

SUMMARY = 500


def note(
    *,
    replicator: Replicator,
    kind: str,
    summary: str,
    table: str = "",
    detail: Mapping[str, Any] | None = None,
    user: User | None = None,
) -> TimelineEvent:
    """A line of the replicator's timeline."""
    return TimelineEvent.objects.create(
        replicator=replicator,
        kind=kind,
        summary=summary[:SUMMARY],
        table=table,
        detail=dict(detail or {}),
        user=user if user and user.is_authenticated else None,
    )
