"""How many changes a second can be written beside the product on one machine until its lag grows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.data import traffic
from benchmarks.data.world import World
from benchmarks.freshness import Reader
from benchmarks.initial_load import say
from benchmarks.product import current, replicated, running, wait
from benchmarks.rates.places import place
from benchmarks.report import Row

TABLES, SECONDS, WARM = 10, 40.0, 0.5
RATES = (4_000, 8_000, 12_000, 16_000, 24_000, 32_000, 40_000, 48_000, 64_000, 80_000, 96_000, 128_000)
TIMES = 10  # hundred changes in a transaction: the writers are to leave the product something of the machine
P99, WRITTEN = 10.0, 0.95


def run(world: World[Any], seconds: float | None) -> list[Row]:
    """One rate after the other, `seconds` each after half as long that does not count, up to the first that is too
    high for the product, or for the writers.
    """
    seconds = seconds or SECONDS
    database = "bench_highest"
    names = traffic.make(world.source, database, TABLES)
    best, lag = 0.0, 0.0
    with (
        running(world),
        place(world) as where,
        replicated(world, database) as [replicator],
        Reader(where.look(database)) as reader,
    ):
        for rate in RATES:
            with traffic.Traffic(world.source, database, names, rate, TIMES) as writing:
                time.sleep(seconds * WARM)
                since = time.time()
                time.sleep(seconds)
                until = time.time()
            time.sleep(5)
            wait(lambda: current(replicator), "The target does not become current.")
            time.sleep(1)
            found = float(np.percentile(reader.lags(since, until), 99))
            say(f"highest: {rate:,} changes/s asked for, {writing.rate:,.0f} written, p99 {found:.2f} s")
            if found > P99 or writing.rate < WRITTEN * rate:
                break
            best, lag = writing.rate, found
    return [
        Row(f"highest: changes/s over {TABLES} tables beside their writers, p99 ≤ {P99:g} s", best, None, "none",
            met=True, unit="changes/s"),
        Row("highest: commit → queryable at that rate, p99", lag, None, f"≤ {P99:g} s", 0 < lag <= P99, "s"),
    ]  # fmt: skip
