"""Which tables a stream carries, and from where on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import Q

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.streams.models import Stream, StreamTable


def carried(stream: Stream) -> Mapping[int, int]:
    """The tables' ids, each with the sequence number from which on it is in the stream."""
    named = {one.table_id: one for one in StreamTable.objects.filter(stream=stream)}
    tables = ReplicatorTable.objects.filter(replicator=stream.replicator_id).values_list("pk", flat=True)
    found = {}
    for pk in tables:
        if pk in named and named[pk].included:
            found[pk] = named[pk].since
        elif pk not in named and stream.every_table:
            found[pk] = 0
    return found


def needed(now: datetime, sequence: str) -> Q:
    """Rows of `SegmentRow` or `TableEventRow` that an enabled stream still keeps; `sequence` is their last number's
    field.
    """
    found = Q(pk__in=[])
    for stream in Stream.objects.filter(enabled=True):
        since = now - timedelta(hours=stream.retention_hours)
        found |= Q(table__in=list(carried(stream)), created_at__gte=since, **{f"{sequence}__gte": stream.oldest})
    return found


def find_tables(replicator: Replicator, names: Sequence[TableId]) -> list[ReplicatorTable]:
    """ConfigurationError for one that the replicator does not have."""
    found = []
    for name in names:
        row = ReplicatorTable.objects.filter(replicator=replicator, database=name.database, name=name.name).first()
        if row is None:
            raise ConfigurationError(
                f"The replicator {replicator.name} has no table {name}.",
                remedy=(
                    "Name tables as database and table. The tables of a whole database are known after the replicator"
                    " has started."
                ),
            )
        found.append(row)
    return found


def name_tables(
    stream: Stream, tables: list[ReplicatorTable] | None, exclude: list[ReplicatorTable], *, since: int
) -> None:
    """Only `tables` (None: all, the later ones too) and not `exclude`; those that were not in it are from `since`
    on.
    """
    before = carried(stream)
    if tables is None:
        tables = list(ReplicatorTable.objects.filter(replicator=stream.replicator_id))
        stream.every_table = True
    else:
        stream.every_table = False
    stream.save(update_fields=["every_table"])
    stream.named.all().delete()
    out = {table.pk for table in exclude}
    lines = [StreamTable(stream=stream, table_id=pk, included=False) for pk in sorted(out)]
    for pk in sorted({table.pk for table in tables} - out):
        begins = before.get(pk, since)
        if begins or not stream.every_table:
            lines.append(StreamTable(stream=stream, table_id=pk, included=True, since=begins))
    StreamTable.objects.bulk_create(lines)
