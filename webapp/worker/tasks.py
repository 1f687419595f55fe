"""Celery tasks.  Arguments are ids (invariant 8); every task may be sent twice or never without harm."""

from __future__ import annotations

import gc
import logging
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import shared_task
from celery.signals import worker_init, worker_ready, worker_shutting_down
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections
from kombu.exceptions import OperationalError as BrokerUnreachable

from replicator.errors import TidemarkError
from replicator.sources.registry import KINDS
from webapp.alerts.delivery import deliver_due, due
from webapp.alerts.evaluation import evaluate
from webapp.celery import app
from webapp.database import clock
from webapp.monitoring.models import Stage
from webapp.monitoring.slo.gauges import look
from webapp.worker.run.spark import start_ahead
from webapp.worker.run.work_slice import lease_name, run_slice
from webapp.worker.supervisor import DISPATCH_SECONDS, apply_soon, claim_dispatch, dispatch_taken, supervise_one
from webapp.worker.supervisor import supervise as supervise_all
from webapp.worker.upkeep import garbage_collection, quiet_tables
from webapp.worker.upkeep.replicator_deletion import delete
from webapp.worker.upkeep.source_log_retention import watch

LOGGER = logging.getLogger("tidemark.worker")
DELIVERY = "deliver_alerts"
# Made before the pool forks, so that its children see it too: slices end at once when the worker stops.
STOPPING = multiprocessing.Event()


@worker_init.connect
def keep_what_is_imported(**_: object) -> None:
    """All modules are there and the pool is not: no garbage collection looks through them again, 0.1 s each time, and
    forks share them.
    """
    for kind in KINDS.values():
        kind.load()
    gc.freeze()


@worker_ready.connect
def warm_up(**_: object) -> None:
    """A worker that merges has its JVM before its first slice: a standby then takes over at once."""
    if _queue("tidemark.merge_slice") in app.amqp.queues.consume_from:
        start_ahead()


@worker_shutting_down.connect
def stop_slices(**_: object) -> None:
    """The supervisor hands what they held to other workers, or to this one when it is back."""
    STOPPING.set()


def send(task: str, replicator_id: int) -> None:
    """Into the task's queue; it expires when the supervisor may send it again."""
    _put(task, args=[replicator_id], queue=_queue(task))


def _put(task: str, **options: Any) -> None:
    """Send a task; BrokerUnreachable for any error: on a channel that breaks in use, kombu raises AttributeError."""
    try:
        app.send_task(task, expires=DISPATCH_SECONDS, **options)
    except BrokerUnreachable:
        raise
    except Exception as error:
        LOGGER.debug("Sending %s", task, exc_info=True)
        message = f"The broker did not accept {task}: {type(error).__name__}: {error}"
        raise BrokerUnreachable(message) from error


def _queue(task: str) -> str:
    routes = app.conf.task_routes
    return str(routes.get(task, {}).get("queue", "control"))


@shared_task(name="tidemark.supervise")
def supervise() -> None:
    """Every two seconds, by beat."""
    with _round("Supervisor round"):
        supervise_all(send)


@shared_task(name="tidemark.capture_slice")
def capture_slice(replicator_id: int) -> None:
    """Follow the log for a while."""
    _slice(Stage.CAPTURE, replicator_id)


@shared_task(name="tidemark.snapshot_slice")
def snapshot_slice(replicator_id: int) -> None:
    """Plan and read chunks for a while."""
    _slice(Stage.SNAPSHOT, replicator_id)


@shared_task(name="tidemark.merge_slice")
def merge_slice(replicator_id: int) -> None:
    """Apply what is journaled for a while."""
    _slice(Stage.APPLY, replicator_id)


@shared_task(name="tidemark.delete_replicator")
def delete_replicator_task(replicator_id: int) -> None:
    """Runs where Spark runs: it may have to drop tables."""
    with _round(f"Deleting replicator {replicator_id}"):
        try:
            delete(replicator_id)
        finally:
            dispatch_taken(f"delete:{replicator_id}")


@shared_task(name="tidemark.collect_garbage")
def collect_garbage() -> None:
    """Every five minutes, by beat."""
    with _round("Collecting garbage"):
        garbage_collection.collect()


@shared_task(name="tidemark.keep_quiet_tables")
def keep_quiet_tables() -> None:
    """Every hour, by beat; runs where Iceberg runs."""
    with _round("Maintaining idle tables"):
        quiet_tables.keep_quiet_tables()


@shared_task(name="tidemark.watch_logs")
def watch_logs() -> None:
    """Every thirty seconds, by beat."""
    with _round("Checking the log retention of sources"):
        watch()


@shared_task(name="tidemark.evaluate_alerts")
def evaluate_alerts() -> None:
    """Measure the backlog and evaluate alerts every thirty seconds, by beat.

    Messages are sent by another task, so that a channel that hangs does not delay this one.
    """
    with _round("Measuring the backlog"):
        look(clock())
    with _round("Evaluating SLOs and alerts"):
        evaluate()
        if due() and claim_dispatch(DELIVERY, 2 * DISPATCH_SECONDS):
            _put("tidemark.deliver_alerts", queue="control")


@shared_task(name="tidemark.deliver_alerts")
def deliver_alerts() -> None:
    """One at a time, so that the worker's other threads stay free; what is left is sent after the next round."""
    with _round("Sending alerts"):
        deliver_due()


def _slice(stage: Stage, replicator_id: int) -> None:
    name = lease_name(stage, replicator_id)

    def journaled() -> None:
        with _round(f"Scheduling the apply of replicator {replicator_id}"):
            apply_soon(replicator_id, send)

    worked = run_slice(
        stage,
        replicator_id,
        seconds=settings.TIDEMARK_SLICE_SECONDS,
        stopped=STOPPING.is_set,
        began=lambda: dispatch_taken(name),
        journaled=journaled,
    )
    if worked and not STOPPING.is_set():
        with _round(f"Scheduling {name}"):
            supervise_one(replicator_id, send)


@contextmanager
def _round(what: str) -> Iterator[None]:
    """Database or broker away: one line, and the next round does it."""
    close_old_connections()
    try:
        yield
    except TidemarkError as error:
        LOGGER.error("%s: %s", what, error.message)  # noqa: TRY400 - it says enough
    except (OperationalError, InterfaceError, BrokerUnreachable) as error:
        LOGGER.error("%s: %s", what, str(error).strip())  # noqa: TRY400 - the same
    finally:
        close_old_connections()
