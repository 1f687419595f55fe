"""Removing a replicator: the target's tables if asked for, staged files, rows."""

from __future__ import annotations

import logging
import uuid

from replicator.engine.reporting import Level
from replicator.faults import reach
from replicator.targets.base import Drop, TargetTable
from webapp.monitoring.models import Stage
from webapp.replicators.models import Desired, Replicator
from webapp.worker import wiring
from webapp.worker.failures import stage_failed
from webapp.worker.leases import OrmLeaseStore, forget, live_leases
from webapp.worker.policy import as_tidemark
from webapp.worker.slices import LEASES, lease_name

LOGGER = logging.getLogger("tidemark.worker")


def delete(replicator_id: int) -> bool:
    """True when it is gone.  Waits (by being sent again) while anything of it runs; failures are retried by the policy."""
    replicator = (
        Replicator.objects.select_related("connection").filter(pk=replicator_id, desired=Desired.DELETED).first()
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
        wiring.storage().delete_tree(wiring.label(replicator))
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


def _drop_tables(replicator: Replicator) -> None:
    """Only those that this replicator has made."""
    target = wiring.open_target(replicator)
    for row in replicator.tables.exclude(made_load=""):
        target.apply(TargetTable(row.target_namespace, row.target_name), Drop())
