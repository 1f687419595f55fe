"""What capture's events do to a table's row: tracked, created, dropped, renamed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace

from replicator.model.identifiers import TableId
from replicator.state.tables import TableState
from webapp.monitoring.dead_letters.services import resolve
from webapp.monitoring.models import Resolution
from webapp.monitoring.services import note
from webapp.replicators.models import Replicator, ReplicatorTable, SnapshotRun, TableSelection
from webapp.replicators.selection.entries import PROTECTIONS, SelectionEntry
from webapp.replicators.selectors import table_set
from webapp.replicators.services.tables import OPEN_RUN, begin_runs, cancel_runs, clear_error, replan


def tracked(replicator: Replicator, rows: Sequence[ReplicatorTable], next_sequence: int) -> None:
    """Capture follows these tables from `next_sequence` on: what waited for that may begin.  Saves them."""
    for row in rows:
        row.tracked = True
    waiting = [row for row in rows if row.table_state is TableState.WAITING]
    if replicator.parsed_options.initial_snapshot:
        begin_runs(waiting, TableState.LOADING, sequence=next_sequence, reason="initial load")
    else:
        for row in waiting:
            stream(row, next_sequence - 1)
    known = set(waiting)
    for row in rows:
        if row not in known:
            _follow(row, next_sequence)


def _follow(row: ReplicatorTable, next_sequence: int) -> None:
    """One whose state goes on."""
    runs = SnapshotRun.objects.filter(table=row, state__in=OPEN_RUN)
    if row.table_state is TableState.LOADING:
        row.live_from = next_sequence - 1
    runs.update(start_sequence=next_sequence)
    row.save()


def stream(row: ReplicatorTable, live_from: int) -> None:
    """A new generation that starts without a snapshot.  Saves it."""
    row.state = TableState.STREAMING.value
    row.tracked = True
    row.load, row.load_complete = uuid.uuid4().hex, True
    row.live_from = row.applied = live_from
    row.loaded = -1
    row.save()


def created(row: ReplicatorTable, sequence: int) -> None:
    """CREATE TABLE met in the log: the table is empty, so the log alone is enough."""
    cancel_runs(row)
    clear_error(row)
    resolve(row, Resolution.GONE)
    stream(row, sequence)
    note(replicator=row.replicator, kind="table_created", summary=f"{row} was created in the source", table=str(row))


def dropped(row: ReplicatorTable, *, kept: bool = False) -> None:
    """What is pending is still applied: the event tells the apply loop.  kept: by policy, its copy stays in the
    target.
    """
    cancel_runs(row)
    clear_error(row)
    resolve(row, Resolution.GONE)
    row.state = TableState.DROPPED.value
    row.tracked = False
    row.save()
    decision = "the target table is kept by policy" if kept else "the target table is dropped"
    summary = f"{row} was dropped in the source: {decision}"
    detail = {"decision": decision}
    note(replicator=row.replicator, kind="table_dropped", summary=summary, table=str(row), detail=detail)


def carry_protections(replicator: Replicator, carried: Iterable[tuple[TableId, TableId]]) -> None:
    """Add what the line of each old name excludes, masks and filters to the line of the new name (invariant 12).

    The old name's line stays, for a table that then has this name.  Capture and snapshots go on with the new lines.
    """
    lines = {(line.database, line.table): line for line in replicator.selection.filter(pattern=False)}
    changed = set()
    for old, new in carried:
        before, place = lines.get((old.database, old.name)), (new.database, new.name)
        if before is None or not any(getattr(before, name) for name in PROTECTIONS):
            continue
        line = lines.get(place) or TableSelection(
            replicator=replicator, database=new.database, table=new.name, discovered=True, mode=before.mode
        )
        own, moved = SelectionEntry.of(line), SelectionEntry.of(before)
        left_out = {*own.excluded_columns, *moved.excluded_columns}
        both = replace(
            own,
            excluded_columns=tuple(sorted(left_out)),
            masks={name: mask for name, mask in {**moved.masks, **own.masks}.items() if name not in left_out},
            row_filter=own.row_filter.both(moved.row_filter),
        )
        if own.excluded or (line.pk is not None and both == own):
            continue
        for name, value in both.stored.items():
            setattr(line, name, value)
        lines[place] = line
        line.save()
        changed.add(str(new))
    if changed:
        replan(replicator)


def renamed(row: ReplicatorTable, new: TableId) -> None:
    """The row keeps its history under the new name; the target's name follows when the apply loop meets the event."""
    old = str(row)
    lines = TableSelection.objects.filter(replicator=row.replicator)
    before = lines.filter(database=row.database, table=row.name, pattern=False).first()
    row.database, row.name = new.database, new.name
    row.save()
    if new not in table_set(row.replicator):
        TableSelection.objects.update_or_create(
            replicator=row.replicator,
            database=new.database,
            table=new.name,
            defaults={
                "excluded": False,
                "discovered": True,
                "excluded_columns": before.excluded_columns if before else [],
                "mode": before.mode if before else "",
                "masks": before.masks if before else {},
                "row_filter": before.row_filter if before else "",
            },
        )
    kept = [name.replace("_", " ") for name in PROTECTIONS if before and getattr(before, name)]
    summary = f"{old} was renamed to {row}" + (f"; it keeps its {', '.join(kept)}" if kept else "")
    note(replicator=row.replicator, kind="table_renamed", summary=summary, table=str(row))
