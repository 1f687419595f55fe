"""Seconds from the start of a capture worker's process until it takes tasks, with its kernels to compile, and with them
in the cache.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks.data.world import ROOT, World
from benchmarks.report import Row
from webapp.embedded.redis import EmbeddedRedis

READY = "takes tasks"
WORKER = f"""
from celery.signals import worker_ready
from webapp.celery import app
worker_ready.connect(lambda **_: print("{READY}", flush=True), weak=False)
app.worker_main(["worker", "-Q", "capture", "--pool", "threads", "-c", "8"])
"""
TIMEOUT = 600.0


def run(world: World[Any], repeats: int) -> list[Row]:
    """Measure the start of a worker; the figures have no goal."""
    cold, warm = [], []
    redis = EmbeddedRedis(world.folder / "redis")
    redis.start()
    try:
        for turn in range(repeats):
            with tempfile.TemporaryDirectory(dir=world.folder) as cache:
                environment = {**world.environment, "REDIS_URL": redis.url, "NUMBA_CACHE_DIR": cache}
                cold.append(seconds(environment))
                warm.append(seconds(environment))
            print(f"worker {turn + 1}: {cold[-1]:.1f} s cold, {warm[-1]:.1f} s warm", file=sys.stderr)
    finally:
        redis.stop()
    name = "capture worker: ready to take tasks, kernels"
    return [
        Row(f"{name} to be compiled (first start without `make kernels`)", statistics.median(cold), None, "none",
            met=True, unit="s"),
        Row(f"{name} from the cache", statistics.median(warm), None, "none", met=True, unit="s"),
    ]  # fmt: skip


def seconds(environment: dict[str, str]) -> float:
    """SystemExit with what the worker said where it does not come up."""
    begun, said = time.monotonic(), []
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True
    )  # fmt: skip
    try:
        assert worker.stdout
        for line in worker.stdout:
            said.append(line)
            if READY in line:
                return time.monotonic() - begun
            if time.monotonic() - begun > TIMEOUT:
                break
        sys.exit("the worker did not come up:\n" + "".join(said[-40:]))
    finally:
        worker.terminate()
        worker.communicate()
