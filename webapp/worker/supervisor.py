"""Reconciles what users want with what runs: hands replicators to tasks when no live lease holds them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.db import connection

from webapp.monitoring.models import Stage
from webapp.monitoring.services import note
from webapp.replicators.models import Desired, Replicator, Status
from webapp.worker.apply_store import with_work
from webapp.worker.chunk_store import has_work
from webapp.worker.database import clock, stored
from webapp.worker.failures import retry_ahead
from webapp.worker.leases import live_leases
from webapp.worker.models import Dispatch, WorkerHeartbeat
from webapp.worker.slices import lease_name

# A message that no worker took in this time expires in the broker, and is sent again.
DISPATCH_SECONDS = 15
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


@stored
def supervise(send: Send) -> None:
    """One round over all replicators."""
    WorkerHeartbeat.objects.update_or_create(name="supervisor", defaults={"role": "supervisor", "seen_at": clock()})
    live = live_leases()
    for replicator in Replicator.objects.all():
        reconcile(replicator, live, send)


@stored
def supervise_one(replicator_id: int, send: Send) -> None:
    """The same for one replicator: a slice that ended hands on without waiting for the next round."""
    replicator = Replicator.objects.filter(pk=replicator_id).first()
    if replicator is not None:
        reconcile(replicator, live_leases(), send)


@stored
def apply_soon(replicator_id: int, send: Send) -> None:
    """Something was journaled: an apply loop that does not run is asked for now, not at the next round."""
    live = live_leases()
    if lease_name(Stage.APPLY, replicator_id) not in live:
        replicator = Replicator.objects.filter(pk=replicator_id).first()
        if replicator is not None:
            reconcile(replicator, live, send)


def reconcile(replicator: Replicator, live: set[str], send: Send) -> None:
    """Desired → actual, one step."""
    held = {stage for stage in STAGES if lease_name(stage, replicator.pk) in live}
    if replicator.desired == Desired.RUNNING:
        if replicator.status != Status.FAILED:
            _run(replicator, held, send)
    elif held:
        _set_status(replicator, Status.DELETING if replicator.desired == Desired.DELETED else Status.STOPPING)
    elif replicator.desired == Desired.DELETED:
        if replicator.status != Status.FAILED and not retry_ahead(replicator.pk, Stage.CONTROL, clock()):
            _dispatch(f"delete:{replicator.pk}", DELETE_TASK, replicator.pk, send)
    elif replicator.status != Status.CREATED:
        _settle(replicator)


def _run(replicator: Replicator, held: set[Stage], send: Send) -> None:
    if replicator.status not in {Status.STARTING, Status.RUNNING, Status.RETRYING}:
        _set_status(replicator, Status.STARTING)
    now = clock()
    for stage in STAGES:
        if stage in held or retry_ahead(replicator.pk, stage, now) or not _has_work(stage, replicator.pk):
            continue
        _dispatch(lease_name(stage, replicator.pk), TASKS[stage], replicator.pk, send)


def _has_work(stage: Stage, replicator_id: int) -> bool:
    if stage is Stage.SNAPSHOT:
        return has_work(replicator_id)
    if stage is Stage.APPLY:
        return with_work(replicator_id).exists()
    return True


def _settle(replicator: Replicator) -> None:
    """Nothing of it runs any more."""
    status = Status.PAUSED if replicator.desired == Desired.PAUSED else Status.STOPPED
    if _set_status(replicator, status):
        note(replicator=replicator, kind="settled", summary=f"{status.label}: nothing of it runs any more")


def _set_status(replicator: Replicator, status: Status) -> bool:
    """Compare-and-set on what was seen: a user's newer word wins."""
    if replicator.status == status:
        return False
    seen = Replicator.objects.filter(pk=replicator.pk, desired=replicator.desired, status=replicator.status)
    changed = seen.update(status=status) == 1
    replicator.status = status
    return changed


def _dispatch(name: str, task: str, replicator_id: int, send: Send) -> None:
    if claim_dispatch(name):
        try:
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
    """When the supervisor was last seen."""
    return WorkerHeartbeat.objects.filter(name="supervisor").values_list("seen_at", flat=True).first()
