"""Making and changing streams."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.contrib.auth.models import User
from django.db import transaction

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.state.tables import TableState
from webapp.monitoring.services import note
from webapp.replicators.models import Desired, Replicator, ReplicatorTable
from webapp.replicators.services.tables import resnapshot_table
from webapp.streams.carried import carried, find_tables, name_tables
from webapp.streams.models import Stream

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
MAX_SHARDS, MAX_HOURS = 64, 24 * 31
STILL = (TableState.STREAMING.value,)


@transaction.atomic
def create_stream(
    *,
    name: str,
    replicator: Replicator,
    shards: int = 1,
    tables: Sequence[TableId] | None = None,
    exclude: Sequence[TableId] = (),
    retention_hours: float = 24,
    snapshot: bool = False,
    user: User | None = None,
) -> Stream:
    """From now on; with `snapshot` the rows that are there already come, too: the tables are read again.

    ConfigurationError.

    tables: None carries all, and those that the replicator will get later.
    """
    _check(name, shards, retention_hours)
    owner = Replicator.objects.get(pk=replicator.pk)
    if owner.desired == Desired.DELETED:
        raise ConfigurationError(f"The replicator {owner.name} is being deleted.")
    stream = Stream.objects.create(
        name=name,
        replicator=owner,
        shards=shards,
        retention_hours=retention_hours,
        begins=owner.next_sequence,
        oldest=owner.next_sequence,
        created_by=user if user and user.is_authenticated else None,
    )
    _carry(stream, tables, exclude, since=0)
    note(replicator=owner, kind="stream_created", summary=f"Stream {name} created, {shards} shard(s)", user=user)
    if snapshot:
        _read_anew(stream, user)
    return stream


@transaction.atomic
def change_tables(
    *, stream: Stream, tables: Sequence[TableId] | None, exclude: Sequence[TableId] = (), user: User | None = None
) -> Stream:
    """A table that was not in it is from now on; of one that goes, nothing more is given."""
    replicator = Replicator.objects.get(pk=stream.replicator_id)
    _carry(stream, tables, exclude, since=replicator.next_sequence)
    note(replicator=replicator, kind="stream_changed", summary=f"Tables of stream {stream} changed", user=user)
    return stream


@transaction.atomic
def change_retention(*, stream: Stream, hours: float, user: User | None = None) -> Stream:
    """Takes effect when garbage is collected the next time."""
    _check(stream.name, stream.shards, hours, new=False)
    Stream.objects.filter(pk=stream.pk).update(retention_hours=hours)
    stream.refresh_from_db()
    note(
        replicator=stream.replicator,
        kind="stream_changed",
        summary=f"Stream {stream} keeps changes for {hours:g} h",
        user=user,
    )
    return stream


@transaction.atomic
def set_enabled(*, stream: Stream, enabled: bool, user: User | None = None) -> Stream:
    """A disabled stream gives nothing, and nothing is kept for it."""
    if Stream.objects.filter(pk=stream.pk, enabled=not enabled).update(enabled=enabled):
        word = "enabled" if enabled else "disabled"
        note(replicator=stream.replicator, kind=f"stream_{word}", summary=f"Stream {stream} {word}", user=user)
    stream.refresh_from_db()
    return stream


@transaction.atomic
def delete_stream(*, stream: Stream, user: User | None = None) -> None:
    """With its groups and their checkpoints."""
    note(replicator=stream.replicator, kind="stream_deleted", summary=f"Stream {stream} deleted", user=user)
    stream.delete()


def passed(ends: Sequence[tuple[int, int]]) -> None:
    """Segments and events (table, last sequence number) are being deleted: of the streams that carry their tables, what
    is older is gone.

    In the transaction that deletes their rows.
    """
    last: dict[int, int] = {}
    for table, sequence in ends:
        last[table] = max(last.get(table, -1), sequence)
    owners = ReplicatorTable.objects.filter(pk__in=last).values("replicator_id")
    for stream in Stream.objects.select_for_update(no_key=True).filter(replicator__in=owners).order_by("id"):
        lost = [last[table] for table, since in carried(stream).items() if table in last and last[table] >= since]
        if lost and max(lost) >= stream.oldest:
            Stream.objects.filter(pk=stream.pk).update(oldest=max(lost) + 1)


def _check(name: str, shards: int, hours: float, *, new: bool = True) -> None:
    if not NAME.fullmatch(name):
        raise ConfigurationError(
            "A stream's name has 1 to 63 lowercase letters, digits, - and _, and begins with a letter or digit."
        )
    if new and Stream.objects.filter(name=name).exists():
        raise ConfigurationError(f"A stream named {name} already exists.", remedy="Choose another name.")
    if not 1 <= shards <= MAX_SHARDS:
        raise ConfigurationError(f"A stream has 1 to {MAX_SHARDS} shards.")
    if not 1 <= hours <= MAX_HOURS:  # NaN is refused, too
        raise ConfigurationError(f"A stream keeps changes for 1 to {MAX_HOURS} hours.")


def _carry(stream: Stream, tables: Sequence[TableId] | None, exclude: Sequence[TableId], *, since: int) -> None:
    owner = stream.replicator
    chosen = None if tables is None else find_tables(owner, tables)
    if chosen is not None and not chosen:
        raise ConfigurationError("Name at least one table, or select all.")
    name_tables(stream, chosen, find_tables(owner, exclude), since=since)


def _read_anew(stream: Stream, user: User | None) -> None:
    """Those that are in the target already; of the others the load is still to come, or under way."""
    tables = ReplicatorTable.objects.filter(pk__in=carried(stream), state__in=STILL).order_by("id")
    for table in tables:
        resnapshot_table(table=table, reason=f"for the stream {stream}", user=user)
