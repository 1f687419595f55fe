"""Signals about replicators, for the apps above this one that record them (`webapp.monitoring`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.dispatch import Signal

from webapp.replicators.models import Replicator, ReplicatorTable

happened = Signal()
tried_again = Signal()


def note(
    *,
    replicator: Replicator,
    kind: str,
    summary: str,
    table: str = "",
    detail: Mapping[str, Any] | None = None,
    user: User | None = None,
) -> None:
    """A line for the replicator's timeline, written in the present transaction."""
    happened.send(Replicator, replicator=replicator, kind=kind, summary=summary, table=table, detail=detail, user=user)


def note_tried_again(*tables: ReplicatorTable) -> None:
    """Their errors are cleared: what failed before is over."""
    tried_again.send(ReplicatorTable, tables=tables)
