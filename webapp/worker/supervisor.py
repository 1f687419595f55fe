"""Reconciles what users want with what runs: hands replicators to tasks when no live lease holds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from webapp.database import clock, stored
from webapp.monitoring.models import Stage
from webapp.monitoring.services import note
from webapp.replicators.models import ChunkRow, ChunkState, Desired, Replicator, RunState, SnapshotRun, Status
from webapp.worker.failure.failures import retries_ahead
from webapp.worker.lease.lease_store import live_and_lost, live_leases
from webapp.worker.models import Dispatch, WorkerHeartbeat
from webapp.worker.run.work_slice import lease_name
from webapp.worker.store.apply_store import with_work
from webapp.worker.store.chunk_store import has_work

# A message that no worker took in this time expires in the broker.
DISPATCH_SECONDS = 15
# It is sent again before: the broker may have given it to a worker that is frozen.  Of two that are taken, one finds
# the lease held.
AGAIN_SECONDS = 3
# of a message that takes over from an owner who is gone: that one may still take messages, and do nothing with them
COPIES = 3
SUPERVISOR = "supervisor"
WAITS = 200  # characters of Replicator.snapshot_waits
HEARTBEAT = timedelta(seconds=10)
STAGES = (Stage.CAPTURE, Stage.SNAPSHOT, Stage.APPLY)
CLAIM = """
INSERT INTO worker_dispatch (name, until) VALUES (%s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (name) DO UPDATE SET until = EXCLUDED.until WHERE worker_dispatch.until <= clock_timestamp()
RETURNING name
"""
# (task, replicator id): puts a task into its queue; a parameter, so that tests see what would be sent.
Send = Callable[[str, int], None]
TASKS = {
    Stage.CAPTURE: "tidemark.capture_slice",
    Stage.SNAPSHOT: "tidemark.snapshot_slice",
    Stage.APPLY: "tidemark.merge_slice",
}
DELETE_TASK = "tidemark.delete_replicator"


@dataclass(frozen=True)
class WorkOverview:
    """What a round is based on, read once for all replicators with a fixed number of queries.

    live, lost: names of live leases, and of those that ran out; waiting: (replicator, stage) whose retry time is ahead;
    loading: replicators with an open snapshot run;
    pending: those whose apply loop has something to do.
    """

    live: set[str]
    lost: set[str]
    waiting: set[tuple[int, str]]
    loading: set[int]
    pending: set[int]

    def held(self, replicator_id: int) -> set[Stage]:
        """Stages whose lease is live."""
        return {stage for stage in STAGES if lease_name(stage, replicator_id) in self.live}

    def has_work(self, stage: Stage, replicator_id: int) -> bool:
        """Is there anything to do for it that need not wait?"""
        if (replicator_id, stage.value) in self.waiting:
            return False
        if stage is Stage.SNAPSHOT:
            return replicator_id in self.loading and has_work(replicator_id)
        return stage is not Stage.APPLY or replicator_id in self.pending


def look(replicator_id: int | None = None) -> WorkOverview:
    """At all replicators, or at one."""
    runs = SnapshotRun.objects.filter(state__in=(RunState.PLANNING, RunState.READING))
    if replicator_id is not None:
        runs = runs.filter(table__replicator_id=replicator_id)
    live, lost = live_and_lost()
    return WorkOverview(
        live=live,
        lost=lost,
        waiting=retries_ahead(clock(), replicator_id),
        loading=set(runs.values_list("table__replicator_id", flat=True).order_by().distinct()),
        pending=set(with_work(replicator_id).values_list("replicator_id", flat=True).order_by().distinct()),
    )


@stored
def supervise(send: Send) -> None:
    """One round over all replicators."""
    _say_alive()
    overview = look()
    for replicator in Replicator.objects.all():
        reconcile(replicator, overview, send)


def _say_alive() -> None:
    """A round that is soon after another writes nothing."""
    now = clock()
    if not WorkerHeartbeat.objects.filter(name=SUPERVISOR, seen_at__gt=now - HEARTBEAT).exists():
        WorkerHeartbeat.objects.update_or_create(name=SUPERVISOR, defaults={"role": SUPERVISOR, "seen_at": now})


@stored
def supervise_one(replicator_id: int, send: Send) -> None:
    """The same for one replicator: a slice that ended hands on without waiting for the next round."""
    replicator = Replicator.objects.filter(pk=replicator_id).first()
    if replicator is not None:
        reconcile(replicator, look(replicator_id), send)


@stored
def apply_soon(replicator_id: int, send: Send) -> None:
    """Something was journaled: an apply loop that does not run is asked for now, not at the next round."""
    if lease_name(Stage.APPLY, replicator_id) not in live_leases():
        supervise_one(replicator_id, send)


def reconcile(replicator: Replicator, overview: WorkOverview, send: Send) -> None:
    """Desired → actual, one step."""
    held = overview.held(replicator.pk)
    if replicator.desired == Desired.RUNNING:
        if replicator.status != Status.FAILED:
            _run(replicator, held, overview, send)
    elif held:
        _set_status(replicator, Status.DELETING if replicator.desired == Desired.DELETED else Status.STOPPING)
    elif replicator.desired == Desired.DELETED:
        name = f"delete:{replicator.pk}"
        if (
            replicator.status != Status.FAILED
            and overview.has_work(Stage.CONTROL, replicator.pk)
            and claim_dispatch(name)
        ):
            _send(name, DELETE_TASK, replicator.pk, send)
    elif replicator.status != Status.CREATED:
        _settle(replicator)


def _run(replicator: Replicator, held: set[Stage], overview: WorkOverview, send: Send) -> None:
    if replicator.status not in {Status.STARTING, Status.RUNNING, Status.RETRYING}:
        _set_status(replicator, Status.STARTING)
    for stage in STAGES:
        name = lease_name(stage, replicator.pk)
        if stage in held or not overview.has_work(stage, replicator.pk):
            continue
        sent_before = stage is Stage.SNAPSHOT and Dispatch.objects.filter(name=name).exists()
        if claim_dispatch(name, AGAIN_SECONDS):
            if sent_before:
                _say_what_it_waits_for(replicator, overview)
            _send(name, TASKS[stage], replicator.pk, send, copies=COPIES if name in overview.lost else 1)


def _say_what_it_waits_for(replicator: Replicator, overview: WorkOverview) -> None:
    """No worker has taken its snapshot: all are busy with others'.

    The snapshot itself takes it back when it begins.
    """
    at_work = [int(name.partition(":")[2]) for name in overview.live if name.startswith("snapshot:")]
    under_way = ChunkRow.objects.filter(state=ChunkState.READING, run__table__replicator__in=at_work).order_by("id")
    reading = [
        f"{one.run.table.replicator} ({one.run.table})" for one in under_way.select_related("run__table__replicator")
    ]
    why = f"a free snapshot worker; at work: {', '.join(sorted(set(reading)))}" if reading else "a snapshot worker"
    Replicator.objects.filter(pk=replicator.pk).exclude(snapshot_waits=why[:WAITS]).update(snapshot_waits=why[:WAITS])


def _settle(replicator: Replicator) -> None:
    """Nothing of it runs any more."""
    status = Status.PAUSED if replicator.desired == Desired.PAUSED else Status.STOPPED
    if _set_status(replicator, status):
        note(replicator=replicator, kind="settled", summary=f"{status.label}: all its tasks have stopped")


def _set_status(replicator: Replicator, status: Status) -> bool:
    """Compare-and-set on what was seen: a user's newer word wins."""
    if replicator.status == status:
        return False
    seen = Replicator.objects.filter(pk=replicator.pk, desired=replicator.desired, status=replicator.status)
    changed = seen.update(status=status) == 1
    replicator.status = status
    return changed


def _send(name: str, task: str, replicator_id: int, send: Send, copies: int = 1) -> None:
    """What was claimed.  Of several copies one gets the lease; the others find it held."""
    try:
        for _ in range(copies):
            send(task, replicator_id)
    except Exception:
        dispatch_taken(name)  # nothing was sent, so the next round need not wait
        raise


def claim_dispatch(name: str, seconds: float = DISPATCH_SECONDS) -> bool:
    """Compare-and-set: queues are not flooded, however many supervisors there are."""
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, [name, seconds])
        return cursor.fetchone() is not None


def dispatch_taken(name: str) -> None:
    """A task has begun (its lease speaks for it from here on): another may be sent when it ends."""
    Dispatch.objects.filter(name=name).delete()


def last_round() -> datetime | None:
    """When the supervisor was last seen, to `HEARTBEAT`."""
    return WorkerHeartbeat.objects.filter(name=SUPERVISOR).values_list("seen_at", flat=True).first()
