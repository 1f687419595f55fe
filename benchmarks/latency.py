"""Commit at the source → queryable in the target, everything on this one machine; and what an idle product costs.

Measured from outside: the writer stamps rows with its clock (`traffic`), a reader of the Iceberg tables says when it first met them
(`freshness`), and the kernel what the processes used.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import traffic
from benchmarks.freshness import Reader
from benchmarks.initial_load import say
from benchmarks.product import Usage, current, replicated, running, usage, wait
from benchmarks.report import Row
from benchmarks.world import World

RATE = 2000  # changes a second
WARM = 0.25  # share of the time before the measurement: the first merges compile Spark's code
IDLE_AFTER = 90.0  # seconds after which nothing of the load is under way any more, Postgres' autovacuum included
IDLE_TABLES = 10


@dataclass(frozen=True)
class Goal:
    """Percentile → seconds."""

    name: str
    tables: int
    seconds: float
    lag: dict[int, float]


LATENCY = Goal("latency", 10, 120, {50: 3.0, 99: 8.0})
FLEET = Goal("fleet", 200, 180, {99: 60.0})


def under_load(world: World[Any], goal: Goal, seconds: float | None) -> list[Row]:
    """`seconds` of traffic, after a quarter as much that does not count."""
    seconds = seconds or goal.seconds
    database = f"bench_{goal.name}"
    names = traffic.make(world.source, database, goal.tables)
    with (
        running(world) as up,
        replicated(world, database) as replicator,
        Reader(world.metadata_url, database) as reader,
    ):
        say(f"{goal.name}: {RATE:,} changes/s over {goal.tables} tables for {seconds * (1 + WARM):.0f} s")
        with traffic.Traffic(world.source, database, names, RATE) as writing:
            time.sleep(seconds * WARM)
            since, before, commits = time.time(), usage(world, up), reader.commits
            time.sleep(seconds)
            until, used, merged = time.time(), usage(world, up).since(before), reader.commits - commits
        written = writing.rate
        say(f"{goal.name}: {written:,.0f} changes/s were written; {merged} target commits; waiting for the rest")
        time.sleep(5)  # what is on its way from the log is not in the journal yet
        wait(lambda: current(replicator), "The target does not become current.")
        time.sleep(1)
    lags = reader.lags(since, until)
    if not len(lags):
        raise SystemExit("No row became queryable.")
    say(
        f"{goal.name}: {len(lags):,} rows; lag p90 {np.percentile(lags, 90):.1f} s, at most {lags.max():.1f} s; {_used(used, seconds)}"
    )
    rows = [
        Row(f"{goal.name}: changes/s written over {goal.tables} tables", written, RATE, "ratio ≥ 0.98", written >= 0.98 * RATE),
        Row(f"{goal.name}: target commits a second", merged / seconds, None, "none", met=True),
        Row(f"{goal.name}: cores in use by the product", sum(used.cpu.values()) / seconds, None, "none", met=True),
    ]  # fmt: skip
    for percentile, most in goal.lag.items():
        lag = float(np.percentile(lags, percentile))
        name = f"{goal.name}: commit → queryable, p{percentile} of {len(lags):,} rows"
        rows.append(Row(name, lag, None, f"≤ {most:g} s", lag <= most, "s"))
    return rows


def idle(world: World[Any], seconds: float | None) -> list[Row]:
    """After a load, and then nothing."""
    seconds = seconds or 180
    database = "bench_idle"
    names = traffic.make(world.source, database, IDLE_TABLES)
    with running(world) as up, replicated(world, database) as replicator:
        with traffic.Traffic(world.source, database, names, RATE / 10):
            time.sleep(10)
        time.sleep(5)
        wait(lambda: current(replicator), "The target does not become current.")
        time.sleep(IDLE_AFTER)
        say(f"idle: watching for {seconds:.0f} s")
        before = usage(world, up)
        time.sleep(seconds)
        used = usage(world, up).since(before)
    say(f"idle: {_used(used, seconds)}")
    share = 100 * sum(used.cpu.values()) / seconds
    rows = [Row("idle: share of a core, all processes", share, None, "≤ 3 %", share <= 3, "%")]
    written = sum(used.written.values())
    rows.append(Row("idle: bytes written a second", written / seconds, None, "0", written == 0, "B/s"))
    return rows


def _used(used: Usage, seconds: float) -> str:
    parts = (
        f"{name} {100 * cpu / seconds:.1f} % {used.written.get(name, 0) / seconds / 1024:.1f} KiB/s"
        for name, cpu in sorted(used.cpu.items(), key=lambda one: -one[1])
    )
    return "; ".join(parts)
