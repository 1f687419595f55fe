"""Many small tables: a definition applied, and `manage.py run` until all of them are in the target."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import Any

from benchmarks.data.world import World
from benchmarks.initial_load import check, say, verify
from benchmarks.report import Row

DATABASE, NAME = "many", "many tables"
TABLES, ROWS = 1500, 3
FIRST_GOAL, GOAL = 10.0, 90.0  # seconds


def run(world: World[Any], tables: int) -> list[Row]:
    """Seconds from the command on: until the first table streams, until all are planned, until all are there and the
    run has ended.
    """
    say(f"{tables:,} tables of {ROWS} rows")
    make(world, tables)
    file = world.folder / "many.yml"
    file.write_text(json.dumps(definition(world)))
    began = time.monotonic()
    world.manage("apply", str(file))
    applied = time.monotonic() - began
    say(f"applied in {applied:.1f} s; copying")
    from webapp.replicators.models import Replicator, SnapshotRun

    made = Replicator.objects.get(name=NAME)
    runs = SnapshotRun.objects.filter(table__replicator=made, planned_all=True)
    streaming = made.tables.filter(state="streaming")
    log, first, planned = world.folder / "many.log", 0.0, 0.0
    with world.start("run", NAME, "--until-current", "--timeout", "3600", log=log) as process:
        began = time.monotonic()
        while process.poll() is None:
            now = time.monotonic() - began
            first = first or (now if streaming.exists() else 0.0)
            planned = planned or (now if runs.count() == tables else 0.0)
            time.sleep(0.2)
        taken = time.monotonic() - began
        check(process.returncode, log)
    assert made.tables.count() == tables
    wrong, verified = verify(made)
    what = f"tables: {tables:,} of {ROWS} rows"
    goal = GOAL * max(1.0, tables / TABLES)
    return [
        Row(f"{what}: `apply`", applied, None, "none", met=True, unit="s"),
        Row(f"{what}: `run --until-current`, the first in the target", first, None, f"≤ {FIRST_GOAL:.0f} s",
            first <= FIRST_GOAL, "s"),
        Row(f"{what}: all planned", planned, None, "none", met=True, unit="s"),
        Row(f"{what}: `apply` and `run --until-current`", applied + taken, None, f"≤ {goal:.0f} s",
            applied + taken <= goal, "s"),
        Row(f"{what}: seconds to verify", verified, None, "none", met=True, unit="s"),
        Row(f"{what}: rows lost, doubled or different", wrong, None, "0", wrong == 0),
    ]  # fmt: skip


def make(world: World[Any], tables: int) -> None:
    """In the source."""
    kind, quote = world.source.kind, world.source.quote
    with (
        closing(world.source.connect("" if kind == "mysql" else "public")) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"CREATE {'DATABASE' if kind == 'mysql' else 'SCHEMA'} {DATABASE}")
        for number in range(tables):
            name = f"{DATABASE}.{quote}t{number:05d}{quote}"
            cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, name VARCHAR(40), amount DECIMAL(12,2))")
            cursor.execute(f"INSERT INTO {name} VALUES (1, 'one', 1.5), (2, 'two', 2.5), (3, NULL, {number})")
            if number % 500 == 0:
                connection.commit()
        connection.commit()


def definition(world: World[Any]) -> dict[str, Any]:
    """One replicator of the whole database."""
    connection = {"name": "many", "kind": world.source.kind, "config": world.source.config}
    return {"connections": [connection],
        "replicators": [{"name": NAME, "connection": "many", "tables": [f"{DATABASE}.*"],
                "state": "running"}]}  # fmt: skip
