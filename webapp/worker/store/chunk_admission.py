"""What capture's verdict does to chunks: admitted, read again, given a base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from django.db import connection
from django.db.models import Exists, OuterRef

from replicator.state.journal import ClosedChunk
from webapp.database import clock
from webapp.monitoring.models import TimelineEvent
from webapp.monitoring.services import timeline_event
from webapp.replicators.models import ChunkRow, ChunkState, ReplicatorTable, RunState, SnapshotRun

UNDER_WAY = (ChunkState.READING, ChunkState.READ)
OVER = (
    "created_at", "started_at", "finished_at", "rows_read", "reason", "scope", "condition", "table__database",
    "table__name",
    "table__replicator__name",
)  # fmt: skip
OPEN = (ChunkState.PLANNED, *UNDER_WAY)
ROWS_READ = """
UPDATE replicators_snapshotrun r SET rows_read = rows_read + read.rows
FROM unnest(%s::bigint[], %s::bigint[]) AS read (run, rows) WHERE r.id = read.run
"""


def admit(closed: Collection[ClosedChunk]) -> dict[tuple[int, str], ChunkRow]:
    """Admit read chunks; return them by id and attempt.  Obsolete readings are left out, and so are their rows."""
    if not closed:
        return {}
    runs = {one.run for one in closed}  # locked before their chunks, as in `cancel_runs`
    list(SnapshotRun.objects.select_for_update(no_key=True).filter(pk__in=runs).order_by("id").values_list("pk"))
    attempts = {(one.chunk, one.attempt) for one in closed}
    chunks = ChunkRow.objects.filter(pk__in={chunk for chunk, _ in attempts})
    read = chunks.select_for_update(no_key=True).filter(state=ChunkState.READ).order_by("id")
    present = {key: row for row in read if (key := (row.pk, row.attempt)) in attempts}
    chunks.filter(pk__in=[chunk for chunk, _ in present]).update(state=ChunkState.DONE)
    rows: Counter[int] = Counter()
    for row in present.values():
        rows[row.run_id] += row.rows
    with connection.cursor() as cursor:
        cursor.execute(ROWS_READ, [list(rows), list(rows.values())])
    _finish_those_read({row.run_id for row in present.values()})
    return present


def _finish_those_read(runs: Collection[int]) -> None:
    """DONE where every chunk is admitted."""
    open_ = ChunkRow.objects.filter(run=OuterRef("pk"), state__in=OPEN)
    whole = SnapshotRun.objects.filter(~Exists(open_), pk__in=runs, planned_all=True, state=RunState.READING)
    ended = list(whole.values_list("pk", flat=True))
    SnapshotRun.objects.filter(pk__in=ended).update(state=RunState.DONE, finished_at=clock())
    _note_over(ended)


def note_began(runs: Iterable[SnapshotRun]) -> None:
    """A line of the timeline for each."""
    TimelineEvent.objects.bulk_create(
        timeline_event(
            replicator=run.table.replicator,
            kind="snapshot_began",
            summary=f"Snapshot of {run.what} started: {run.reason}",
            table=str(run.table),
        )
        for run in runs
    )


def _note_over(runs: Collection[int]) -> None:
    """A line of the timeline for each, with what it read."""
    if not runs:
        return
    found = SnapshotRun.objects.select_related("table__replicator").only(*OVER).filter(pk__in=runs)
    TimelineEvent.objects.bulk_create(_over(run) for run in found.order_by("id"))


def _over(run: SnapshotRun) -> TimelineEvent:
    began, ended = run.started_at or run.created_at, run.finished_at
    seconds = round((ended - began).total_seconds(), 1) if ended else 0
    rows = f"{run.rows_read:,} row{'' if run.rows_read == 1 else 's'}"
    return timeline_event(
        replicator=run.table.replicator,
        kind="snapshot_done",
        summary=f"Snapshot of {run.what} read: {rows} in {seconds:g} s",
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

    Another one's opened mark may come after it: of a reader that stood still, and does not know yet that its claim is
    over.
    """
    for (run, attempt), sequence in bases.items():
        present = ChunkRow.objects.filter(run_id=run, attempt=attempt, state__in=UNDER_WAY)
        if present.update(base_sequence=sequence):
            ReplicatorTable.objects.filter(runs=run).update(live_from=sequence)
