"""Adding, removing, retrying and re-reading single tables of a replicator, running or not."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from replicator.errors import ConfigurationError
from replicator.model.computed_rules import ComputedColumns
from replicator.model.identifiers import TableId
from replicator.state.tables import HALTED, TableState
from webapp.replicators.bulk import save_many
from webapp.replicators.models import (
    ChunkRow,
    ChunkState,
    Replicator,
    ReplicatorTable,
    RunState,
    SnapshotRun,
    TableSelection,
)
from webapp.replicators.selection.entries import (
    ReloadScope,
    SelectionEntry,
    changed_selection,
    check_selection,
    drop_unselected,
    rule_for,
    selected,
    under,
    write_selection,
)
from webapp.replicators.selection.target_names import TargetName, checked_target_name, chosen_target_name, refuse_shared
from webapp.replicators.signals import note, note_tried_again

BEGUN = (
    "state", "tracked", "load", "load_complete", "loaded", "applied", "last_chunk_sequence", "live_from", "error_code",
    "error_message", "error_remedy", "needs_reload", "attempt", "first_failure_at", "retry_at",
)  # fmt: skip
OPEN_RUN = (RunState.PLANNING, RunState.READING)
BY_USER = "retried by a user"


@transaction.atomic
def add_tables(*, replicator: Replicator, selection: Sequence[SelectionEntry], user: User | None = None) -> Replicator:
    """Lines that exist already are changed; the new tables are read while the others go on."""
    selection = under(rule_for(replicator.connection, selection, replicator), selection)
    check_selection(changed_selection(replicator, selection))
    written = write_selection(replicator, selection)
    changed = written.changed
    if changed:
        for table, how in written.anew.items():
            _take_anew(replicator, table, how)
        replan(replicator)
        note(
            replicator=replicator,
            kind="tables_added",
            summary=f"Selection changed: {', '.join(changed[:5])}{' …' if len(changed) > 5 else ''}",  # noqa: PLR2004
            detail={"selection": changed[:100]},
            user=user,
        )
    return replicator


def read_recomputed(
    replicator: Replicator, tables: Sequence[ReplicatorTable], before: ComputedColumns, after: ComputedColumns
) -> None:
    """Resnapshot tables whose computed columns change; into a new copy where an existing column changes its rule."""
    for row in tables:
        old, new = before.of(row.table_id), after.of(row.table_id)
        if list(old.items()) != list(new.items()):
            again = all(new.get(name, one) == one for name, one in old.items())
            how = ReloadScope.ROWS if again else ReloadScope.COPY
            _take_anew(replicator, row.table_id, how, reason="its computed columns changed")


def _take_anew(
    replicator: Replicator,
    table: TableId,
    how: ReloadScope,
    reason: str = "its columns, masks or row filter changed",
) -> None:
    """Not tracked until capture has the new plan: nothing is read before it is known how."""
    rows = ReplicatorTable.objects.select_for_update(no_key=True, of=("self",)).select_related("replicator")
    row = rows.filter(replicator=replicator, database=table.database, name=table.name).first()
    if row is None or row.table_state in {TableState.WAITING, TableState.DROPPED}:
        return
    if row.table_state is TableState.SKIPPED:
        if how is ReloadScope.COPY:  # whenever it is resumed, nothing of the copy from before stays (invariant 12)
            row.load_complete = False
            row.save(update_fields=["load_complete"])
        return
    row.tracked = False
    keep = how is ReloadScope.ROWS and row.load_complete and not row.keyless
    state = TableState.RELOADING if keep else TableState.LOADING
    begin_run(row, state, sequence=None, reason=reason)


@transaction.atomic
def remove_table(*, replicator: Replicator, table: TableId, user: User | None = None) -> None:
    """Not captured any more; the target's table stays as it is.  Its staged files become garbage."""
    lines = TableSelection.objects.filter(replicator=replicator, database=table.database)
    lines.filter(table=table.name, pattern=False).delete()
    if table in selected(SelectionEntry.of(line) for line in lines):
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
def remove_pattern(*, replicator: Replicator, database: str, pattern: str, user: User | None = None) -> None:
    """Tables that no other line takes are not captured any more; their copies in the target stay as they are."""
    replicator.selection.filter(database=database, table=pattern, pattern=True).delete()
    check_selection([SelectionEntry.of(line) for line in replicator.selection.all()])
    replicator.selection.filter(database=database).update(discovered=False)  # what it kept out may be taken now
    drop_unselected(replicator)
    replan(replicator)
    note(replicator=replicator, kind="table_removed", summary=f"{database}.{pattern} removed", user=user)


