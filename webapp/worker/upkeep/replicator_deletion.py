"""Removing a replicator: the target's tables if asked for, staged files, what it made on the source, rows."""

from __future__ import annotations

import logging
import uuid
from contextlib import closing

from replicator.engine.reporting import Level
from replicator.errors import TidemarkError
from replicator.faults import reach
from replicator.targets.base import Drop
from webapp.monitoring.models import Stage
from webapp.replicators.models import Desired, Replicator
from webapp.replicators.staging import storage
from webapp.worker.failure.failures import stage_failed
from webapp.worker.failure.retry_policy import as_tidemark
from webapp.worker.lease.lease_store import OrmLeaseStore, forget, live_leases
from webapp.worker.run import wiring
from webapp.worker.run.work_slice import LEASES, lease_name

_LEAVE = "Or delete the replicator again without cleaning up the source. Its slot then has to be dropped manually."
LOGGER = logging.getLogger("tidemark.worker")


def delete(replicator_id: int) -> bool:
    """True when it is gone.

    Waits (by being sent again) while anything of it runs; failures are retried by the policy.
    """
    replicator = (
        Replicator.objects.select_related("connection", "destination")
        .filter(pk=replicator_id, desired=Desired.DELETED)
        .first()
    )
    if replicator is None or any(lease_name(stage, replicator_id) in live_leases() for stage in LEASES):
        return False
    lease = OrmLeaseStore().acquire(f"delete:{replicator_id}", uuid.uuid4().hex, seconds=600)
    if lease is None:
        return False
    try:
        if replicator.drop_target_on_delete:
            reach("delete.target.before")
            _drop_tables(replicator)
        reach("delete.files.before")
        storage().delete_tree(wiring.label(replicator))
        reach("delete.source.before")
        _clear_source(replicator)
        reach("delete.rows.before")
    except Exception as error:
        known = as_tidemark(error)
        LOGGER.warning("Deleting %s failed", replicator.name, exc_info=error)
        wiring.reporter(replicator, Stage.CONTROL).log(Level.ERROR, known.message, code=known.code)
        stage_failed(replicator_id, Stage.CONTROL, known)
        return False
    finally:
        OrmLeaseStore().release(lease)
    replicator.delete()
    forget([*(lease_name(stage, replicator_id) for stage in LEASES), f"delete:{replicator_id}"])
    return True


def _clear_source(replicator: Replicator) -> None:
    """Slot, publication and marks.  A source that does not answer is asked again for as long as the policy says.

    It holds nothing up where the user said so, and where capture never ran: the log then says what may be left behind.
    """
    label = wiring.label(replicator)
    try:
        with wiring.opened_source(replicator) as source:
            source.log(label).remove()
    except TidemarkError as error:
        if not replicator.leave_source_on_delete and replicator.captured_at is not None:
            error.remedy = f"{error.remedy} {_LEAVE}"
            raise
        left = (
            f"Deleted without cleaning up the source, where objects of {label} (slot, publication, watermarks) may"
            f" remain: {error.message}"
        )
        wiring.reporter(replicator, Stage.CONTROL).log(Level.WARNING, left, code=error.code)


def _drop_tables(replicator: Replicator) -> None:
    """Only those that this replicator has made."""
    with closing(wiring.open_target(replicator)) as target:
        for row in replicator.tables.exclude(made_load=""):
            target.apply(row.target, Drop(whole=True))
