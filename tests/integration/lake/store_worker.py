"""Changes of a table in each mode; and, as a program, Tidemark that applies them to tables in any store.

A process has only one kind of pyspark, so a worker that merges through Spark Connect is a separate process.  A line of
JSON requests a step of a table, and the line that answers says how it was done.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from replicator.model.mode import Mode
from replicator.model.retention import Retention
from replicator.model.schema import TableSchema
from replicator.staging.storage import Storage
from replicator.targets.base import Append, Create, Merge, TargetTable
from replicator.targets.iceberg.apply import LIMITS
from replicator.targets.iceberg.destination import NO_LAKE, lake_catalog
from replicator.targets.iceberg.direct.writer import SPARK_ONLY, DirectLimits
from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
from replicator.targets.iceberg.target import IcebergTarget
from replicator.targets.iceberg.upkeep import maintenance
from tests.integration.direct.play import Play
from tests.staged import TS, Change, read, segment
from webapp.embedded.java_artifacts import spark_jars
from webapp.embedded.java_classes import java_options

NAMESPACE = "each_store"
BUNDLES = ("aws", "azure", "gcp")
KEYS = ("bigint", "string")
STEPS = ("load", "merge", "merge", "spark", "merge", "compact by Spark", "merge", "merge", "compact", "expire", "merge")
PATIENCE = 60.0  # seconds, for snapshots to become old
SOON = Retention.parse("1s/1s", 0)


def batches(seed: str) -> tuple[TableSchema, list[list[Change]]]:
    """The table, and what changes in each step; nothing in those that only tidy."""
    random = Random(seed)
    play = Play(random, KEYS, keyspace=12)
    play.batch(20)
    found = []
    for step in STEPS:
        if step == "load":
            found.append([read(play.next(), *row) for row in play.rows.values()])
        else:
            changes = play.batch(12) if step in {"merge", "spark"} else []
            found.append([replace(one, at=TS + dt.timedelta(seconds=one.seq // 7)) for one in changes])
    return play.schema, found


@dataclass
class Trial:
    """One table.  settings: of the destination."""

    settings: dict[str, str]
    mode: str
    table: str
    storage: Storage
    remote: str
    upto: int = -1
    targets: dict[DirectLimits, IcebergTarget] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = TargetTable(NAMESPACE, self.table)
        self.schema, self.batches = batches(self.table)
        lake = lake_catalog(self.settings, NO_LAKE)
        pool = SparkPool(
            SparkConfig(
                spark_jars(BUNDLES), properties=lake.java, warehouse=lake.warehouse, master="local[2]",
                remote=self.remote, java_options=java_options(),
            )
        )  # fmt: skip
        for limits in (LIMITS, SPARK_ONLY):
            self.targets[limits] = IcebergTarget(pool, self.storage, "r1", limits)

    def play(self) -> Iterator[str]:
        """How each step was done."""
        direct, spark = self.targets[LIMITS], self.targets[SPARK_ONLY]
        for step, changes in zip(STEPS, self.batches, strict=True):
            if step == "load":
                direct.apply(self.name, Create(self.schema, 1, -1, "L1", Mode(self.mode)))
            if step in {"load", "merge", "spark"}:
                staged = segment(self.storage, self.schema, changes)
                self.upto = staged.last_sequence
                change = (Append if step == "load" else Merge)([staged], self.schema, self.upto)
                yield (spark if step == "spark" else direct).apply(self.name, change).how
            else:
                yield self._tidy(direct, step)

    def _tidy(self, target: IcebergTarget, step: str) -> str:
        known = {name: getattr(maintenance, name) for name in TIDYING[step]}
        try:
            for name, value in TIDYING[step].items():
                setattr(maintenance, name, value)
            if step != "expire":
                return target.maintain(self.name)
            target._retention, until, said = SOON, time.monotonic() + PATIENCE, ""
            while not ("expired" in said and "deleted" in said) and time.monotonic() < until:
                said += target.maintain(self.name)
                time.sleep(0.2)
            return said
        finally:
            for name, value in known.items():
                setattr(maintenance, name, value)


TIDYING: dict[str, dict[str, Any]] = {
    "compact by Spark": {"MAX_SMALL_FILES": 0},
    "compact": {"SMALL_FILES": 1},
    "expire": {"EXPIRY_SECONDS": -1, "NEW_SNAPSHOTS": 0, "DELETION_SECONDS": -1},
}


def main(staging: str, remote: str) -> None:
    """Until the end of what comes in.  What Java writes goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    storage, playing = Storage(staging), dict[str, Iterator[str]]()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["table"] not in playing:
                playing[asked["table"]] = Trial(**asked, storage=storage, remote=remote).play()
            answer = {"how": next(playing[asked["table"]])}
        except Exception as error:  # noqa: BLE001 - returned to the caller
            answer = {"failed": f"{type(error).__name__}: {getattr(error, 'message', error)}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