@transaction.atomic
def retry_table(*, table: ReplicatorTable, user: User | None = None) -> None:
    """Now instead of at its retry time; a failed or skipped table, whose changes were not captured meanwhile, is read
    again.
    """
    fresh = ReplicatorTable.objects.select_for_update(no_key=True).get(pk=table.pk)
    if fresh.table_state in HALTED:
        resnapshot_table(table=fresh, reason=BY_USER, user=user)
        return
    try_again(fresh)
    note(replicator=fresh.replicator, kind="table_retried", summary=f"{fresh} retried", table=str(fresh), user=user)


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
    """Read the table again while its log goes on.

    With a key and a whole copy in the target that can follow, readers see no gap (RELOADING); otherwise the copy is
    made again (LOADING).
    """
    fresh = (
        ReplicatorTable.objects.select_for_update(no_key=True, of=("self",))
        .select_related("replicator")
        .get(pk=table.pk)
    )
    run = _read_anew(fresh, reason or "requested by a user")
    note(
        replicator=fresh.replicator,
        kind="snapshot_asked",
        summary=f"Resnapshot of {fresh}: {run.reason}",
        table=str(fresh),
        user=user,
    )
    table.refresh_from_db()
    return run


def read_all_anew(tables: Sequence[ReplicatorTable], *, reason: str) -> None:
    """Locked tables, whose log was not followed to its end; those that are gone or skipped stay so."""
    for table in tables:
        if table.table_state in {TableState.DROPPED, TableState.WAITING, TableState.SKIPPED}:
            continue
        table.tracked = False
        _read_anew(table, reason)


def _read_anew(table: ReplicatorTable, reason: str) -> SnapshotRun:
    """A new run of a locked table."""
    if table.table_state is TableState.DROPPED:
        message = f"{table} no longer exists in the source."
        raise ConfigurationError(
            message, remedy="Create the table again in the source. It is then picked up automatically."
        )
    keep = table.load_complete and not table.keyless
    if table.table_state in HALTED:
        table.tracked = False  # the log was not followed meanwhile
    run = begin_run(
        table,
        TableState.RELOADING if keep else TableState.LOADING,
        sequence=None,
        reason=reason,
    )
    replan(table.replicator)
    return run


@transaction.atomic
def skip_table(*, table: ReplicatorTable, user: User | None = None) -> None:
    """The others go on without it; its copy in the target stays as it is.  Resuming it reads it again."""
    rows = ReplicatorTable.objects.select_for_update(no_key=True, of=("self",)).select_related("replicator")
    fresh = rows.get(pk=table.pk)
    if fresh.table_state is TableState.SKIPPED:
        return
    if fresh.table_state is TableState.DROPPED:
        message = f"{fresh} no longer exists in the source and cannot be skipped."
        raise ConfigurationError(message)
    cancel_runs(fresh)
    clear_error(fresh)
    fresh.state = TableState.SKIPPED.value
    fresh.tracked = False
    fresh.needs_reload = True
    fresh.reload_again = ""
    fresh.save()
    replan(fresh.replicator)
    note(
        replicator=fresh.replicator,
        kind="table_skipped",
        summary=f"{fresh} is skipped until a user resumes it",
        table=str(fresh),
        user=user,
    )
    table.refresh_from_db()


@transaction.atomic
def resume_table(*, table: ReplicatorTable, user: User | None = None) -> None:
    """A skipped table is read again, because its changes were not captured meanwhile."""
    fresh = ReplicatorTable.objects.select_for_update(no_key=True).get(pk=table.pk)
    if fresh.table_state is not TableState.SKIPPED:
        message = f"{fresh} is not skipped."
        raise ConfigurationError(message, remedy="Use resnapshot to read it again.")
    resnapshot_table(table=table, reason="it was skipped and is resumed", user=user)


