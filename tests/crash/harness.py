"""The servers, the zygote and the Spark on which random histories run; faults break only these."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from tests import java
from tests.crash.delta_lake import DeltaLake
from tests.crash.faults.bigquery_copies import BigQueryCopies
from tests.crash.faults.catalog import GlueLake, RestLake
from tests.crash.faults.lake import Lake
from tests.crash.faults.postgres_copies import PostgresCopies, RedshiftCopies
from tests.crash.faults.snowflake_copies import SnowflakeCopies
from tests.crash.faults.spanner_copies import SpannerCopies
from tests.crash.faults.store import S3Store
from tests.crash.sources import SOURCES, SourceUnderTest, copied
from webapp.embedded.postgres import EmbeddedPostgres
from webapp.embedded.processes import ServerFailed

ROOT = Path(__file__).resolve().parents[2]
LEASE_SECONDS = 2.0
# Each worker leaves catalog connections behind in a Spark that outlives it.
LIVES_PER_SPARK = 60
START_SECONDS = 120.0
LOOK_SECONDS = 20.0  # for statements that hang
STORES = {"glue": "s3"}  # of catalogs that have one only
COPIES: Mapping[str, type[PostgresCopies]] = {
    one.kind: one for one in (PostgresCopies, RedshiftCopies, SnowflakeCopies, BigQueryCopies, SpannerCopies)
}


@dataclass
class Life:
    """A forked worker."""

    pid: int
    result: Path
    log: Path

    @property
    def alive(self) -> bool:
        """A stopped (SIGSTOP) one is."""
        return psutil.pid_exists(self.pid)

    @property
    def outcome(self) -> str:
        """Name of an `ExitCode`; "" where it died."""
        return self.result.read_text() if self.result.exists() else ""

    def send(self, how: signal.Signals) -> None:
        """Signal the worker; SIGKILL also ends the Spark that it may have started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, how) if how is signal.SIGKILL else os.kill(self.pid, how)

    def wait(self, seconds: float) -> bool:
        """True once it has ended."""
        deadline = time.monotonic() + seconds
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.alive


class Zygote:
    """The process that forks workers."""

    def __init__(self, folder: Path) -> None:
        """`folder`: for logs and results."""
        self._folder = folder
        self._lock = threading.Lock()
        self._count = 0
        self._log = (folder / "zygote.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.fork_server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, cwd=ROOT,
        )  # fmt: skip
        self._answer()

    def start(self, order: Mapping[str, Any]) -> Life:
        """See `worker_life.live` for what an order holds."""
        with self._lock:
            self._count += 1
            stem = self._folder / f"{order['replicator']}-{self._count:05d}"
            life = {"result": f"{stem}.outcome", "log": f"{stem}.log"}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"order": {**order, **life}}) + "\n")
            self._process.stdin.flush()
            return Life(self._answer()["pid"], Path(life["result"]), Path(life["log"]))

    def close(self) -> None:
        self._process.communicate(timeout=10)
        self._log.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the zygote died: see zygote.log"
        answer: dict[str, Any] = json.loads(line)
        return answer


