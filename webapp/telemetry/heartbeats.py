"""Signs of life of the workers: a row for each, written by a thread of the worker's main process."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Any

from celery.concurrency.prefork import TaskPool as ForkingPool
from celery.signals import worker_ready, worker_shutting_down
from django.db import DatabaseError, InterfaceError, connection

LOGGER = logging.getLogger("tidemark.worker")
BEAT_SECONDS = 20.0  # a pool that forks logs in for each
NAME, ROLE = 150, 20
# The commit does not wait for the disk: a heartbeat that is lost when the database crashes does not matter.
BEAT = """
WITH quick AS (SELECT set_config('synchronous_commit', 'off', true))
INSERT INTO worker_workerheartbeat (name, role, seen_at) SELECT %s, %s, clock_timestamp() FROM quick
ON CONFLICT (name) DO UPDATE SET role = EXCLUDED.role, seen_at = EXCLUDED.seen_at
"""
_over = threading.Event()


def beat(name: str, queues: list[str]) -> None:
    """One sign of life, in one statement; a role is the queue that the worker serves, or `several`."""
    role = queues[0] if len(queues) == 1 else "several"
    with connection.cursor() as cursor:
        cursor.execute(BEAT, [name[:NAME], role[:ROLE]])


@worker_ready.connect
def begin(sender: Any = None, **_: object) -> None:
    """From now on.  Children of a pool that forks must not inherit a connection: there it is closed after each sign."""
    queues = sorted(sender.app.amqp.queues.consume_from)
    forks = isinstance(sender.pool, ForkingPool)
    threading.Thread(
        target=partial(_go_on, str(sender.hostname), queues, forks=forks), name="heartbeat", daemon=True
    ).start()


@worker_shutting_down.connect
def end(**_: object) -> None:
    """Stop the heartbeats of a worker that shuts down."""
    _over.set()


def _go_on(name: str, queues: list[str], *, forks: bool) -> None:
    while not _over.is_set():
        try:
            beat(name, queues)
        except (DatabaseError, InterfaceError) as error:
            LOGGER.warning("Heartbeat of %s could not be written: %s", name, str(error).strip())
            connection.close()
        if forks:
            connection.close()
        _over.wait(BEAT_SECONDS)
    connection.close()