@transaction.atomic
def rename_target(*, table: ReplicatorTable, namespace: str, name: str, user: User | None = None) -> None:
    """Rename its target table with the next merge; the name then stays, even if the source's table is renamed.

    ConfigurationError.
    """
    fresh = ReplicatorTable.objects.select_for_update(no_key=True).get(pk=table.pk)
    before = TargetName(fresh.target_namespace, fresh.target_name)
    refuse_shared(fresh.replicator, fresh.table_id)
    target_name = checked_target_name(fresh.replicator, TargetName(namespace, name), fresh)
    if target_name == (chosen_target_name(fresh) or before):
        return
    fresh.own_namespace, fresh.own_name = target_name.namespace, target_name.name
    fresh.save(update_fields=["own_namespace", "own_name"])
    note(
        replicator=fresh.replicator,
        kind="target_renamed",
        summary=f"Target table of {fresh} is renamed from {before} to {target_name}",
        table=str(fresh),
        user=user,
    )
    table.refresh_from_db()


@transaction.atomic
def cancel_snapshot(*, table: ReplicatorTable, user: User | None = None) -> None:
    """Only a reload can be cancelled: without its initial load a table would never be whole."""
    fresh = ReplicatorTable.objects.select_for_update(no_key=True).get(pk=table.pk)
    if fresh.table_state is not TableState.RELOADING:
        message = f"{fresh} has no snapshot that can be cancelled. Wait for its initial snapshot, or remove the table."
        raise ConfigurationError(message)
    if not fresh.tracked:
        message = f"{fresh} must be resnapshotted because some of its changes were not captured."
        raise ConfigurationError(message)
    cancel_runs(fresh)
    fresh.state = TableState.STREAMING.value
    fresh.save(update_fields=["state"])
    replan(fresh.replicator)
    note(
        replicator=fresh.replicator,
        kind="snapshot_cancelled",
        summary=f"Snapshot of {fresh} cancelled",
        table=str(fresh),
        user=user,
    )


def begin_run(table: ReplicatorTable, state: TableState, *, sequence: int | None, reason: str) -> SnapshotRun:
    """`begin_runs` of one table.

    sequence: None for where capture is, which commits nothing until this is: no stream is behind the begin of a load
    already.
    """
    if sequence is None:
        locked = Replicator.objects.select_for_update(no_key=True)
        sequence = locked.values_list("next_sequence", flat=True).get(pk=table.replicator_id)
    [run] = begin_runs([table], state, sequence=sequence, reason=reason)
    return run


def begin_runs(
    tables: Sequence[ReplicatorTable], state: TableState, *, sequence: int, reason: str
) -> list[SnapshotRun]:
    """New runs in place of any others.  LOADING makes the target's tables again (another `load`); saves the tables."""
    if not tables:
        return []
    cancel_runs(*tables)
    clear_error(*tables)
    fresh = state is TableState.LOADING
    for table in tables:
        table.state = state.value
        if fresh:
            table.load = uuid.uuid4().hex
            table.load_complete = False
            table.loaded = table.applied = table.last_chunk_sequence = -1
            table.live_from = sequence - 1
    _save(tables)
    return SnapshotRun.objects.bulk_create(
        SnapshotRun(table=table, reason=reason[:200], start_sequence=sequence, fresh=fresh,
            rows_estimate=table.rows_estimate)
        for table in tables
    )  # fmt: skip


def _save(tables: Sequence[ReplicatorTable]) -> None:
    """One as a whole, of many what begins with a run: in one statement what is the same in all."""
    if len(tables) == 1:
        tables[0].save()
        return
    save_many(tables, BEGUN)


def cancel_runs(*tables: ReplicatorTable) -> None:
    """Readers notice at their next question; what they still bring is not admitted.

    The runs are locked before their chunks are looked at: those that a planner was about to commit are among them then.
    """
    theirs = SnapshotRun.objects.filter(table__in=tables)
    runs = list(theirs.select_for_update(no_key=True, of=("self",)).filter(state__in=OPEN_RUN).order_by("id"))
    if runs:
        chunks = ChunkRow.objects.filter(run__in=runs).exclude(state=ChunkState.DONE)
        chunks.update(state=ChunkState.CANCELLED, attempt="")
        ended = theirs.filter(pk__in=[run.pk for run in runs])
        ended.update(state=RunState.CANCELLED, finished_at=timezone.now())


def clear_error(*tables: ReplicatorTable) -> None:
    """Counting begins again; open failures are resolved.  Does not save."""
    for table in tables:
        table.error_code = table.error_message = table.error_remedy = ""
        table.needs_reload = False
        table.attempt = 0
        table.first_failure_at = table.retry_at = None
    note_tried_again(*tables)


def replan(replicator: Replicator) -> None:
    """Capture reads its plan again."""
    Replicator.objects.filter(pk=replicator.pk).update(plan_version=F("plan_version") + 1)
