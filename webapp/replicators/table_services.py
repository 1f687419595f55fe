"""Adding, removing, retrying and re-reading single tables of a replicator, running or not."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.state.tables import TableState
from webapp.monitoring.services import note
from webapp.replicators.models import (
    ChunkRow,
    ChunkState,
    Replicator,
    ReplicatorTable,
    RunState,
    SnapshotRun,
    TableSelection,
)
from webapp.replicators.selection import SelectionEntry, check_selection, write_selection

OPEN_RUN = (RunState.PLANNING, RunState.READING)
BY_USER = "tried again by a user"


@transaction.atomic
def add_tables(*, replicator: Replicator, selection: Sequence[SelectionEntry], user: User | None = None) -> Replicator:
    """Lines that exist already are changed; the new tables are read while the others go on."""
    check_selection(selection)
    changed = write_selection(replicator, selection)
    if changed:
        replan(replicator)
        note(
            replicator=replicator,
            kind="tables_added",
            summary=f"Selection changed: {', '.join(changed[:5])}{' …' if len(changed) > 5 else ''}",  # noqa: PLR2004
            detail={"selection": changed[:100]},
            user=user,
        )
    return replicator


@transaction.atomic
def remove_table(*, replicator: Replicator, table: TableId, user: User | None = None) -> None:
    """Not captured any more; the target's table stays as it is.  Its staged files become garbage."""
    lines = TableSelection.objects.filter(replicator=replicator, database=table.database)
    lines.filter(table=table.name).delete()
    if lines.filter(table="", excluded=False).exists():
        TableSelection.objects.create(
            replicator=replicator, database=table.database, table=table.name, excluded=True, discovered=True
        )
    if not replicator.selection.filter(excluded=False).exists():
        message = f"{table} is the last table of {replicator.name}."
        raise ConfigurationError(message, remedy="Delete the replicator instead.")
    ReplicatorTable.objects.filter(replicator=replicator, database=table.database, name=table.name).delete()
    replan(replicator)
    note(replicator=replicator, kind="table_removed", summary=f"{table} removed", table=str(table), user=user)


@transaction.atomic
def retry_table(*, table: ReplicatorTable, user: User | None = None) -> None:
    """Now instead of at its retry time; a failed table, whose changes were not captured meanwhile, is read anew."""
    fresh = ReplicatorTable.objects.select_for_update(no_key=True).get(pk=table.pk)
    if fresh.table_state is TableState.FAILED:
        resnapshot_table(table=fresh, reason=BY_USER, user=user)
        return
    try_again(fresh)
    note(replicator=fresh.replicator, kind="table_retried", summary=f"{fresh} tried again", table=str(fresh), user=user)


def try_again(table: ReplicatorTable) -> None:
    """What `retry_table` does to a locked table, without a word of it on the timeline."""
    if table.table_state is TableState.FAILED:
        _read_anew(table, BY_USER)
        return
    table.retry_at = None
    table.save(update_fields=["retry_at"])
    table.runs.filter(state__in=OPEN_RUN).update(retry_at=None)
    ChunkRow.objects.filter(run__table=table, state=ChunkState.PLANNED).update(retry_at=None)


@transaction.atomic
def resnapshot_table(*, table: ReplicatorTable, reason: str = "", user: User | None = None) -> SnapshotRun:
    """Read the table anew while its log goes on.

    With a key and a whole copy in the target, readers see no gap (RELOADING); otherwise the copy is made anew (LOADING).
    """
    fresh = (
        ReplicatorTable.objects.select_for_update(no_key=True, of=("self",))
        .select_related("replicator")
        .get(pk=table.pk)
    )
    run = _read_anew(fresh, reason or "asked for by a user")
    note(
        replicator=fresh.replicator,
        kind="snapshot_asked",
        summary=f"{fresh} is read anew: {run.reason}",
        table=str(fresh),
        user=user,
    )
    table.refresh_from_db()
    return run


