"""Ten thousand tables, of which a hundred change: their lag, and what one round of the supervisor takes."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from benchmarks.data import traffic
from benchmarks.data.world import World
from benchmarks.freshness import Reader
from benchmarks.initial_load import say
from benchmarks.latency import RATE
from benchmarks.product import current, replicated, running, wait
from benchmarks.rates.places import place
from benchmarks.report import Row

TABLES, HOT, SECONDS, WARM = 10_000, 100, 120.0, 0.25
ROUNDS = 20
P99, ROUND = 60.0, 100.0  # seconds, milliseconds


def run(world: World[Any], tables: int | None, seconds: float | None) -> list[Row]:
    """`tables` in place of the ten thousand."""
    tables, seconds = tables or TABLES, seconds or SECONDS
    database = "bench_hot"
    say(f"hot tables: making {tables:,}")
    names = traffic.make(world.source, database, tables, HOT)
    began = time.monotonic()
    with (
        running(world),
        place(world) as where,
        replicated(world, database) as [replicator],
    ):
        loaded = time.monotonic() - began
        say(f"hot tables: loaded in {loaded:.0f} s")
        with Reader(where.look(database)) as reader:
            with traffic.Traffic(world.source, database, names[:HOT], RATE) as writing:
                time.sleep(seconds * WARM)
                since = time.time()
                time.sleep(seconds / 2)
                rounds = _rounds()
                time.sleep(seconds / 2)
                until = time.time()
            time.sleep(5)
            wait(lambda: current(replicator), "The target does not become current.")
            time.sleep(1)
        lags = reader.lags(since, until)
    p99 = float(np.percentile(lags, 99))
    what = f"hot tables: {HOT} of {tables:,}"
    return [
        Row(f"{what}: seconds until all are loaded", loaded, None, "none", met=True, unit="s"),
        Row(f"{what}: changes/s written", writing.rate, RATE, "ratio ≥ 0.98", writing.rate >= 0.98 * RATE),
        Row(f"{what}: commit → queryable, p50 of {len(lags):,} rows", float(np.median(lags)), None, "none", met=True,
            unit="s"),
        Row(f"{what}: commit → queryable, p99", p99, None, f"≤ {P99:g} s", p99 <= P99, "s"),
        Row(f"{what}: a supervisor's round, median", statistics.median(rounds), None, f"≤ {ROUND:g} ms",
            statistics.median(rounds) <= ROUND, "ms"),
    ]  # fmt: skip


def _rounds() -> list[float]:
    """Milliseconds of rounds in this process, beside the product's own; what they would send is sent by those."""
    from webapp.worker.supervisor import supervise

    found = []
    for _ in range(ROUNDS):
        started = time.monotonic()
        supervise(lambda *_, **__: None)
        found.append(1000 * (time.monotonic() - started))
    return found
