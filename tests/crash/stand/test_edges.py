"""Two workers that both believe, a full disk, a file-size limit, a Spark that is killed: one clear sentence, then
exact.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.db import connections
from django.db.models import Sum

from tests.crash.faults.traffic import Traffic, fill
from tests.crash.fleet import until
from tests.integration.pipeline.lab import Lab
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.monitoring.models import Failure
from webapp.replicators import selectors
from webapp.replicators.models import Replicator, Status
from webapp.worker.models import Lease
from webapp.worker.run.headless import captured, source_position

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.long, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[3]
LEASE_SECONDS = 3.0
STAGING_BYTES = 64 * 1024 * 1024
# On a machine with nothing else to do each of these takes some seconds; a Spark that starts, fifteen.
PATIENCE = 200.0


class Worker:
    """`manage.py run` and its Spark, in a separate process group."""

    def __init__(self, name: str, replicator: str, environment: dict[str, str], log: Path) -> None:
        self.name, self.log = name, log
        # Through a pipe: a limit on the size of its files must not end its log.
        self._cat = subprocess.Popen(["tee", "-a", str(log)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "run", replicator],
            env=environment, stdout=self._cat.stdin, stderr=self._cat.stdin, start_new_session=True,
        )  # fmt: skip

    def freeze(self) -> None:
        """Stop it and its Spark at any point of their work."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)

    def spark(self) -> psutil.Process | None:
        """Its JVM."""
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children(recursive=True)
            return next((child for child in children if child.name() == "java"), None)
        return None

    def stop(self) -> int:
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)

    def end(self) -> None:
        """However it stands."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self._cat.stdin is not None
        self._cat.stdin.close()
        self._cat.wait()


@dataclass
class Pair:
    """Two workers of one replicator: one works, one stands by."""

    lab: Lab
    staging: Path
    workers: list[Worker] = field(default_factory=list)

    def owner(self) -> tuple[str, int]:
        """Who captures, and the fence."""
        lease = Lease.objects.filter(name=f"capture:{self.lab.replicator.pk}").first()
        return ("", 0) if lease is None else (lease.owner, lease.fence)

    def applied(self) -> int:
        return selectors.tables_of(self.lab.replicator).aggregate(total=Sum("applied"))["total"]

    def goes_on(self, what: str) -> None:
        """Something new reaches the target; seconds that it took are printed."""
        before = self.applied()
        seconds = until(
            lambda: self.applied() > before, PATIENCE, lambda: f"{what}: nothing is applied: {self.standing()}"
        )
        print(f"{what}: applied again after {seconds:.1f} s")

    def standing(self) -> str:
        tables = selectors.tables_of(self.lab.replicator).values_list("name", "state", "last_sequence", "applied")
        replicator = self.lab.replicator
        logs = "\n".join(worker.log.read_text()[-1500:] for worker in self.workers)
        return f"{replicator.status} {replicator.error_message} {list(tables)}\n{logs}"


@pytest.fixture
def database_url(transactional_db: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the tests' database, where the workers' catalog is too."""
    server, _, _ = settings.DATABASE_URL.rpartition("/")
    url = f"{server}/{connections['default'].settings_dict['NAME']}"
    monkeypatch.setattr(settings, "DATABASE_URL", url)
    return url


