"""Ten large tables loaded, then many changes of them that wait in the log: how fast `manage.py run --until-current`
brings them into the target, from the start of its process to its end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data.world import World
from benchmarks.initial_load import check, create, say, verify
from benchmarks.memory import PeakMemory
from benchmarks.rates import changes
from benchmarks.rates.places import place
from benchmarks.report import Row

if TYPE_CHECKING:  # Django is set up when a world is entered
    from webapp.replicators.models import Replicator

TABLES, ROWS, SHARE = 10, 5_000_000, 0.4  # changes for each row that is there
GOALS = {"mysql": 200_000, "postgres": 120_000}
ON_S3 = 0.7
LOAD_CPU, FLAT = 2.5, 1.25
TIMEOUT = "7200"


@dataclass(frozen=True)
class Ran:
    """Of one `manage.py run --until-current`: seconds, CPU seconds, peak bytes, how memory grew."""

    seconds: float
    cpu: float
    memory: int
    growth: float


def run(world: World[Any], rows: int | None) -> list[Row]:
    """`rows` of each of the ten tables."""
    rows = rows or ROWS
    source, database = world.source, "bench_catch_up"
    say(f"catch-up: {TABLES} tables of {rows:,} rows")
    small = changes.pool(source, changes.POOL)
    names = changes.make(source, database, TABLES, rows)
    loads, caught = {}, {}
    with ExitStack() as stack:
        places = [stack.enter_context(place(world, on_s3=on_s3)) for on_s3 in (False, True)]
        made = {one.title: create(world, database, one.title, one.settings) for one in places}
        for title, one in made.items():
            say(f"catch-up: the initial load of {TABLES * rows:,} rows into {title}")
            loads[title] = ran(world, one)
            say(f"catch-up: {loads[title]}")
        written = changes.write(source, database, names, rows, int(TABLES * rows * SHARE))
        changes.pool(source, small)
        for title, one in made.items():
            caught[title] = ran(world, one)
            say(f"catch-up: {written / caught[title].seconds:,.0f} changes/s into {title}; {caught[title]}")
        wrong = sum(verify(one)[0] for one in made.values())
    return figures(world.source.kind, TABLES * rows, written, loads, caught, wrong)


def figures(
    kind: str, rows: int, written: int, loads: Mapping[str, Ran], caught: Mapping[str, Ran], wrong: int
) -> list[Row]:
    """Of the load and of the changes, the lakehouse's first."""
    own = next(iter(caught.values()))
    load = next(iter(loads.values()))
    goal, rate, cpu = GOALS[kind], written / own.seconds, load.cpu / rows * 1e6
    found = [
        Row(f"catch-up: initial load of {rows / 1e6:g} M rows", rows / load.seconds, None, "none", met=True,
            unit="rows/s"),
        Row("catch-up: CPU of the load for a million rows", cpu, None, f"≤ {LOAD_CPU} s", cpu <= LOAD_CPU, "s"),
        Row("catch-up: memory of the load, second half and second quarter", load.growth, None, f"≤ {FLAT}",
            load.growth <= FLAT),
        Row("catch-up: peak memory of the load", load.memory / 2**20, None, "none", met=True, unit="MiB"),
        Row(f"catch-up: {written / 1e6:.2f} M changes of {TABLES} tables, waiting in the log, until queryable", rate,
            None, f"≥ {goal:,}/s", rate >= goal, "changes/s"),
        Row("catch-up: CPU of that for a million changes", own.cpu / written * 1e6, None, "none", met=True, unit="s"),
        Row("catch-up: peak memory of that", own.memory / 2**20, None, "none", met=True, unit="MiB"),
    ]  # fmt: skip
    for title, one in list(caught.items())[1:]:
        found.append(Row.at_least(f"catch-up: into {title}", written / one.seconds, rate, ON_S3, "changes/s"))
    return [*found, Row("catch-up: rows lost, doubled or different", wrong, None, "0", wrong == 0)]


def ran(world: World[Any], replicator: Replicator) -> Ran:
    """SystemExit with the end of the log where it fails."""
    log = Path(world.folder / "catch_up.log")
    began = time.monotonic()
    with (
        world.start("run", replicator.name, "--until-current", "--timeout", TIMEOUT, log=log) as process,
        PeakMemory(process.pid) as peak,
    ):
        check(process.wait(), log)
        seconds = time.monotonic() - began
    return Ran(seconds, peak.cpu, peak.bytes, peak.growth)
