"""What capture's verdict does to chunks: admitted, read again, given a base."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from django.db.models import F

from replicator.state.journal import ClosedChunk
from webapp.monitoring.models import TimelineEvent
from webapp.monitoring.services import note, timeline_event
from webapp.replicators.models import ChunkRow, ChunkState, ReplicatorTable, RunState, SnapshotRun
from webapp.worker.database import clock

UNDER_WAY = (ChunkState.READING, ChunkState.READ)
OPEN = (ChunkState.PLANNED, *UNDER_WAY)


def admit(closed: ClosedChunk) -> ChunkRow | None:
    """None where this reading of the chunk is no longer wanted (its rows are not either)."""
    SnapshotRun.objects.select_for_update(no_key=True).filter(pk=closed.run).first()  # as whoever cancels it does
    row = ChunkRow.objects.filter(pk=closed.chunk).first()
    present = ChunkRow.objects.filter(pk=closed.chunk, attempt=closed.attempt, state=ChunkState.READ)
    if row is None or present.update(state=ChunkState.DONE) != 1:
        return None
    SnapshotRun.objects.filter(pk=row.run_id).update(rows_read=F("rows_read") + row.rows)
    finish_if_last(row.run_id)
    return row


def finish_if_last(run_id: int) -> None:
    """DONE when every chunk is admitted."""
    if not ChunkRow.objects.filter(run_id=run_id, state__in=OPEN).exists():
        ended = SnapshotRun.objects.filter(pk=run_id, planned_all=True, state=RunState.READING)
        if ended.update(state=RunState.DONE, finished_at=clock()):
            note_over(run_id)


def note_began(runs: Iterable[SnapshotRun]) -> None:
    """A line of the timeline for each."""
    TimelineEvent.objects.bulk_create(
        timeline_event(
            replicator=run.table.replicator,
            kind="snapshot_began",
            summary=f"Snapshot of {run.what} began: {run.reason}",
            table=str(run.table),
        )
        for run in runs
    )


def note_over(run_id: int) -> None:
    """A line of the timeline, with what it read."""
    run = SnapshotRun.objects.select_related("table__replicator").get(pk=run_id)
    began, ended = run.started_at or run.created_at, run.finished_at
    seconds = round((ended - began).total_seconds(), 1) if ended else 0
    rows = f"{run.rows_read:,} row{'' if run.rows_read == 1 else 's'}"
    note(
        replicator=run.table.replicator,
        kind="snapshot_done",
        summary=f"Snapshot of {run.what} is read: {rows} in {seconds:g} s",
        table=str(run.table),
        detail={"rows": run.rows_read, "seconds": seconds, "reason": run.reason},
    )


def reopen(chunks: Iterable[tuple[int, str]]) -> None:
    """To be read again, if this reading is still the present one."""
    for chunk, attempt in chunks:
        ChunkRow.objects.filter(pk=chunk, attempt=attempt, state__in=UNDER_WAY).update(
            state=ChunkState.PLANNED, attempt="", owner="", claimed_until=None, base_sequence=None, read_at=None
        )


def meet(replicator_id: int, plans: Collection[str]) -> None:
    """Marks of plans that are in the log."""
    if plans:
        SnapshotRun.objects.filter(table__replicator=replicator_id, plan__in=plans).update(plan_met=True)


def set_bases(bases: Mapping[tuple[int, str], int]) -> None:
    """Keyless tables: the sequence number that the rows of the one chunk stand for, as its present attempt read them.

    Another one's opened mark may come after it: of a reader that stood still, and does not know yet that its claim is over.
    """
    for (run, attempt), sequence in bases.items():
        present = ChunkRow.objects.filter(run_id=run, attempt=attempt, state__in=UNDER_WAY)
        if present.update(base_sequence=sequence):
            ReplicatorTable.objects.filter(runs=run).update(live_from=sequence)
