"""The planning of very many tables alone: no chunk is read, so reading does not slow it down."""

from __future__ import annotations

import json
import time
from typing import Any

from benchmarks import many_tables
from benchmarks.data.world import World
from benchmarks.initial_load import say
from benchmarks.report import Row

TABLES, GOAL = 20_000, 60.0  # seconds


def run(world: World[Any], tables: int) -> list[Row]:
    """Seconds until capture has all tables, with their snapshots paused; then until the first chunk of each is
    planned.
    """
    say(f"{tables:,} tables of {many_tables.ROWS} rows")
    many_tables.make(world, tables)
    file = world.folder / "many.yml"
    paused = many_tables.definition(world)
    paused["replicators"][0]["options"] = {"snapshot_paused": True}
    file.write_text(json.dumps(paused))
    began = time.monotonic()
    world.manage("apply", str(file))
    applied = time.monotonic() - began
    from webapp.replicators.models import Replicator, RunState, SnapshotRun

    made = Replicator.objects.get(name=many_tables.NAME)
    runs = SnapshotRun.objects.filter(table__replicator=made)
    with world.start("run", many_tables.NAME, log=world.folder / "many.log") as process:
        began = time.monotonic()
        while runs.count() < tables:
            assert process.poll() is None, (world.folder / "many.log").read_text()[-4000:]
            time.sleep(0.1)
        followed = time.monotonic() - began
    paused["replicators"][0]["options"] = {"snapshot_paused": False}
    file.write_text(json.dumps(paused))
    world.manage("apply", str(file))
    began = time.monotonic()
    _plan(made)
    planned = time.monotonic() - began
    left = runs.filter(state=RunState.PLANNING).count()
    what, total = f"planning: {tables:,} tables", applied + followed + planned
    goal = GOAL * max(1.0, tables / TABLES)
    return [
        Row(f"{what}: `apply`", applied, None, "none", met=True, unit="s"),
        Row(f"{what}: `run` until capture has them all", followed, None, "none", met=True, unit="s"),
        Row(f"{what}: the first chunk of each", planned, None, f"≤ {goal:.0f} s", planned <= goal, "s"),
        Row(f"{what}: all together", total, None, "none", met=True, unit="s"),
        Row(f"{what}: tables without a plan", left, None, "0", left == 0),
    ]


def _plan(made: Any) -> None:
    from django.db import connections

    from replicator.engine.snapshot import SnapshotOptions, run_snapshot
    from webapp.monitoring.models import Stage
    from webapp.replicators.staging import storage
    from webapp.worker.run import wiring
    from webapp.worker.store.chunk_store import OrmChunkStore

    class PlansOnly(OrmChunkStore):
        """Gives nothing to be read."""

        def claim(self, owner: str, seconds: float = 60.0) -> None:
            """None, always."""

    made.refresh_from_db()
    with wiring.opened_source(made) as source:
        run_snapshot(
            replicator=wiring.label(made),
            source=source,
            chunks=PlansOnly(made.pk, made.plan_version),
            storage=storage(),
            owner="benchmark",
            keep=lambda: True,
            options=SnapshotOptions(1, ahead=1 << 40, read=wiring.read_options(made)),
            report=wiring.reporter(made, Stage.SNAPSHOT),
            released=connections.close_all,
        )