@pytest.fixture
def staging(tmp_path: Path) -> Iterator[Path]:
    """A small separate disk where this machine allows a mount, else a folder."""
    folder = tmp_path / "staging"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={STAGING_BYTES}", "tmpfs", str(folder)], check=False, capture_output=True
    )
    yield folder
    if mounted.returncode == 0:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def pair(mariadb: EmbeddedMariaDB, database_url: str, staging: Path, tmp_path: Path) -> Iterator[Pair]:
    lab = Lab(mariadb.address, "edges")
    fill(lab)
    lab.replicate()
    environment = {
        **os.environ, "DATABASE_URL": database_url, "TIDEMARK_STAGING_URL": staging.as_uri(),
        "TIDEMARK_LEASE_SECONDS": str(LEASE_SECONDS), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    one = Pair(lab, staging)
    for name in ("first", "second"):
        one.workers.append(Worker(name, lab.name, environment, tmp_path / f"{name}.log"))
        until(lambda: one.owner()[0] != "", PATIENCE, one.standing)  # so that we know which of them works
    yield one
    for worker in one.workers:
        worker.end()
    lab.close()


@pytest.mark.timeout(1200)
def test_full_disks_a_killed_spark_and_two_owners_leave_an_exact_copy(pair: Pair) -> None:
    first, second = pair.workers
    with Traffic(pair.lab) as traffic:
        until(lambda: set(pair.lab.states().values()) == {"streaming"}, PATIENCE, pair.standing)
        traffic.count()
        pair.goes_on("loaded")
        no_large_files(pair)
        if pair.staging.is_mount():
            disk_full(pair)
        spark_killed(pair)
        both_believe(pair)
    until_current(pair)
    assert [first.stop(), second.stop()] == [0, 0], pair.standing()
    pair.lab.assert_equal(3)
    assert traffic.shown() == traffic.made
    assert_all_told(pair.lab.replicator)


def no_large_files(pair: Pair) -> None:
    """`ulimit -f`: writing fails in the midst of a file (EFBIG), until the limit is lifted while it runs."""
    limit_files(pair, 1000)
    try:
        until(lambda: open_failure(pair, "staging") is not None, PATIENCE, pair.standing)
    finally:
        limit_files(pair, resource.RLIM_INFINITY)
    told(pair, "staging", "File too large")
    pair.goes_on("limit lifted")


def limit_files(pair: Pair, size: int) -> None:
    for worker in pair.workers:
        resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def disk_full(pair: Pair) -> None:
    """A real ENOSPC, for every worker there is."""
    filler = pair.staging / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    try:
        until(lambda: open_failure(pair, "storage_full") is not None, PATIENCE, pair.standing)
        told(pair, "storage_full", "The staging location is full")
    finally:
        filler.unlink()
    pair.goes_on("space freed")


def open_failure(pair: Pair, code: str) -> Failure | None:
    return Failure.objects.filter(replicator=pair.lab.replicator, resolved_at=None, stage="capture", code=code).last()


def told(pair: Pair, code: str, words: str) -> None:
    """One sentence and a remedy, where people look; and it is being retried."""
    failures = Failure.objects.filter(replicator=pair.lab.replicator, code=code, message__contains=words)
    failure = failures.last()
    assert failure is not None, list(Failure.objects.values_list("stage", "code", "message"))
    print(f"{failure.code}: {failure.message} {failure.remedy}")
    assert "\n" not in failure.message
    assert len(failure.message) < 300
    assert failure.remedy
    assert failure.next_retry_at is not None
    assert pair.lab.replicator.status in {Status.RETRYING, Status.RUNNING}


def spark_killed(pair: Pair) -> None:
    """In the midst of merges, which never rest under traffic."""
    killed = [jvm for worker in pair.workers if (jvm := worker.spark()) is not None]
    assert killed
    time.sleep(random.uniform(0, 1))
    for jvm in killed:
        jvm.kill()
    pair.goes_on("Spark killed")
    assert any(worker.spark() not in {None, *killed} for worker in pair.workers)


def both_believe(pair: Pair) -> None:
    """The owner is frozen beyond its lease, the other worker takes over, and the first wakes as a stale owner."""
    before = pair.owner()
    frozen = freeze_owner(pair)
    after = pair.owner()
    assert after[1] > before[1]
    pair.goes_on(f"{frozen.name} frozen")
    frozen.thaw()
    time.sleep(LEASE_SECONDS)
    assert frozen.process.poll() is None, pair.standing()
    pair.goes_on(f"{frozen.name} awake again")


def freeze_owner(pair: Pair) -> Worker:
    """Freeze each worker in turn until the lease moves to the other one; return the frozen one."""
    for worker in (*pair.workers, *pair.workers):
        before = pair.owner()
        worker.freeze()
        with suppress(AssertionError):
            until(lambda: pair.owner() != before, LEASE_SECONDS + 4, str)  # noqa: B023 - called at once
            return worker
        worker.thaw()
    pytest.fail(f"nobody takes over: {pair.standing()}")


def until_current(pair: Pair) -> None:
    replicator = pair.lab.replicator
    reached = source_position(replicator)

    def current() -> bool:
        replicator.refresh_from_db()
        return captured(replicator, reached) and selectors.is_current(replicator)

    until(current, PATIENCE, pair.standing)


def assert_all_told(replicator: Replicator) -> None:
    """Every failure is resolved and was an expected one; a stale owner's conflict was not recorded as a failure."""
    failures = list(Failure.objects.filter(replicator=replicator))
    assert [one.message for one in failures if one.resolved_at is None] == []
    known = {"staging", "storage_full", "spark_unavailable"}
    others = [
        one for one in failures if one.code not in known and "File too large" not in one.message
    ]  # the target's, too
    assert [f"{one.stage} {one.code}: {one.message}" for one in others] == []
