"""A worker writes heartbeats in each kind of pool."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from webapp.worker.models import WorkerHeartbeat

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[3]
PATIENCE, BEATS_APART = 60.0, 20.0


def seen(after: datetime | None = None) -> datetime:
    """When the worker was heard of; waits for a sign of life later than `after`."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        row = WorkerHeartbeat.objects.filter(role="snapshot").first()
        if row is not None and (after is None or row.seen_at > after):
            return row.seen_at
        time.sleep(0.2)
    pytest.fail("The worker is not heard of.")


@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=pytest.mark.long)])
def test_a_worker_is_heard_of_again_and_again(redis_url: str, tmp_path: Path, pool: str) -> None:
    url, _, _ = settings.DATABASE_URL.rpartition("/")
    environment = {
        **os.environ,
        "DATABASE_URL": f"{url}/{connection.settings_dict['NAME']}",
        "REDIS_URL": redis_url,
        "TIDEMARK_HOME": str(tmp_path),
    }
    command = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "webapp.celery",
        "worker",
        "-Q",
        "snapshot",
        "--pool",
        pool,
        "-c",
        "1",
    ]
    worker = subprocess.Popen([*command, "--without-gossip", "--without-mingle"], cwd=ROOT, env=environment)
    try:
        first = seen()
        assert (seen(first) - first).total_seconds() == pytest.approx(BEATS_APART, abs=5)
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
    assert WorkerHeartbeat.objects.get().name.startswith("celery@")
