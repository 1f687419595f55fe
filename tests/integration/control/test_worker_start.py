"""What a worker does before it takes tasks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

# Celery's own start, up to where the pool would be made.
WORKER = """
import gc
from celery.signals import celeryd_after_setup
from webapp.celery import app

def said(**_):
    print("looked at:", len(gc.get_objects()), "not any more:", gc.get_freeze_count())
    raise SystemExit

celeryd_after_setup.connect(said, weak=False)
app.worker_main(["worker", "-Q", "capture", "--pool", "threads", "-c", "2"])
"""


def test_what_is_imported_is_kept_from_garbage_collection() -> None:
    worker = subprocess.run([sys.executable, "-W", "ignore", "-c", WORKER], cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=120)  # fmt: skip
    found = [int(word) for word in worker.stdout.split() if word.isdigit()]
    assert len(found) == 2, worker.stderr
    looked_at, kept = found
    assert looked_at < 20_000
    assert kept > 100_000
