"""Writing what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from replicator.errors import ConfigurationError
from webapp.accounts import audit
from webapp.monitoring.models import Failure, TableObjective, TimelineEvent
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.options import check_seconds

SUMMARY = 500
# What only users do: without a user in the event, it was done by a command.
BY_COMMAND = frozenset({
    "created", "deleted", "options", "tables_added", "table_removed", "mode_changed", "target_renamed",
    "stream_created", "stream_changed",
    "stream_deleted", "alert_rule",
})  # fmt: skip


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


def on_happened(*, signal: object, sender: object, **line: Any) -> None:
    """The receiver of `webapp.replicators.signals.happened`."""
    del signal, sender
    note(**line)


def on_tried_again(*, tables: Sequence[ReplicatorTable], **_: object) -> None:
    """The receiver of `webapp.replicators.signals.tried_again`: open failures are resolved."""
    Failure.objects.filter(table__in=tables, resolved_at=None).update(resolved_at=timezone.now())


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


def objective_for_table(
    *, table: ReplicatorTable, percent: float | None, seconds: float | None, user: User | None = None
) -> None:
    """An objective of the table's own, in place of the replicator's; None and None: the replicator's again.

    ConfigurationError.
    """
    if (percent is None) != (seconds is None):
        raise ConfigurationError("An SLO requires a percentage and a time.")
    if percent is not None and seconds is not None:
        if not 0.1 <= percent <= 100:  # noqa: PLR2004 - as the options
            raise ConfigurationError("The percentage must be between 0.1 and 100.")
        check_seconds(seconds)
    TableObjective.objects.update_or_create(table=table, defaults={"percent": percent, "seconds": seconds})
    said = "default of the replicator" if percent is None else f"{percent:g} % within {seconds:g} s"
    note(replicator=table.replicator, kind="options", summary=f"SLO of {table}: {said}", table=str(table), user=user)
