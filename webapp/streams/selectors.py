"""Reading streams."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, OuterRef, Prefetch, QuerySet, Subquery

from webapp.database import clock
from webapp.replicators.models import Replicator, ReplicatorTable, SegmentRow
from webapp.streams.models import GroupMember, Stream, StreamCheckpoint, StreamGroup, StreamTable


@dataclass(frozen=True)
class GroupLag:
    """How far a group's slowest shard is behind: in sequence numbers, and since when there is something that it has not
    acked.
    """

    group: StreamGroup
    members: int
    behind: int
    since: datetime | None
    seconds: float


def streams() -> QuerySet[Stream]:
    """By name, with their replicators and the tables that were named."""
    named = StreamTable.objects.select_related("table").order_by("table__database", "table__name")
    return Stream.objects.select_related("replicator").prefetch_related(Prefetch("named", named))


def replicators() -> QuerySet[Replicator]:
    """Those that a stream can be made of."""
    return Replicator.objects.order_by("name")


def group_lags(found: list[Stream]) -> dict[int, list[GroupLag]]:
    """Return the lags of groups by stream, with a few queries for any number of streams."""
    now = clock()
    groups = StreamGroup.objects.filter(stream__in=found).select_related("stream__replicator").order_by("name")
    slowest = StreamCheckpoint.objects.filter(group=OuterRef("pk")).order_by("sequence").values("sequence")[:1]
    furthest = groups.annotate(at=Subquery(slowest))
    alive = dict(
        GroupMember.objects.filter(group__stream__in=found, expires_at__gt=now)
        .order_by()
        .values_list("group")
        .annotate(Count("pk"))
    )
    waiting = SegmentRow.objects.filter(
        table__replicator=OuterRef("stream__replicator"), last_sequence__gte=OuterRef("at")
    ).order_by("created_at")
    lags: dict[int, list[GroupLag]] = {}
    for one in furthest.annotate(since=Subquery(waiting.values("created_at")[:1])):
        behind = max(one.stream.replicator.next_sequence - (one.at or 0), 0)
        since = one.since if behind else None
        seconds = max((now - since).total_seconds(), 0.0) if since else 0.0
        lags.setdefault(one.stream_id, []).append(GroupLag(one, alive.get(one.pk, 0), behind, since, seconds))
    return lags


def checkpoints(stream: Stream) -> QuerySet[StreamCheckpoint]:
    """By group and shard."""
    found = StreamCheckpoint.objects.filter(group__stream=stream).select_related("group", "owner")
    return found.order_by("group__name", "shard")


def tables_named(stream: Stream) -> tuple[list[ReplicatorTable] | None, list[ReplicatorTable]]:
    """Those in it (None: all, the later ones too), and those left out."""
    named = list(stream.named.all())
    out = [one.table for one in named if not one.included]
    return (None if stream.every_table else [one.table for one in named if one.included]), out