class Sparks:
    """The Spark that workers share: gone and made again at will."""

    def __init__(self, folder: Path) -> None:
        """Started with `start`."""
        self._log = (folder / "spark.log").open("ab")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._said: dict[str, Any] | None = None
        self._lives = 0
        self._starting: threading.Thread | None = None

    def gateway(self) -> dict[str, Any]:
        """Return Spark's gateway for an order; waits while Spark starts.

        A worker whose Spark is killed starts another one itself, as in production.
        """
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with self._lock:
                said = self._said
                if said is not None and _runs(said["pid"]):
                    self._lives += 1
                    return {name: said[name] for name in ("port", "secret", "jars")}
            if said is not None:
                print("Spark ended by itself: see spark.log", flush=True)
                self.kill()
            time.sleep(0.1)
        raise AssertionError("Spark did not start: see spark.log")

    @property
    def worn(self) -> bool:
        return self._lives >= LIVES_PER_SPARK

    def kill(self) -> None:
        """SIGKILL; another one is being started when this returns."""
        with self._lock:
            if self._said is None:
                return
            said, self._said, self._lives = self._said, None, 0
        with suppress(ProcessLookupError):
            os.kill(said["pid"], signal.SIGKILL)
        self._starting = threading.Thread(target=self.start, daemon=True)
        self._starting.start()

    def start(self) -> None:
        """Blocks until it answers."""
        self._end()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.spark_server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, cwd=ROOT,
            start_new_session=True,
        )  # fmt: skip
        self._process = process
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                with self._lock:
                    self._said = json.loads(line)
                return
        raise AssertionError("Spark did not start: see spark.log")

    def close(self) -> None:
        if self._starting is not None:
            self._starting.join(START_SECONDS)
        self._end()
        self._log.close()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _runs(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


class Stand:
    """`with Stand(folder, "mariadb") as stand`: sets the environment; Django is loaded inside the block only."""

    def __init__(
        self,
        folder: Path,
        source: str,
        version: str = "",
        *,
        caseless: bool = False,
        catalog: str = "built_in",
        store: str = "file",
        neighbour: bool = False,
    ) -> None:
        """`source`: mariadb, mysql or postgres; `version` of the last, by default the embedded server's.

        catalog: built_in, rest or glue, which has the copies; delta: Delta tables have them; postgres: a server;
        redshift, snowflake, bigquery: a stand-in; spanner: the vendor's emulator.
        store: s3 for copies on S3; those of glue always are.
        neighbour: another program lives in the catalog.

        caseless: MariaDB and MySQL compare names without case (lower_case_table_names = 1).
        """
        folder.chmod(0o755)  # first: for one that a server's user cannot walk to, another stands, which is kept
        self.caseless, self.neighbour = caseless, neighbour
        self.folder = folder
        self.kind, self._version = source, version
        self.source = SOURCES[source](folder / "source", version, caseless=caseless)
        self._sources = [self.source]
        self.postgres = EmbeddedPostgres(folder / "postgres")  # durable: what it has committed, it keeps
        self._metadata = self.postgres.folder / "data"
        self._breaking = threading.Lock()
        self._serving = threading.Lock()  # held while the source is started or stopped; of the two the inner one
        # Servers end with the thread that started them: a trial's ends before the failing histories are made smaller.
        self._keeper = ThreadPoolExecutor(1, "keeper")
        self._over, self._lake_there = threading.Event(), threading.Event()
        self.logs = folder / "lives"
        self.lake = self._lake(catalog, S3Store(folder / "s3") if "s3" in (store, STORES.get(catalog)) else None)

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True)
        self.postgres.start()
        self.source.server.start()
        os.environ |= {
            "TIDEMARK_HOME": str(self.folder / "home"),  # what lies in it is closed to the servers' user
            "DATABASE_URL": self.postgres.url,
            "REDIS_URL": "redis://127.0.0.1:1/0",  # a headless worker needs none
            "TIDEMARK_STAGING_URL": (self.folder / "staging").as_uri(),
            "TIDEMARK_WAREHOUSE_URL": (self.folder / "warehouse").as_uri(),
            "TIDEMARK_SPARK_MEMORY": "2g",
            "TIDEMARK_LEASE_SECONDS": str(LEASE_SECONDS),
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
        }
        os.environ.setdefault("JAVA_TOOL_OPTIONS", java.SHORT_LIVED)
        _migrate()
        if self.lake is not None:
            threading.Thread(target=self._keep_lake, args=(self.lake,), name="lake").start()
            self._lake_there.wait()
        self.zygote = Zygote(self.logs)
        self.sparks = Sparks(self.logs)
        self.sparks.start()
        threading.Thread(target=self._attend, name="attendant", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.lake is not None:
            self.lake.stop()
        self.zygote.close()
        self.sparks.close()
        with self._breaking, self._serving:
            self.source.server.stop(signal.SIGKILL)
        self.postgres.stop()
        self._keeper.shutdown()

    def _lake(self, catalog: str, store: S3Store | None) -> Lake | PostgresCopies | None:
        if catalog in COPIES:
            return COPIES[catalog](self.folder / "copies", self._breaking)
        if catalog == "delta":
            return DeltaLake(self.folder / "delta", self._breaking, store)
        if catalog == "rest":
            return RestLake(self.folder / "rest", self._breaking, store)
        return GlueLake(self.folder / "glue", self._breaking, store) if catalog == "glue" and store else None

    def _keep_lake(self, lake: Lake | PostgresCopies) -> None:
        lake.start()
        self._lake_there.set()
        lake.trouble()

    def _attend(self) -> None:
        """As the machine's service manager and its administrator do: a source that has died of itself is started again,
        what hangs in it ends.
        """
        looked = time.monotonic()
        while not self._over.wait(1.0):
            with self._serving:
                if self._over.is_set():
                    break
                for source in self._sources:
                    if not source.server.running:
                        print("the source has died of itself, and is started again", flush=True)
                        with suppress(ServerFailed):  # it may die once more as it starts: at the next look, then
                            self._keeper.submit(source.server.restart).result()
            if time.monotonic() - looked > LOOK_SECONDS:
                looked = time.monotonic()
                for source in list(self._sources):
                    with suppress(Exception):  # it may be stopped, by a fault
                        source.end_stuck_statements()

    @contextmanager
    def calm(self) -> Iterator[None]:
        """No fault breaks the servers inside the block, in which a history is set up or judged."""
        with self._breaking:
            yield

    def break_source(self, work: Callable[[], None]) -> None:
        """One breaker at a time; servers live by the keeper's thread."""
        with self._breaking, self._serving:
            self._keeper.submit(work).result()

    @contextmanager
    def own_source(self, name: str) -> Iterator[SourceUnderTest]:
        """A server for one history alone: what is done to all of it is done to no other's tables."""
        folder = self.folder / f"source-{name}"
        source = SOURCES[self.kind](folder, self._version, caseless=self.caseless)
        self._keeper.submit(source.server.start).result()
        with self._serving:
            self._sources.append(source)
        try:
            yield source
        finally:
            with self._serving:
                self._sources.remove(source)
                self._keeper.submit(source.server.stop, signal.SIGKILL).result()
            shutil.rmtree(folder, ignore_errors=True)

    def restart_metadata(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Immediate shutdown: every connection is cut, the server recovers.  `meanwhile` is done while it is down."""
        with self._breaking:
            self.postgres.stop(signal.SIGQUIT)
            meanwhile()
            self._keeper.submit(self.postgres.start).result()

    def copy_metadata(self) -> None:
        """As a snapshot of its volume."""
        self.restart_metadata(lambda: copied(self._metadata, self.folder / "copy"))

    def restore_metadata(self) -> None:
        """To that copy."""
        self.restart_metadata(lambda: copied(self.folder / "copy", self._metadata))


def _migrate() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)