def read_all_anew(tables: Sequence[ReplicatorTable], *, reason: str) -> None:
    """Locked tables, whose log was not followed to its end; those that are gone stay so until they are found again."""
    for table in tables:
        if table.table_state in {TableState.DROPPED, TableState.WAITING}:
            continue
        table.tracked = False
        _read_anew(table, reason)


def _read_anew(table: ReplicatorTable, reason: str) -> SnapshotRun:
    """A new run of a locked table."""
    if table.table_state is TableState.DROPPED:
        message = f"{table} is gone from the source."
        raise ConfigurationError(
            message, remedy="Create the table again in the source; Tidemark then takes it by itself."
        )
    keep = table.load_complete and not table.keyless
    if table.table_state is TableState.FAILED:
        table.tracked = False  # the log was not followed meanwhile
    run = begin_run(
        table,
        TableState.RELOADING if keep else TableState.LOADING,
        sequence=table.replicator.next_sequence,
        reason=reason,
    )
    replan(table.replicator)
    return run


@transaction.atomic
def cancel_snapshot(*, table: ReplicatorTable, user: User | None = None) -> None:
    """Only a reload can be cancelled: without its initial load a table would never be whole."""
    fresh = ReplicatorTable.objects.select_for_update(no_key=True).get(pk=table.pk)
    if fresh.table_state is not TableState.RELOADING:
        message = f"{fresh} has no snapshot that can be cancelled: its initial load must end, or the table be removed."
        raise ConfigurationError(message)
    if not fresh.tracked:
        message = f"{fresh} must be read anew: its changes were not captured for a while."
        raise ConfigurationError(message)
    cancel_runs(fresh)
    fresh.state = TableState.STREAMING.value
    fresh.save(update_fields=["state"])
    replan(fresh.replicator)
    note(
        replicator=fresh.replicator,
        kind="snapshot_cancelled",
        summary=f"The snapshot of {fresh} was cancelled",
        table=str(fresh),
        user=user,
    )


def set_snapshot_paused(*, replicator: Replicator, paused: bool, user: User | None = None) -> Replicator:
    """Readers stop within seconds; the log goes on."""
    from webapp.replicators.services import update_options  # noqa: PLC0415 - services re-exports this module

    options = replace(replicator.parsed_options, snapshot_paused=paused)
    return update_options(replicator=replicator, options=options, user=user)


def begin_run(table: ReplicatorTable, state: TableState, *, sequence: int, reason: str) -> SnapshotRun:
    """A new run in place of any other.  LOADING makes the target's table anew (another `load`); saves the table."""
    cancel_runs(table)
    table.state = state.value
    clear_error(table)
    if state is TableState.LOADING:
        table.load = uuid.uuid4().hex
        table.load_complete = False
        table.loaded = table.applied = table.last_chunk_sequence = -1
        table.live_from = sequence - 1
    table.save()
    return SnapshotRun.objects.create(
        table=table, reason=reason[:200], start_sequence=sequence, rows_estimate=table.rows_estimate
    )


def cancel_runs(table: ReplicatorTable) -> None:
    """Readers notice at their next question; what they still bring is not admitted.

    The runs are locked before their chunks are looked at: those that a planner was about to commit are among them then.
    """
    runs = list(table.runs.select_for_update(no_key=True).filter(state__in=OPEN_RUN).order_by("id"))
    ChunkRow.objects.filter(run__in=runs).exclude(state=ChunkState.DONE).update(state=ChunkState.CANCELLED, attempt="")
    table.runs.filter(pk__in=[run.pk for run in runs]).update(state=RunState.CANCELLED, finished_at=timezone.now())


def clear_error(table: ReplicatorTable) -> None:
    """Counting begins anew; open failures are resolved.  Does not save."""
    table.error_code = table.error_message = table.error_remedy = ""
    table.needs_reload = False
    table.attempt = 0
    table.first_failure_at = table.retry_at = None
    table.failures.filter(resolved_at=None).update(resolved_at=timezone.now())


def replan(replicator: Replicator) -> None:
    """Capture reads its plan again."""
    Replicator.objects.filter(pk=replicator.pk).update(plan_version=F("plan_version") + 1)
