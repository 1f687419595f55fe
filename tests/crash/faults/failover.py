"""Measure how long a stage stops when its owner is lost: `python -m tests.crash.faults.failover --kills 50 --stage
capture|merge`.

Three workers of the stage run as on three hosts; two of them reach the metadata database through a separate proxy each.
The owner is killed, frozen for longer than its lease, cut off from the metadata database, or stopped as in a rolling
restart (SIGTERM).  The time until another worker's first commit is measured.  At the end source and target are compared
row by row.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psutil
from celery import Celery

from tests import java
from tests.crash.faults.proxy import Proxy
from tests.crash.fleet import ROOT, Fleet, until

WAYS = ("killed", "frozen", "cut off", "told to stop")
SIGNALS = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP, "told to stop": signal.SIGTERM}
STAGES = ("capture", "merge")
MOST_SECONDS = 60.0
POLL_SECONDS = 0.02
BEYOND_LEASE = 4.0
SETTLED_SECONDS = (2.0, 6.0)  # between two blows, at random: where in its lease's time the owner is


class Host:
    """A worker of a stage, behind a proxy; started again when it is gone."""

    def __init__(self, name: str, stage: str, environment: Mapping[str, str], folder: Path) -> None:
        """`environment`: that of the other workers."""
        self.name, self._stage = name, stage
        url = urlsplit(environment["DATABASE_URL"])
        self.proxy = Proxy(url.hostname or "127.0.0.1", url.port or 5432)
        through = url._replace(netloc=f"{url.netloc.rpartition(':')[0]}:{self.proxy.port}")
        self._environment = {**environment, "DATABASE_URL": through.geturl(), "PYTHONPATH": str(ROOT)}
        self._log = (folder / f"{name}.log").open("ab")
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "celery", "--workdir", str(ROOT), "-A", "webapp.celery", "worker", "-Q",
                self._stage,
                "--pool", "threads", "-c", "8", "-n", f"{self.name}@%h", "--without-gossip", "--without-mingle",
                "--without-heartbeat", "-l", "WARNING",
            ],
            env=self._environment, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    @property
    def process(self) -> psutil.Process:
        if self._process.poll() is not None:
            self._start()
        return psutil.Process(self._process.pid)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.proxy.close()
        self._log.close()


@dataclass(frozen=True)
class Takeover:
    """Seconds from the blow to the new owner's lease, and to its first commit: in the journal, or in the target."""

    way: str
    host: str
    leased: float
    committed: float


class Hosts:
    """`with Hosts(fleet, environment, stage) as hosts`: the fleet's own worker, and two more."""

    def __init__(self, fleet: Fleet, environment: Mapping[str, str], stage: str = "capture") -> None:
        """`environment` names the servers."""
        self._fleet, self.stage = fleet, stage
        self._asking = Celery(broker=fleet.redis.url)
        given = {**environment, "REDIS_URL": fleet.redis.url, "TIDEMARK_HOME": str(fleet.folder)}
        self._more = {name: Host(name, stage, given, fleet.folder) for name in ("second", "third")}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for host in self._more.values():
            host.close()

    def owner(self, replicator: int) -> str:
        """Return the name of the active worker; empty where none or several report the task, or the lease moved."""
        fence = self.fence(replicator)
        told = self._asking.control.inspect(timeout=1.0).active() or {}
        working = [
            str(name).partition("@")[0]
            for name, tasks in told.items()
            if any(task["name"] == f"tidemark.{self.stage}_slice" and task["args"] == [replicator] for task in tasks)
        ]
        return working[0] if len(working) == 1 and self.fence(replicator) == fence else ""

    def fence(self, replicator: int) -> int:
        """Of the lease that the stage goes by."""
        from webapp.worker.models import Lease

        return Lease.objects.values_list("fence", flat=True).get(name=f"{self.stage}:{replicator}")

    def strike(self, owner: str, way: str, seconds: float) -> None:
        """Strike the owner in this way; a cut connection returns after `seconds`, a frozen worker with `thaw`."""
        if way == "cut off":
            self._more[owner].proxy.hang(seconds)
            return
        host = self._more.get(owner)
        process = host.process if host else self._fleet.parts()[self.stage]
        process.send_signal(SIGNALS[way])
        self._frozen = process if way == "frozen" else None
        if way == "killed" and host:
            process.wait(5)

    def thaw(self) -> None:
        """Resume a frozen worker, and restart the hosts whose worker has ended."""
        if self._frozen is not None:
            self._frozen.send_signal(signal.SIGCONT)
        self._frozen = None
        for host in self._more.values():
            assert host.process

    def owner_for(self, way: str, replicator: int, dice: random.Random) -> str:
        """Wait a while, and return an owner that can be struck in this way.

        The fleet's own worker has no proxy to cut off, so it is restarted until another one works.
        """
        ends = time.monotonic() + MOST_SECONDS
        while time.monotonic() < ends:
            time.sleep(dice.uniform(*SETTLED_SECONDS))
            owner = self.owner(replicator)
            if owner and (way != "cut off" or owner in self._more):
                return owner
            if owner:
                self._fleet.parts()[self.stage].terminate()
        raise AssertionError(f"nobody works who could be {way}")

    _frozen: psutil.Process | None = None


