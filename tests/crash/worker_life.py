"""One life of a worker: `HeadlessRun` with armed faults, in a forked process, on a Spark that may outlive it."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import OperationalError
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from replicator import faults
from replicator.errors import TidemarkError
from replicator.targets.iceberg.jvm import jvm as engine
from replicator.targets.iceberg.jvm.engine import Engine
from webapp.replicators import selectors
from webapp.replicators.models import Replicator
from webapp.worker.run import headless

IMPORTS = (
    "pymysql", "pyarrow.parquet", "replicator.targets.iceberg.jvm.session", "replicator.targets.iceberg.spark.changes",
    "replicator.targets.registry",
    "replicator.targets.iceberg.target", "replicator.sources.mysql.stream.reader",
    "replicator.sources.mysql.snapshot.reader",
    "replicator.sources.postgres.stream.reader", "replicator.sources.postgres.snapshot.reader",
    "webapp.worker.run.wiring", "webapp.embedded.java_artifacts", "psycopg2", "pandas",
    "replicator.sources.mysql.source", "replicator.sources.postgres.source",
)  # fmt: skip


def warm() -> None:
    """Import what a worker needs; no thread and no connection is made."""
    for name in IMPORTS:
        importlib.import_module(name)


def live(order: dict[str, Any]) -> str:
    """Work until stopped by SIGTERM, current (where `until_current`), or `seconds` are over; returns the outcome's
    name.

    order: replicator, faults [{point, action, hit, seconds}], faults_file, gateway {port, secret, jars}, tuning
    {module.NAME: value}, until_current, seconds.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    for place, value in order["tuning"].items():
        module, _, name = place.rpartition(".")
        setattr(importlib.import_module(module), name, value)
    with suppress(Py4JError, OSError):  # Spark was just killed: the worker starts another one
        attach(**order["gateway"])
    faults.arm([faults.Fault(**fault) for fault in order["faults"]], Path(order["faults_file"]))
    deadline = time.monotonic() + order["seconds"]
    replicator = _find(order["replicator"], deadline)
    reached = None
    while order["until_current"] and reached is None and time.monotonic() < deadline and not stop.is_set():
        try:
            reached = headless.source_position(replicator)
        except TidemarkError as error:
            print("the source's position:", error.message, flush=True)
            time.sleep(0.5)
    with headless.HeadlessRun(replicator, stop.is_set) as run:
        return run.wait(reached, max(0.0, deadline - time.monotonic())).name


def _find(name: str, deadline: float) -> Replicator:
    """A life may begin while the metadata database, which other histories have too, is being restarted."""
    while True:
        try:
            replicator = selectors.by_name(name)
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            assert replicator is not None
            return replicator


def attach(port: int, secret: str, jars: Sequence[str]) -> None:
    """Use a Spark that runs already: what this process leaves behind in it goes on, as on a cluster."""
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    try:
        gateway: Any = launch_gateway()
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    jvm = gateway.jvm
    java = jvm.JavaSparkContext.fromSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jvm=jvm, _jconf=java.getConf()))
    hadoop = context._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    session = SparkSession(context)
    there = [Path(one) for one in jars]
    engine._engine = Engine(lambda: session, jvm, gateway, hadoop, 1, os.getpid(), "", there)
    engine._generation = 1
