"""Commit at the source → queryable in the target, everything on this one machine; and what an idle product costs.

Measured from outside: the writer stamps rows with its clock (`traffic`), a reader of the Iceberg tables says when it
first met them (`freshness`), and the kernel what the processes used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.data import traffic
from benchmarks.data.sources import Source
from benchmarks.data.world import World
from benchmarks.freshness import Reader
from benchmarks.initial_load import say
from benchmarks.product import Usage, current, replicated, running, usage, wait
from benchmarks.rates.places import place
from benchmarks.report import Row

RATE = 2000  # changes a second
STATEMENT = 50_000  # rows
WARM = 0.25  # share of the time before the measurement: the first merges compile Spark's code
IDLE_AFTER = 90.0  # seconds after which nothing of the load is under way any more, Postgres' autovacuum included
IDLE_TABLES = 10
FAR = 1_000_000_000  # no key of the traffic is as large
SNAPSHOT, SNAPSHOT_ROWS, SNAPSHOT_RATE, TABLES = "lag-snapshot", 4_000_000, 1000, 10


@dataclass(frozen=True)
class Goal:
    """A run and its goal; `lag`: percentile → seconds.

    The tables are divided among `replicators`; one more replicator has a backlog of `backlog` rows.  on_s3: in a REST
    catalog.
    """

    name: str
    tables: int
    seconds: float
    lag: dict[int, float]
    replicators: int = 1
    backlog: int = 0
    on_s3: bool = False


LATENCY = Goal("latency", 10, 120, {50: 0.8, 99: 2.0})
LATENCY_S3 = Goal("latency-s3", 10, 120, {50: 1.6, 99: 4.0}, on_s3=True)
FLEET = Goal("fleet", 200, 180, {99: 60.0})
REPLICATORS = Goal("replicators", 200, 180, {99: 60.0}, replicators=20, backlog=5_000_000)


def under_load(world: World[Any], goal: Goal, seconds: float | None) -> list[Row]:
    """`seconds` of traffic, after a quarter as much that does not count."""
    seconds = seconds or goal.seconds
    database = f"bench_{goal.name.replace('-', '_')}"
    names = traffic.make(world.source, database, goal.tables)
    with (
        running(world) as up,
        place(world, on_s3=goal.on_s3) as where,
        replicated(world, database, goal.replicators, where.settings) as replicators,
        Reader(where.look(database), where.store) as reader,
        behind(world, goal.backlog) as catch_up,
    ):
        say(f"{goal.name}: {RATE:,} changes/s over {goal.tables} tables for {seconds * (1 + WARM):.0f} s")
        with traffic.Traffic(world.source, database, names, RATE) as writing:
            time.sleep(seconds * WARM)
            catch_up()
            since, before, commits = time.time(), usage(world, up), reader.commits
            time.sleep(seconds)
            until, used, merged = time.time(), usage(world, up).since(before), reader.commits - commits
        written = writing.rate
        say(f"{goal.name}: {written:,.0f} changes/s were written; {merged} target commits; waiting for the rest")
        time.sleep(5)  # what is on its way from the log is not in the journal yet
        wait(lambda: all(map(current, replicators)), "The target does not become current.")
        time.sleep(1)
    lags = reader.lags(since, until)
    if not len(lags):
        raise SystemExit("No row became queryable.")
    say(
        f"{goal.name}: {len(lags):,} rows; lag p90 {np.percentile(lags, 90):.1f} s, at most {lags.max():.1f} s;"
        f" {_used(used, seconds)}"
    )
    rows = [
        Row(f"{goal.name}: changes/s written over {goal.tables} tables", written, RATE, "ratio ≥ 0.98",
            written >= 0.98 * RATE),
        Row(f"{goal.name}: target commits a second", merged / seconds, None, "none", met=True),
        Row(f"{goal.name}: cores in use by the product", sum(used.cpu.values()) / seconds, None, "none", met=True),
    ]  # fmt: skip
    for percentile, most in goal.lag.items():
        lag = float(np.percentile(lags, percentile))
        name = f"{goal.name}: commit → queryable, p{percentile} of {len(lags):,} rows"
        rows.append(Row(name, lag, None, f"≤ {most:g} s", lag <= most, "s"))
    return rows


@contextmanager
def behind(world: World[Any], rows: int) -> Iterator[Callable[[], None]]:
    """Stop a replicator while `rows` rows are inserted; the yielded function starts it."""
    if not rows:
        yield lambda: None
        return
    from webapp.replicators.services import start_replicator, stop_replicator

    database = "bench_backlog"
    [table] = traffic.make(world.source, database, 1)
    with replicated(world, database) as [replicator]:
        stop_replicator(replicator=replicator)
        say(f"{database}: {rows:,} rows behind")
        fill(world.source, database, table, rows)
        yield lambda: start_replicator(replicator=replicator)
        wait(lambda: current(replicator), f"{database} does not become current.")


def fill(source: Source, database: str, table: str, rows: int) -> None:
    """Insert `rows` rows, with keys beyond those of the traffic."""
    values = "{n}, 0, MOD({n}, 1000), MOD({n}, 9000), 'new', REPEAT('n', CAST(MOD({n}, 120) AS {int})), '2026-01-01'"
    with closing(source.connect(database)) as connection, connection.cursor() as cursor:
        for first in range(FAR, FAR + rows, STATEMENT):
            last = first + STATEMENT - 1
            if source.kind == "postgres":
                chosen = f"{values.format(n='n', int='INT')} FROM generate_series({first}, {last}) AS n"
            else:
                chosen = f"{values.format(n='seq', int='INT')} FROM seq_{first}_to_{last}"
            cursor.execute(f"INSERT INTO {table} SELECT {chosen}")
            connection.commit()


def during_snapshot(world: World[Any], rows: int, seconds: float | None) -> list[Row]:
    """Measure the traffic's lag without and during a snapshot of one of its tables, to which `rows` rows are added."""
    from webapp.replicators.services.tables import resnapshot_table

    seconds = seconds or 60
    database = "bench_snapshot"
    names = traffic.make(world.source, database, TABLES)
    fill(world.source, database, names[0], rows)
    with (
        running(world),
        place(world) as where,
        replicated(world, database) as [replicator],
        Reader(where.look(database)) as reader,
    ):
        with traffic.Traffic(world.source, database, names, SNAPSHOT_RATE) as writing:
            time.sleep(seconds)
            calm = time.time()
            time.sleep(seconds)
            since = time.time()
            resnapshot_table(table=replicator.tables.get(name=names[0]))
            wait(lambda: not replicator.tables.exclude(state="streaming").exists(), "The snapshot does not end.")
            until = time.time()
            say(f"{SNAPSHOT}: {until - since:.0f} s, {rows / (until - since):,.0f} rows/s")
        written = writing.rate
        time.sleep(5)
        wait(lambda: current(replicator), "The target does not become current.")
        time.sleep(1)
    without, during = reader.lags(calm, since), reader.lags(since, until)
    found = [
        Row(f"{SNAPSHOT}: changes/s written over {TABLES} tables", written, SNAPSHOT_RATE, "ratio ≥ 0.98",
            written >= 0.98 * SNAPSHOT_RATE),
        Row(f"{SNAPSHOT}: of {rows:,} rows, until merged", until - since, None, "none", met=True, unit="s"),
    ]  # fmt: skip
    for percentile in (50, 90, 99):
        lag, calmly = (float(np.percentile(lags, percentile)) for lags in (during, without))
        name = f"{SNAPSHOT}: commit → queryable, p{percentile}, during it and without it"
        found.append(Row.at_most(name, lag, calmly, 2, "s"))
    return found


def idle(world: World[Any], seconds: float | None) -> list[Row]:
    """After a load, and then nothing."""
    seconds = seconds or 180
    database = "bench_idle"
    names = traffic.make(world.source, database, IDLE_TABLES)
    with running(world) as up, replicated(world, database) as [replicator]:
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
    parts = [f"{name} {100 * cpu / seconds:.1f} %" for name, cpu in sorted(used.cpu.items(), key=lambda one: -one[1])]
    parts += [f"{name} {size / seconds / 1024:.1f} KiB/s" for name, size in used.written.items() if size]
    return "; ".join(parts)
