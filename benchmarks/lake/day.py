"""A day of a busy table in a tenth of its time: one small merge after the other through the product's own target, with
the maintenance that follows each, and what is left of them.

A day at a commit every two seconds has 43,200 of them.  Retention runs as much faster as the commits come (`FASTER`
times), so that about as many snapshots stay as of a real day.  Files of expired snapshots wait ten minutes here: within
a real day, none of them would be deleted yet, and nothing could be said of the disk.
"""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psutil
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from benchmarks.data.world import World
from benchmarks.initial_load import say
from benchmarks.lake.merging import MergedTable
from benchmarks.report import Row

COMMITS, KEYS, ROWS = 43_200, 20, 1_000_000
FASTER = 12
STEPS, GRACE_HOURS = "5m/1s 15m/5s 14h/5m", 2 / FASTER
LOOKS = 24
PLANS = 5  # of a look; their median is taken
METADATA, PLANNING, GROWTH = 2**20, 2.0, 1.25


@dataclass(frozen=True)
class Look:
    """What is there after some commits: bytes and snapshots of the newest metadata (uncompressed), CPU seconds to
    plan a scan of the whole table, bytes of its folder, resident bytes of this process and the JVM.
    """

    metadata: int
    snapshots: int
    planning: float
    disk: int
    memory: int


def run(world: World[Any], commits: int | None) -> list[Row]:
    """`commits` in place of the day's."""
    from replicator.model.retention import Retention
    from replicator.targets.iceberg.jvm import jvm
    from replicator.targets.iceberg.target import IcebergTarget
    from webapp.destinations.lakes import built_in_lake
    from webapp.replicators.staging import storage
    from webapp.worker.run.spark import spark

    commits = commits or COMMITS
    pool = spark(built_in_lake())
    target = IcebergTarget(pool, storage(), "bench", retention=Retention.parse(STEPS, GRACE_HOURS))
    looks: list[Look] = []
    began = time.monotonic()
    try:
        table = MergedTable(target, pool, "day", ROWS)
        for _ in range(LOOKS):
            table.merges(KEYS, commits // LOOKS)
            looks.append(look(world))
            say(f"day: after {time.monotonic() - began:.0f} s: {looks[-1]}")
        wrong = table.wrong()
    finally:
        jvm.stop()
    return figures(commits, looks, wrong)


def figures(commits: int, looks: list[Look], wrong: int) -> list[Row]:
    """The first look is the measure of the later ones; of the disk, what it grows by in the second half."""
    half = looks[len(looks) // 2 :]
    title = f"day: {commits // LOOKS * LOOKS:,} commits of {KEYS} keys into {ROWS / 1e6:g} M rows"
    metadata = max(one.metadata for one in looks)
    disk, middle = max(one.disk for one in half[1:]), max(one.disk for one in looks[len(looks) // 4 : len(looks) // 2])
    return [
        Row(f"{title}: the largest metadata file", metadata / 1024, None, "≤ 1024 KiB", metadata <= METADATA, "KiB"),
        Row(f"{title}: snapshots in it, at most", max(one.snapshots for one in looks), None, "none", met=True),
        Row.at_most(
            f"{title}: planning a scan, at its worst and in the first {1 / LOOKS:.0%}",
            1000 * max(one.planning for one in looks[1:]), 1000 * looks[0].planning, PLANNING, "ms",
        ),
        Row.at_most(f"{title}: disk, second half and second quarter", disk / 2**20, middle / 2**20, GROWTH, "MiB"),
        Row.at_most(
            f"{title}: memory of worker and JVM, second half and second quarter",
            max(one.memory for one in half[1:]) / 2**20,
            max(one.memory for one in looks[len(looks) // 4 : len(looks) // 2]) / 2**20, GROWTH, "MiB",
        ),
        Row("day: rows too many or too few after it", wrong, None, "0", wrong == 0),
    ]  # fmt: skip


def look(world: World[Any]) -> Look:
    """Measure the table with pyiceberg, as a newly started reader."""
    catalog = SqlCatalog("lake", uri=world.catalog_url.replace("postgresql://", "postgresql+psycopg2://"))
    try:
        table: Table = catalog.load_table(("bench_merge", "day"))
        seconds = []
        for _ in range(PLANS):
            started = time.process_time()  # other work on the machine is not the reader's
            files = sum(1 for _ in catalog.load_table(("bench_merge", "day")).scan().plan_files())
            seconds.append(time.process_time() - started)
        assert files
        folder = Path(unquote(urlsplit(table.location()).path))
        disk = sum(one.stat().st_size for one in list(folder.rglob("*")) if one.is_file())
        metadata = len(table.metadata.model_dump_json(by_alias=True).encode())
        snapshots = len(table.metadata.snapshots)
    finally:
        catalog.close()
    gc.collect()
    own = psutil.Process()
    memory = sum(one.memory_info().rss for one in (own, *own.children(recursive=True)))
    return Look(metadata, snapshots, statistics.median(seconds), disk, memory)
