"""The Celery application: four queues, JSON only, no results; task arguments are ids (invariant 8)."""

from __future__ import annotations

import os

from celery import Celery
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
os.environ.setdefault("CELERY_SKIP_CHECKS", "true")  # they load every page into a worker, which shows none

from django.conf import settings

QUEUES = ("control", "capture", "snapshot", "merge")

app = Celery("tidemark", broker=settings.REDIS_URL or "redis://127.0.0.1:6379/0")
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    task_acks_late=False,  # duplicates are harmless and losses are found: the supervisor dispatches again
    task_queues=[Queue(name, Exchange(name), routing_key=name) for name in QUEUES],
    task_default_exchange="control",
    task_default_routing_key="control",
    task_default_queue="control",
    task_create_missing_queues=False,
    task_routes={
        "tidemark.capture_slice": {"queue": "capture"},
        "tidemark.snapshot_slice": {"queue": "snapshot"},
        "tidemark.merge_slice": {"queue": "merge"},
        "tidemark.delete_replicator": {"queue": "merge"},
        "tidemark.keep_quiet_tables": {"queue": "merge"},
    },
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 3600, "socket_timeout": 15, "socket_keepalive": True},
    beat_scheduler="webapp.beat:SteadyScheduler",
    beat_schedule={
        "supervise": {"task": "tidemark.supervise", "schedule": 2.0, "options": {"expires": 10}},
        "watch_logs": {"task": "tidemark.watch_logs", "schedule": 30.0, "options": {"expires": 25}},
        "evaluate_alerts": {"task": "tidemark.evaluate_alerts", "schedule": 30.0, "options": {"expires": 25}},
        "collect_garbage": {"task": "tidemark.collect_garbage", "schedule": 300.0, "options": {"expires": 250}},
        "keep_quiet_tables": {"task": "tidemark.keep_quiet_tables", "schedule": 3600.0, "options": {"expires": 3000}},
    },
    timezone="UTC",
)
if settings.TIDEMARK_OPENLINEAGE_URL or settings.TIDEMARK_OPENLINEAGE_FILE:
    app.conf.beat_schedule["tell_lineage"] = {
        "task": "tidemark.tell_lineage", "schedule": 15.0, "options": {"expires": 12},
    }  # fmt: skip
# By default Celery closes the database connection before and after each task.  Here Django's CONN_MAX_AGE and health
# checks decide (`close_old_connections` in every task): a round every two seconds is not worth a login.
app.conf["CELERY_DB_REUSE_MAX"] = 1_000_000
app.autodiscover_tasks(["webapp.worker", "webapp.telemetry"])
