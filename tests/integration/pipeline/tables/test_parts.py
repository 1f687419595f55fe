"""Parts of a table are read while it streams, by keys and by conditions: exact under concurrent writes.

Changes that are not in the log (binary logging switched off, a publication that leaves them out) make target and source
differ, which shows that a part was read.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg2
import pymysql
import pytest

from replicator.errors import ConfigurationError, TidemarkError
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.replicators import services
from webapp.replicators.models import ChunkRow, RunState, SnapshotRun

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
KEYED = "CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(40))"


@pytest.fixture(params=["mariadb", "postgres"])
def lab(request: pytest.FixtureRequest, transactional_db: Any) -> Iterator[Lab]:
    server = request.getfixturevalue("mariadb" if request.param == "mariadb" else "postgres_source")
    kind = Lab if request.param == "mariadb" else PostgresLab
    one = kind(server.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


def hide(lab: Lab, *statements: str) -> None:
    """Write what the log does not show, and nothing else tells: on Postgres what was known of the publication is
    forgotten.
    """
    if not isinstance(lab, PostgresLab):
        with lab.connect(database=lab.database).cursor() as cursor:
            for statement in ("SET SESSION sql_log_bin = 0", *statements):
                cursor.execute(statement)
        return
    with lab.sql.cursor() as cursor:
        cursor.execute("SELECT pubname FROM pg_publication WHERE pubname LIKE %s", [f"%{lab.replicator.uid}%"])
        (name,) = cursor.fetchone()
    lab.execute(f"ALTER PUBLICATION {name} SET (publish = 'truncate')")
    lab.execute(*statements)
    lab.execute(f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')")
    for version in lab.table("t").schemas.all():
        known, _, published = version.schema["identity"].rpartition("/")
        assert published
        version.schema["identity"] = known
        version.save()


def fill(lab: Lab, rows: int = 3000) -> None:
    with lab.transaction() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s)", [(n, n % 50, f"text {n}") for n in range(rows)])


def differing(lab: Lab) -> int:
    (report,) = lab.compare()
    return report.missing + report.extra + report.different


def part(lab: Lab, *, keys: Any = None, where: str = "") -> SnapshotRun:
    table = lab.table("t")
    if where:
        return services.read_rows(table=table, condition=where)
    return services.read_keys(table=table, keys=keys)


def test_a_list_of_keys_and_a_condition_bring_their_rows_and_no_others(lab: Lab) -> None:
    lab.execute(KEYED)
    fill(lab)
    lab.replicate("t")
    lab.run_and_compare(1)
    hide(
        lab,
        "DELETE FROM t WHERE id IN (10, 11, 12, 13)",
        "UPDATE t SET s = 'hidden' WHERE id IN (20, 21, 22) OR v = 7",
        "INSERT INTO t VALUES (5000, 1, 'hidden'), (5001, 1, 'hidden')",
    )
    lab.run()
    assert differing(lab) == 4 + 3 + 60 + 2
    keys = part(lab, keys="10\n11\n20\n5000\n99999\n100")
    lab.run()
    keys.refresh_from_db()
    assert (keys.state, keys.rows_read, keys.rows_estimate) == (RunState.DONE, 3, 6)
    assert differing(lab) == 2 + 2 + 60 + 1
    rows = part(lab, where="v = 7 or id > 4000")
    lab.run()
    rows.refresh_from_db()
    assert (rows.state, rows.rows_read) == (RunState.DONE, 62)
    assert differing(lab) == 2 + 2
    part(lab, keys=[12, 13, 21, 22])
    assert lab.run_and_compare(1) == 2998
    assert lab.states() == {"t": "streaming"}
    assert lab.table("t").runs.filter(scope="whole").count() == 1


@contextmanager
def writing(lab: Lab, seed: int, rows: int) -> Iterator[None]:
    """Write at random in a thread, mostly to the same rows, their keys included."""
    stop, failed = threading.Event(), list[BaseException]()

    def write() -> None:
        chance = random.Random(seed)
        try:
            while not stop.is_set():
                with suppress(pymysql.err.IntegrityError, psycopg2.IntegrityError), lab.transaction() as cursor:
                    for _ in range(chance.randrange(1, 8)):
                        cursor.execute(*_statement(chance, rows))
                time.sleep(chance.choice((0, 0, 0.002, 0.02)))
        except BaseException as error:  # noqa: BLE001 - reported below
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failed, failed


def _statement(chance: random.Random, rows: int) -> tuple[str, tuple[Any, ...]]:
    one, other = chance.randrange(rows), rows + chance.randrange(rows)
    return chance.choice(
        [
            ("UPDATE t SET v = v + 1, s = %s WHERE id = %s", (f"at {chance.random()}", one)),
            ("DELETE FROM t WHERE id = %s", (one,)),
            ("DELETE FROM t WHERE id IN (%s, %s)", (one, other)),
            ("UPDATE t SET id = id + 1000000 * v WHERE id = %s AND v BETWEEN 1 AND 9", (other,)),
            ("INSERT INTO t SELECT %s, %s, 'new' WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = %s)", (one, 1, one)),
            ("INSERT INTO t SELECT %s, %s, 'new' WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = %s)", (other, 2, other)),
        ]
    )


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_parts_are_exact_while_the_same_rows_are_written(any_lab: Lab, seed: int) -> None:
    lab = any_lab
    chance = random.Random(seed)
    lab.execute(KEYED)
    fill(lab, 300)
    lab.replicate("t")
    lab.run_and_compare(1)
    hide(lab, "DELETE FROM t WHERE id % 5 = 0", "UPDATE t SET s = 'hidden' WHERE id % 7 = 0")
    lab.run()
    with writing(lab, seed, 300):
        for _ in range(4):
            keys = chance.sample(range(600), 200)
            part(lab, keys=keys)
            part(lab, where=f"v % 3 = {chance.randrange(3)}")
            lab.run()
        part(lab, keys=list(range(600)))
        part(lab, where="id >= 600")
        lab.run()
    lab.run_and_compare(1)
    assert not lab.table("t").runs.exclude(state=RunState.DONE).exists()


@pytest.mark.parametrize("lab", ["mariadb", pytest.param("postgres", marks=pytest.mark.long)], indirect=True)
def test_parts_survive_kills(lab: Lab, process_environment: dict[str, str]) -> None:
    lab.execute(KEYED)
    fill(lab, 2000)
    lab.replicate("t")
    lab.run_and_compare(1)
    hide(lab, "DELETE FROM t WHERE id % 5 = 0", "UPDATE t SET s = 'hidden' WHERE id % 7 = 0")
    command = [sys.executable, "manage.py", "run", lab.name]
    with writing(lab, 3, 2000):
        for fault in ("snapshot.chunk.after=kill", "capture.journal.before=kill@3", "apply.publish.after=kill"):
            part(lab, keys=list(range(4000)))
            part(lab, where="id >= 4000")
            environment = process_environment | {"TIDEMARK_FAULTS": fault}
            process = subprocess.Popen(command, env=environment)
            assert process.wait(120) == -signal.SIGKILL
        lab.run()
    lab.run_and_compare(1)
    assert not lab.table("t").runs.exclude(state=RunState.DONE).exists()


def test_a_wrong_request_is_answered_and_one_that_goes_wrong_ends_alone(any_lab: Lab) -> None:
    lab = any_lab
    lab.execute(KEYED, "CREATE TABLE nokey (v INT)")
    if isinstance(lab, PostgresLab):
        lab.execute("ALTER TABLE nokey REPLICA IDENTITY FULL")
    fill(lab, 100)
    lab.replicate()
    lab.run_and_compare(2)
    for wrong in ("nothing = 1", "v = 1; DROP TABLE t", "v = 1) OR (v = 2", "sleep(1) = 0", ""):
        with pytest.raises(TidemarkError):
            services.read_rows(table=lab.table("t"), condition=wrong)
    with pytest.raises(ConfigurationError, match="has no key"):
        services.read_keys(table=lab.table("nokey"), keys="1")
    with pytest.raises(ConfigurationError, match="Line 2"):
        services.read_keys(table=lab.table("t"), keys="1\nx")
    assert not SnapshotRun.objects.exclude(scope="whole").exists()

    run = part(lab, where="v = 1")
    other = part(lab, keys="1\n2")
    lab.execute("ALTER TABLE t DROP COLUMN v", "UPDATE t SET s = 'still here' WHERE id = 1")
    lab.run_and_compare(2)
    run.refresh_from_db()
    other.refresh_from_db()
    assert (run.state, other.state) == (RunState.CANCELLED, RunState.DONE)
    assert "names v, which is not a replicated column" in run.error
    assert lab.states() == {"t": "streaming", "nokey": "streaming"}
    assert not lab.table("t").error_message


def test_a_part_pauses_goes_on_and_stops(any_lab: Lab) -> None:
    lab = any_lab
    lab.execute(KEYED)
    fill(lab, 2000)
    lab.replicate("t")
    lab.run_and_compare(1)
    assert services.stop_snapshots(table=lab.table("t")) == 0
    hide(lab, "UPDATE t SET s = 'hidden' WHERE id < 1000")
    run = part(lab, keys=list(range(2000)))
    assert services.set_paused(table=lab.table("t"), paused=True) == 1
    assert services.set_paused(table=lab.table("t"), paused=True) == 0
    with pytest.raises(BaseException, match=r"time|current|2"):
        lab.run(timeout=8)
    assert set(ChunkRow.objects.filter(run=run).values_list("state", flat=True)) == {"planned"}
    assert services.set_paused(table=lab.table("t"), paused=False) == 1
    lab.run_and_compare(1)

    hide(lab, "UPDATE t SET s = 'again' WHERE id < 1000")
    run = part(lab, keys=list(range(2000)))
    assert services.stop_snapshots(table=lab.table("t")) == 1
    assert services.stop_snapshots(table=lab.table("t")) == 0
    lab.execute("UPDATE t SET s = 'logged' WHERE id = 1999")
    lab.run()
    run.refresh_from_db()
    assert run.state == RunState.CANCELLED
    assert differing(lab) == 1000
