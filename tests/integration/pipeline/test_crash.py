"""SIGKILL in the midst of a load under write traffic: nothing lost, nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.pipeline.lab import Lab, insert
from webapp.replicators.models import ChunkRow, ReplicatorTable, SegmentRow

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[3]


def run_and_kill(lab: Lab, when: Callable[[], bool], environment: dict[str, str], timeout: float = 120) -> None:
    """`manage.py run` in a process of its own, killed when `when` says so."""
    command = [sys.executable, str(ROOT / "manage.py"), "run", lab.name]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + timeout
    try:
        while not when():
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline, f"the moment to kill it never came: {lab.states()}"
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def keep_writing(lab: Lab, stop: threading.Event) -> None:
    connection, n = lab.connect(database=lab.database), 0
    while not stop.is_set():
        n += 1
        with connection.cursor() as cursor:
            cursor.execute("UPDATE keyed SET v = %s WHERE id = %s", (n, n * 7919 % 30_000))
            cursor.execute("DELETE FROM keyed WHERE id = %s", (n * 104_729 % 30_000,))
            cursor.execute("INSERT IGNORE INTO keyed VALUES (%s, %s)", (n * 31 % 33_000, -n))
            cursor.execute("INSERT INTO keyless VALUES (%s)", (n % 5,))
            cursor.execute("DELETE FROM keyless WHERE v = %s LIMIT 1", (n * 3 % 5,))
        time.sleep(0.002)
    connection.close()


@contextmanager
def loaded_under_traffic(lab: Lab, rows: int) -> Iterator[None]:
    """A keyed and a keyless table with rows in them, a replicator of both, and a writer until the block ends."""
    lab.execute("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (v INT)")
    with lab.transaction() as cursor:
        for start in range(0, rows, 5000):
            insert(cursor, "keyed", [(n, 0) for n in range(start, start + 5000)])
        insert(cursor, "keyless", [(n % 5,) for n in range(1000)])
    lab.replicate()
    stop = threading.Event()
    writer = threading.Thread(target=keep_writing, args=(lab, stop))
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def test_killed_in_capture_and_in_merge(lab: Lab, process_environment: dict[str, str]) -> None:
    with loaded_under_traffic(lab, 30_000):
        tables = ReplicatorTable.objects.filter(replicator=lab.replicator)
        chunks = ChunkRow.objects.filter(run__table__replicator=lab.replicator)
        segments = SegmentRow.objects.filter(table__replicator=lab.replicator)
        moments: list[Callable[[], bool]] = [
            lambda: chunks.filter(state="read").exists(),  # a chunk waits for capture
            lambda: segments.filter(kind="chunk").count() >= 2,  # admitted, not yet loaded
            lambda: tables.filter(loaded__gte=0).exists(),  # in the midst of the load
            lambda: tables.filter(applied__gte=0, state="streaming").exists(),  # in the midst of merges
        ]
        for moment in moments:
            run_and_kill(lab, moment, process_environment)
    lab.run_and_compare(2)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_again_and_again_at_random_moments(lab: Lab, process_environment: dict[str, str]) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    moments = random.Random(seed)
    with loaded_under_traffic(lab, 30_000):
        for _ in range(30):
            due = time.monotonic() + moments.uniform(2, 40)
            run_and_kill(lab, lambda due=due: time.monotonic() > due, process_environment)
    lab.run_and_compare(2)
