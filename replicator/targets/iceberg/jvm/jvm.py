"""The process's one JVM, started on first use, started again after it died; and the one Spark in it, which starts with
the first session.

Most of what is done needs Iceberg's Java API only (ADR 12): a JVM takes a third of the time and of the CPU that it
takes with Spark.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from replicator.errors import SparkUnavailable
from replicator.redaction import redacted
from replicator.targets.iceberg.jvm.connections import answer_at_once
from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.jvm.errors import MAX_TEXT, jvm_is_gone, reason

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
HADOOP = "spark.hadoop."
LOG4J = Path(__file__).with_name("log4j2.properties")
SESSION_SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.files.openCostInBytes": "262144",  # segments are small: some of them share a task and an output file
    "spark.sql.codegen.hugeMethodLimit": "65535",
}


class Launch(Protocol):
    """What a start needs to know; `SparkConfig` has it."""

    @property
    def jars(self) -> Sequence[Path]: ...
    @property
    def master(self) -> str: ...
    @property
    def remote(self) -> str: ...
    @property
    def driver_memory(self) -> str: ...
    @property
    def ui(self) -> bool: ...
    @property
    def java_options(self) -> Sequence[str]: ...
    @property
    def extra(self) -> Mapping[str, str]: ...


_lock = threading.Lock()
_dead: list[Any] = []  # JVMs' processes, until they are waited for
_engine: Engine | None = None
_generation = 0


def running(launch: Launch) -> Engine:
    """The engine, started if need be, again where it lacks a jar of `launch`.

    Raises SparkUnavailable with a reason that fits on one line.
    """
    global _engine, _generation  # noqa: PLW0603 - Spark itself is one per process
    with _lock:
        if _engine is not None and _engine.process == os.getpid():
            if set(launch.jars) <= set(_engine.jars):
                return _engine
            launch = replace(launch, jars=tuple(dict.fromkeys((*_engine.jars, *launch.jars))))  # type: ignore[type-var]
            _end()  # what runs in it is done again
        _generation += 1
        _engine = _start_or_say(launch, _generation)
        return _engine


def _start_or_say(launch: Launch, generation: int) -> Engine:
    try:
        return _start(launch, generation)
    except Exception as error:  # noqa: BLE001 - any reason that keeps Spark from starting is shown to the user
        if _engine is None:
            _clear()
        raise _unavailable(error) from None


def _unavailable(error: Exception) -> SparkUnavailable:
    return SparkUnavailable(f"Spark does not start: {redacted(reason(error))[:MAX_TEXT]}")


def generation() -> int:
    """Of the JVM that was started last."""
    return _generation


def forget(known: int) -> None:
    """Forget a JVM that died: the next `running` starts another.

    known: the newest generation when the failed operation began.  A JVM that was started since then, and lives, is not
    the one that died.
    """
    global _engine  # noqa: PLW0603
    with _lock:
        process = getattr(_engine.gateway, "proc", None) if _engine is not None else None
        if _engine is not None and _engine.generation > known and process is not None and process.poll() is None:
            return
        if process is not None:
            _dead.append(process)
        _engine = None
        _clear()


def stop() -> None:
    """End Spark with its JVM; `running` may start it again."""
    with _lock:
        _end()


def _end() -> None:
    global _engine
    if _engine is not None:
        with contextlib.suppress(Exception):
            _engine.end()
    gateway, _engine = _engine.gateway if _engine else None, None
    _clear()
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
        with contextlib.suppress(Exception):
            gateway.proc.stdin.close()


def _clear() -> None:
    """Make pyspark forget its dead gateway, which it keeps in class attributes and would use again."""
    with contextlib.suppress(Exception):
        SparkSession._instantiatedSession = None  # noqa: SLF001
        SparkSession._activeSession = None  # noqa: SLF001
    for name in ("_active_spark_context", "_gateway", "_jvm"):
        setattr(SparkContext, name, None)


def launch_settings(launch: Launch) -> dict[str, str]:
    """Settings that must hold before the JVM starts; none of them is secret (they stand on its command line)."""
    local = launch.master.startswith("local")
    classpath = ":".join(str(jar) for jar in launch.jars)
    settings = {
        "spark.app.name": "tidemark",
        "spark.driver.memory": launch.driver_memory,
        "spark.driver.extraClassPath": classpath,
        "spark.driver.extraJavaOptions": " ".join(
            [f"-Dlog4j2.configurationFile={LOG4J.as_uri()}", *launch.java_options]
        ),
        "spark.ui.enabled": str(launch.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.extensions": EXTENSIONS,
        "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|credential|jdbc[.]user",
    }
    if local:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        settings["spark.jars"] = ",".join(str(jar) for jar in launch.jars)
    return settings | {k: v for k, v in launch.extra.items() if not k.startswith(("spark.sql.catalog.", HADOOP))}


def _with_hadoop_settings(hadoop: Any, launch: Launch) -> Any:
    """Storage credentials are among them, so they are set in the running JVM (invariant 8)."""
    for key, value in launch.extra.items():
        if key.startswith(HADOOP):
            hadoop.set(key.removeprefix(HADOOP), value)
    return hadoop


def _start(launch: Launch, generation: int) -> Engine:
    missing = [jar.name for jar in launch.jars if not jar.exists()]
    if missing:
        message = f"jars are missing: {', '.join(missing)}"
        raise FileNotFoundError(message)
    conf = SparkConf(loadDefaults=False)
    for key, value in launch_settings(launch).items():
        conf.set(key, value)
    if not launch.remote:
        conf.setMaster(launch.master)
    gateway = launch_gateway(conf)
    _dead[:] = [process for process in _dead if process.poll() is None]
    if not launch.remote:
        # After an earlier Spark of this process, py4j asks pyspark's JVM for the cause of errors of any JVM.
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
    hadoop = _with_hadoop_settings(gateway.jvm.org.apache.hadoop.conf.Configuration(), launch)

    def begin() -> Any:
        try:
            return _begin(launch, conf, gateway)
        except Exception as error:
            if jvm_is_gone(error):
                raise
            raise _unavailable(error) from None

    engine = Engine(begin, gateway.jvm, gateway, hadoop, generation, os.getpid(), launch.remote, tuple(launch.jars))
    answer_at_once(engine)
    return engine


def _begin(launch: Launch, conf: SparkConf, gateway: Any) -> Any:
    """Spark's first session."""
    context: Any = SparkContext(conf=conf, gateway=gateway)
    _with_hadoop_settings(context._jsc.hadoopConfiguration(), launch)  # noqa: SLF001 - pyspark has no other way in
    return SparkSession.builder.config(conf=conf).getOrCreate()
