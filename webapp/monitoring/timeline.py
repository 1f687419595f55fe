"""The timeline: kinds of events in groups that people filter by, who made them, how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from webapp.monitoring.models import TimelineEvent
from webapp.replicators.models import Replicator

# What is in no other group is in "more".
GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "runs": (
        "Starts and pauses",
        (
            "created", "started", "started_anew", "started_anew_by_itself", "resumed", "paused", "stopped", "settled",
            "deleted",
        ),
    ),
    "snapshots": (
        "Snapshots",
        (
            "snapshot_asked", "snapshot_began", "snapshot_done", "snapshot_cancelled", "snapshot_paused",
            "snapshot_resumed", "snapshot_failed", "signal", "signal_refused", "streaming",
        ),
    ),
    "ddl": (
        "Schema changes (DDL)",
        ("schema_changed", "ddl", "table_created", "table_dropped", "table_renamed"),
    ),
    "failures": (
        "Failures and retries",
        (
            "failed", "table_failed", "retrying", "retried", "table_retried", "recovered", "dead_letter_rows",
            "dead_letters_resolved",
            "dead_letters_discarded",
        ),
    ),
    "failovers": ("Failovers", ("failover",)),
    "tables": ("Table selection", ("tables_added", "table_removed", "table_skipped", "mode_changed", "target_renamed")),
    "streams": (
        "Pull streams",
        ("stream_created", "stream_changed", "stream_enabled", "stream_disabled", "stream_deleted"),
    ),
    "settings": ("Settings and alerts", ("options", "connection", "alert_rule", "alert_snoozed")),
    "log": ("The source’s log", ("log_large", "log_given_up", "log_lost", "log_safe")),
}  # fmt: skip
MORE = "more"
CHOICES: Mapping[str, str] = {name: label for name, (label, _) in GROUPS.items()} | {MORE: "More"}
BY: Mapping[str, str] = {"people": "By users", "itself": "Automatic"}
KNOWN = tuple(kind for _, kinds in GROUPS.values() for kind in kinds)


@dataclass(frozen=True)
class TimelineFilters:
    """What the reader wants to see; empty for everything.

    `table` is `database.table`, `kind` one of the stored kinds.
    """

    group: str = ""
    by: str = ""
    table: str = ""
    kind: str = ""

    @classmethod
    def of(cls, query: Mapping[str, Any]) -> TimelineFilters:
        """Of a query string; what is not known filters nothing."""
        values = {name: str(query.get(name) or "").strip().replace("\0", "") for name in cls.__dataclass_fields__}
        group, by = values["group"], values["by"]
        return cls(group if group in CHOICES else "", by if by in BY else "", values["table"], values["kind"])

    @property
    def any(self) -> bool:
        return any((self.group, self.by, self.table, self.kind))


def timeline(replicator: Replicator, filters: TimelineFilters) -> QuerySet[TimelineEvent]:
    """Newest first, with users.  A part of a table's name is enough."""
    found = TimelineEvent.objects.filter(replicator=replicator).select_related("user")
    if filters.group == MORE:
        found = found.exclude(kind__in=KNOWN)
    elif filters.group:
        found = found.filter(kind__in=GROUPS[filters.group][1])
    if filters.kind:
        found = found.filter(kind=filters.kind)
    if filters.by:
        found = found.filter(user__isnull=filters.by == "itself")
    if filters.table:
        found = found.filter(Q(table__icontains=filters.table))
    return found