def take_over(hosts: Hosts, replicator: int, way: str, owner: str, lease_seconds: float) -> Takeover:
    """Strike the owner, and wait for another one."""
    from django.db.models import Max

    from webapp.replicators.models import Replicator, ReplicatorTable

    def committed_at() -> Any:
        if hosts.stage == "capture":
            return Replicator.objects.values_list("captured_at", flat=True).get(pk=replicator)
        return ReplicatorTable.objects.filter(replicator=replicator).aggregate(at=Max("queryable_at"))["at"]

    old, struck = hosts.fence(replicator), time.monotonic()
    hosts.strike(owner, way, lease_seconds + BEYOND_LEASE)
    while hosts.fence(replicator) == old:
        assert time.monotonic() - struck < MOST_SECONDS, f"nobody took over from {owner}, {way}"
        time.sleep(POLL_SECONDS)
    leased, seen = time.monotonic() - struck, committed_at()
    while committed_at() == seen:
        assert time.monotonic() - struck < MOST_SECONDS, f"nobody goes on after {owner}, {way}"
        time.sleep(POLL_SECONDS)
    committed = time.monotonic() - struck
    time.sleep(max(0.0, lease_seconds + BEYOND_LEASE - committed))
    hosts.thaw()
    return Takeover(way, owner, leased, committed)


def attack(hosts: Hosts, replicator: int, kills: int, dice: random.Random, lease_seconds: float) -> Iterator[Takeover]:
    """`kills` takeovers, each way in turn."""
    for number in range(kills):
        way = WAYS[number % len(WAYS)]
        owner = hosts.owner_for(way, replicator, dice)
        yield take_over(hosts, replicator, way, owner, lease_seconds)


def figures(found: list[Takeover]) -> Iterator[str]:
    """A line each way, for docs/reliability.md."""
    yield "| way | times | lease taken, median | first commit: median | p95 | most |"
    yield "|---|---:|---:|---:|---:|---:|"
    for way in (*WAYS, "all"):
        those = [one for one in found if way in {one.way, "all"}]
        if those:
            committed = sorted(one.committed for one in those)
            p95 = committed[min(len(committed) - 1, round(0.95 * (len(committed) - 1)))]
            leased = statistics.median(one.leased for one in those)
            yield (
                f"| {way} | {len(those)} | {leased:.1f} s | {statistics.median(committed):.1f} s | {p95:.1f} s |"
                f" {committed[-1]:.1f} s |"
            )


@contextmanager
def servers(folder: Path) -> Iterator[tuple[Any, Any, dict[str, str]]]:
    """MariaDB, Redis and a metadata database; Django is loaded inside the block only."""
    from webapp.embedded.mariadb import EmbeddedMariaDB
    from webapp.embedded.postgres import EmbeddedPostgres
    from webapp.embedded.redis import EmbeddedRedis

    with ExitStack() as stack:
        mariadb, postgres = EmbeddedMariaDB(folder / "source"), EmbeddedPostgres(folder / "postgres")
        redis = EmbeddedRedis(folder / "redis")
        for server in (postgres, redis, mariadb):
            server.start()
            stack.callback(server.stop)
        named = {
            "TIDEMARK_HOME": str(folder), "DATABASE_URL": postgres.url, "REDIS_URL": redis.url,
            "TIDEMARK_STAGING_URL": (folder / "staging").as_uri(),
            "TIDEMARK_WAREHOUSE_URL": (folder / "warehouse").as_uri(),
            "DJANGO_SETTINGS_MODULE": "webapp.settings", "JAVA_TOOL_OPTIONS": java.SHORT_LIVED,
        }  # fmt: skip
        os.environ |= named
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0, interactive=False)
        yield mariadb, redis, {**os.environ}


def main() -> None:
    """Exit code 1 where the copy differs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--stage", choices=STAGES, default="capture")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tidemark-failover-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with servers(folder) as (mariadb, redis, environment):
            from django.conf import settings

            from tests.crash.faults.traffic import Traffic, fill
            from tests.crash.stand.test_fleet import until_current
            from tests.integration.pipeline.lab import Lab

            lab, found = Lab(mariadb.address, "failover"), []
            fill(lab)
            with (
                Fleet(folder, redis, environment) as fleet,
                Hosts(fleet, environment, asked.stage) as hosts,
                Traffic(lab) as traffic,
            ):
                replicator = lab.replicate().pk
                until(lambda: set(lab.states().values()) == {"streaming"}, 180, lab.states)
                dice = random.Random(asked.seed)
                for one in attack(hosts, replicator, asked.kills, dice, settings.TIDEMARK_LEASE_SECONDS):
                    traffic.count()
                    found.append(one)
                    print(
                        f"{one.host} {one.way}: leased {one.leased:.1f} s, committed {one.committed:.1f} s", flush=True
                    )
                traffic.stop.set()
                until_current(lab)
            rows = lab.assert_equal(3)
            assert traffic.shown() == traffic.made, (traffic.shown(), traffic.made)
    print("\n".join(figures(found)))
    print(f"takeovers {len(found)}, rows compared {rows}, differences 0")


if __name__ == "__main__":
    main()
