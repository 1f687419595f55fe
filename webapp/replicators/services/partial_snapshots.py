"""Snapshots of a part of a table, by keys or by a condition, while it streams; and what can be done to a snapshot under
way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.snapshot.keys import TextKey, parse_lines, parse_values
from replicator.snapshot.signals import create_table
from replicator.sources.base import KeyRange
from replicator.sources.kind import SourceKind
from replicator.sources.registry import source_kind
from replicator.sources.shared.conditions import condition_sql
from replicator.state.tables import TableState
from webapp.connections.selectors import opened
from webapp.replicators.models import ChunkRow, ChunkState, Replicator, ReplicatorTable, RunState, Scope, SnapshotRun
from webapp.replicators.selectors import table_set
from webapp.replicators.services.tables import OPEN_RUN, cancel_runs, cancel_snapshot
from webapp.replicators.signals import note

OFFERED = "tidemark_signals"
KEYS_PER_CHUNK = 500
TRIED = 2_000  # keys that the source is asked about before a run begins: the others when they are read
BY_USER = "requested by a user"
_INSTEAD = {
    TableState.WAITING: "waits for its first snapshot, which includes these rows",
    TableState.LOADING: "is being snapshotted, which includes these rows",
    TableState.RELOADING: "is being resnapshotted, which includes these rows",
    TableState.FAILED: "has stopped with an error and requires a resnapshot",
    TableState.SKIPPED: "is skipped; resuming it starts a resnapshot",
    TableState.DROPPED: "no longer exists in the source",
}


def read_keys(
    *,
    table: ReplicatorTable,
    keys: str | Sequence[Any],
    reason: str = BY_USER,
    user: User | None = None,
    tried: bool = True,
) -> SnapshotRun:
    """Read the rows with these keys again, and delete from the target those that the source does not have.

    `keys`: lines of text, or values and lists of values.  `tried`: the source is asked at once whether it takes them.
    Raises ConfigurationError, ConditionRefused; SourceError where the source cannot be asked.
    """
    require_streaming(table)
    schema = _schema(table)
    key_text = _kind(table).key_text
    parsed = parse_lines(keys, schema, key_text) if isinstance(keys, str) else parse_values(keys, schema, key_text)
    if tried:
        _try(table, [KeyRange(keys=tuple(some)) for some in _slices(parsed[:TRIED])])
    return _begin(table, Scope.KEYS, parsed, "", reason, user)


def read_rows(
    *,
    table: ReplicatorTable,
    condition: str,
    reason: str = BY_USER,
    user: User | None = None,
    tried: bool = True,
) -> SnapshotRun:
    """Read the rows again for which the condition is true, in the source's own words (`condition_sql`); all others stay
    as they are.  Raises the same.
    """
    require_streaming(table)
    wanted = condition.strip()
    condition_sql(wanted, _schema(table), _kind(table).dialect)
    if tried:
        _try(table, [KeyRange(condition=wanted)])
    return _begin(table, Scope.ROWS, [], wanted, reason, user)


def signal_statement(replicator: Replicator) -> str:
    """The SQL that makes the signalling table: the one of the options, or one that could be."""
    kind, line = source_kind(replicator.connection.kind), replicator.selection.first()
    table = replicator.parsed_options.signals or TableId(line.database if line else kind.database_word, OFFERED)
    return create_table(table, kind.dialect)


def require_streaming(table: ReplicatorTable) -> None:
    """ConfigurationError, in a sentence, where a part of the table cannot be read."""
    if table.keyless:
        message = f"{table} has no key, so single rows cannot be read."
        raise ConfigurationError(message, remedy="Resnapshot it.")
    if table.table_state is not TableState.STREAMING or not table.tracked:
        message = f"{table} {_INSTEAD.get(table.table_state, _INSTEAD[TableState.WAITING])}."
        raise ConfigurationError(message, remedy="Try again when the table streams.")


def _kind(table: ReplicatorTable) -> SourceKind:
    return source_kind(table.replicator.connection.kind)


def _schema(table: ReplicatorTable) -> TableSchema:
    newest = table.schemas.order_by("-version").first()
    if newest is None or not newest.parsed.key:
        message = f"{table} is not known yet: no change of it was captured."
        raise ConfigurationError(message, remedy="Try again when the table streams.")
    schema = newest.parsed
    if any(
        schema.column(name).masked for name in schema.key
    ):  # the requested keys would be stored unmasked, and not be recognized among the log's masked ones
        message = f"The key of {table} is masked, so single rows cannot be read."
        raise ConfigurationError(message, remedy="Resnapshot it.")
    return schema


def _try(table: ReplicatorTable, parts: Sequence[KeyRange]) -> None:
    """The source says at once whether it would read them."""
    with opened(table.replicator.connection) as source:
        source.tables = table_set(table.replicator)
        catalog = source.catalog()
        for part in parts:
            catalog.try_rows(table.table_id, part)


@transaction.atomic
def _begin(
    table: ReplicatorTable, scope: Scope, keys: list[TextKey], condition: str, reason: str, user: User | None
) -> SnapshotRun:
    rows = ReplicatorTable.objects.select_for_update(no_key=True, of=("self",)).select_related("replicator")
    fresh = rows.get(pk=table.pk)
    require_streaming(fresh)
    run = SnapshotRun(table=fresh, scope=scope, condition=condition, reason=reason[:200])
    if keys:
        run.start_sequence = fresh.replicator.next_sequence  # what capture has met so far is in what is read
        run.state, run.planned_all, run.started, run.started_at = RunState.READING, True, True, timezone.now()
        run.rows_estimate = len(keys)
    run.save()
    chunks = [ChunkRow(run=run, number=n, keys=list(map(list, some))) for n, some in enumerate(_slices(keys), 1)]
    ChunkRow.objects.bulk_create(chunks, batch_size=50)
    where = f", where {condition}" if condition else ""
    note(
        replicator=fresh.replicator,
        kind="snapshot_asked",
        summary=f"Snapshot of {run.what}{where}: {run.reason}",
        table=str(fresh),
        user=user,
    )
    return run


def _slices(keys: list[TextKey]) -> list[list[TextKey]]:
    return [keys[start : start + KEYS_PER_CHUNK] for start in range(0, len(keys), KEYS_PER_CHUNK)]


@transaction.atomic
def stop_snapshots(*, table: ReplicatorTable, user: User | None = None) -> int:
    """All that is being read of the table; returns how many snapshots there were.

    What was admitted stays, and is right.

    ConfigurationError for what the table cannot be without: an initial load, a reload after a gap.
    """
    fresh = ReplicatorTable.objects.select_for_update(no_key=True).get(pk=table.pk)
    number = fresh.runs.filter(state__in=OPEN_RUN).count()
    if not number:
        return 0
    if fresh.table_state is not TableState.STREAMING:
        cancel_snapshot(table=fresh, user=user)
        return number
    cancel_runs(fresh)
    note(
        replicator=fresh.replicator,
        kind="snapshot_cancelled",
        summary=f"Snapshot of {fresh} stopped",
        table=str(fresh),
        user=user,
    )
    return number


@transaction.atomic
def set_paused(*, table: ReplicatorTable, paused: bool, user: User | None = None) -> int:
    """All that is being read of the table: readers stop within seconds, the log goes on.

    Returns how many snapshots changed.
    """
    fresh = ReplicatorTable.objects.select_for_update(no_key=True).get(pk=table.pk)
    number = fresh.runs.filter(state__in=OPEN_RUN, paused=not paused).update(paused=paused)
    if number:
        note(
            replicator=fresh.replicator,
            kind="snapshot_paused" if paused else "snapshot_resumed",
            summary=f"Snapshot of {fresh} {'paused' if paused else 'resumed'}",
            table=str(fresh),
            user=user,
        )
    return number


def end_partial(run_id: int, error: str) -> None:
    """A locked run that cannot go on: it is over, and says why.  Its table goes on."""
    run = SnapshotRun.objects.select_related("table__replicator").get(pk=run_id)
    ChunkRow.objects.filter(run=run).exclude(state=ChunkState.DONE).update(state=ChunkState.CANCELLED, attempt="")
    run.state, run.error, run.finished_at = RunState.CANCELLED, error, timezone.now()
    run.save(update_fields=["state", "error", "finished_at"])
    note(
        replicator=run.table.replicator,
        kind="snapshot_failed",
        summary=f"Snapshot of {run.what} failed: {error}",
        table=str(run.table),
    )


def plan_parts_anew(table: ReplicatorTable) -> None:
    """The (locked) table has another name: what was read, or planned, by the old one may be another table's."""
    for run in table.runs.select_for_update(no_key=True).filter(state__in=OPEN_RUN).exclude(scope=Scope.WHOLE):
        under_way = run.chunks.exclude(state__in=(ChunkState.DONE, ChunkState.CANCELLED))
        if run.scope == Scope.KEYS:
            under_way.update(state=ChunkState.PLANNED, attempt="", owner="", claimed_until=None, read_at=None)
            continue
        under_way.update(state=ChunkState.CANCELLED, attempt="")
        SnapshotRun.objects.filter(pk=run.pk).update(state=RunState.CANCELLED, finished_at=timezone.now())
        SnapshotRun.objects.create(
            table=table, scope=run.scope, condition=run.condition, reason=run.reason, paused=run.paused
        )
