"""Writing what happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from replicator.errors import ConfigurationError
from replicator.telemetry.lags import exact_seconds, nearest_seconds
from webapp.accounts import audit
from webapp.monitoring.models import TablePromise, TimelineEvent
from webapp.replicators.models import Replicator, ReplicatorTable

SUMMARY = 500
# What nobody does but people: without a user by a command.
BY_COMMAND = frozenset({
    "created", "deleted", "options", "tables_added", "table_removed", "mode_changed", "target_renamed", "stream_created", "stream_changed",
    "stream_deleted", "alert_rule",
})  # fmt: skip
LONGEST = 86_400  # seconds of a promise


def note(
    *,
    replicator: Replicator,
    kind: str,
    summary: str,
    table: str = "",
    detail: Mapping[str, Any] | None = None,
    user: User | None = None,
) -> TimelineEvent:
    """A line of the replicator's timeline; of what people do, one of the audit log, which outlives the replicator."""
    event = timeline_event(replicator=replicator, kind=kind, summary=summary, table=table, detail=detail, user=user)
    event.save()
    if event.user is not None or kind in BY_COMMAND:
        audit.enter(kind, f"{replicator.name}: {summary}", user=user, about=replicator.name, detail=detail)
    return event


def timeline_event(
    *,
    replicator: Replicator,
    kind: str,
    summary: str,
    table: str = "",
    detail: Mapping[str, Any] | None = None,
    user: User | None = None,
) -> TimelineEvent:
    """The same, not saved: for many in one statement."""
    return TimelineEvent(
        replicator=replicator,
        kind=kind,
        summary=summary[:SUMMARY],
        table=table,
        detail=dict(detail or {}),
        user=user if user and user.is_authenticated else None,
    )


def check_seconds(seconds: float) -> None:
    """ConfigurationError for a promise whose keeping could not be counted exactly; it names those beside it."""
    if not 0 < seconds <= LONGEST:  # neither what is no number
        raise ConfigurationError("What is promised must be readable within 24 hours, and not at once.")
    if exact_seconds(seconds):
        return
    below, above = nearest_seconds(seconds)
    raise ConfigurationError(
        f"{seconds:g} seconds cannot be promised: what is kept of it could not be counted exactly.",
        remedy=f"Choose {below:g} or {above:g} seconds: whole seconds up to 2 minutes, then steps of 5 seconds up to 10 minutes, "
        "of 30 seconds up to an hour, and whole minutes up to 24 hours.",
    )


def promise_for_table(
    *, table: ReplicatorTable, percent: float | None, seconds: float | None, user: User | None = None
) -> None:
    """A promise of the table's own, in place of the replicator's; None and None: the replicator's again.  ConfigurationError."""
    if (percent is None) != (seconds is None):
        raise ConfigurationError("A promise has both: a percentage and a time.")
    if percent is not None and seconds is not None:
        if not 0.1 <= percent <= 100:  # noqa: PLR2004 - as the options
            raise ConfigurationError("The percentage must be between 0.1 and 100.")
        check_seconds(seconds)
    TablePromise.objects.update_or_create(table=table, defaults={"percent": percent, "seconds": seconds})
    said = "as the replicator's" if percent is None else f"{percent:g} % within {seconds:g} s"
    note(
        replicator=table.replicator, kind="options", summary=f"Promise of {table}: {said}", table=str(table), user=user
    )
