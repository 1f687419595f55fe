"""Merges in a real Spark Connect server: Tidemark runs in a separate process, and this one compares without Spark.

A process has only one kind of pyspark: once it has connected to a server, its functions are the server's.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connect_server import ConnectServer
from tests.integration.pipeline.lab import Lab, insert
from tests.integration.pipeline.own_process import run, running, said, until
from webapp.monitoring.models import Failure
from webapp.replicators import services
from webapp.replicators.models import Replicator

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(2400),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A test that kills it starts it again."""
    one = ConnectServer(tmp_path_factory.mktemp("connect"))
    one.start()
    yield one
    one.stop()


@pytest.fixture
def environment(process_environment: dict[str, str], server: ConnectServer) -> dict[str, str]:
    return {**process_environment, "SPARK_REMOTE": server.url, "TIDEMARK_LOG_FORMAT": "text"}


def test_snapshot_log_ddl_tables_without_key_and_reloads(lab: Lab, environment: dict[str, str]) -> None:
    lab.execute(
        "CREATE TABLE small (id INT PRIMARY KEY, name VARCHAR(50), price DECIMAL(10,2), at DATETIME(6))",
        "CREATE TABLE measured (at DOUBLE PRIMARY KEY, value BIGINT UNSIGNED, raw VARBINARY(20))",
        "CREATE TABLE log (at INT, what VARCHAR(20) CHARACTER SET utf8mb4)",
    )
    with lab.transaction() as cursor:
        insert(cursor, "small", [(n, f"name {n}", n / 4, "2026-01-02 03:04:05.678901") for n in range(3000)])
        insert(cursor, "measured", [(n / 8, 2**64 - 1 - n, bytes([n % 256])) for n in range(3000)])
        insert(cursor, "log", [(n % 40, f"wh\N{LATIN SMALL LETTER A WITH DIAERESIS}t {n % 7}") for n in range(1000)])
    replicator = lab.replicate("small", "measured", "log")
    run(lab, environment)
    assert lab.assert_equal(3) == 7000
    lab.execute(
        "UPDATE small SET name = 'new' WHERE id % 7 = 0",
        "UPDATE measured SET value = value - 1, raw = NULL WHERE at < 100",  # Spark: the key's type
        "DELETE FROM measured WHERE at BETWEEN 200 AND 210",
        "INSERT INTO measured VALUES (-0.5, 7, 'x')",
        "DELETE FROM log WHERE at = 3 LIMIT 5",  # Spark: equal rows of a table without a key
        "UPDATE log SET what = NULL WHERE at = 9",
    )
    run(lab, environment)
    lab.assert_equal(3)
    lab.execute(
        "ALTER TABLE measured ADD COLUMN more VARCHAR(10) AFTER at, DROP COLUMN raw",
        "INSERT INTO measured VALUES (-1.5, 'later', 8)",
        "UPDATE measured SET more = 'x' WHERE at < 3",
        "ALTER TABLE log RENAME COLUMN what TO which",
        "UPDATE log SET which = 'renamed' WHERE at = 11",
        "TRUNCATE TABLE small",
        "INSERT INTO small VALUES (1, 'after', 1, NULL)",
    )
    services.resnapshot_table(table=lab.table("log"), reason="test")
    services.resnapshot_table(table=lab.table("measured"), reason="test")
    run(lab, environment)
    lab.assert_equal(3)
    lines = said(replicator)
    for way in ("merge (Spark: key type)", "merge (Spark: no key)", "replace"):
        assert any(way in line for line in lines), "\n".join(lines)
    assert not Failure.objects.filter(replicator=replicator).exists()


@pytest.mark.long
def test_a_worn_table_is_compacted_by_the_server(lab: Lab, environment: dict[str, str]) -> None:
    lab.execute("CREATE TABLE measured (at DOUBLE PRIMARY KEY, value INT)")
    with lab.transaction() as cursor:
        insert(cursor, "measured", [(n / 8, n) for n in range(110_000)])
    replicator = lab.replicate("measured")
    run(lab, environment)
    lab.execute("DELETE FROM measured WHERE value < 100000 AND value % 8 <> 0")
    run(lab, environment)
    assert lab.assert_equal(1) == 22_500
    assert any("compacted" in line for line in said(replicator)), "\n".join(said(replicator))


@pytest.mark.long
def test_a_server_that_is_killed_is_waited_for(
    lab: Lab, environment: dict[str, str], server: ConnectServer, tmp_path: Path
) -> None:
    lab.execute("CREATE TABLE log (at INT, what VARCHAR(20))")
    with lab.transaction() as cursor:
        insert(cursor, "log", [(n % 40, f"what {n % 7}") for n in range(1000)])
    replicator = lab.replicate("log")
    with running(lab, environment, tmp_path / "run.log"):
        until(lambda: lab.states() == {"log": "streaming"})
        lab.execute("DELETE FROM log WHERE at = 1")
        until(lambda: any("merge (Spark: no key)" in line for line in said(replicator)))
        server.stop(signal.SIGKILL)
        try:
            lab.execute("DELETE FROM log WHERE at = 2", "UPDATE log SET what = 'x' WHERE at = 5")
            until(lambda: Failure.objects.filter(replicator=replicator).exists())
        finally:
            server.start()
        lab.execute("DELETE FROM log WHERE at = 3 LIMIT 7")
        until(lambda: lab.compare()[0].equal)
    lab.assert_equal(1)
    assert_told(replicator)


@pytest.mark.long
def test_a_server_that_is_frozen_is_waited_for_and_keeps_no_process(
    lab: Lab, environment: dict[str, str], server: ConnectServer, tmp_path: Path
) -> None:
    """As one behind a broken line: nothing says that no answer will come."""
    lab.execute("CREATE TABLE log (at INT, what VARCHAR(20))")
    with lab.transaction() as cursor:
        insert(cursor, "log", [(n % 40, f"what {n % 7}") for n in range(1000)])
    replicator = lab.replicate("log")
    try:
        with running(lab, environment, tmp_path / "run.log"):
            until(lambda: lab.states() == {"log": "streaming"})
            lab.execute("DELETE FROM log WHERE at = 1")
            until(lambda: any("merge (Spark: no key)" in line for line in said(replicator)))
            server.freeze()
            lab.execute("DELETE FROM log WHERE at = 2")
            until(lambda: Failure.objects.filter(replicator=replicator).exists())
            server.thaw()
            until(lambda: lab.compare()[0].equal)
            server.freeze()
            lab.execute("DELETE FROM log WHERE at = 4")
            time.sleep(5)  # its merge is under way
    finally:
        server.thaw()
    run(lab, environment)
    lab.assert_equal(1)
    assert_told(replicator)


def assert_told(replicator: Replicator) -> None:
    failures = list(Failure.objects.filter(replicator=replicator))
    assert {failure.code for failure in failures} == {"spark_unavailable"}, failures
    assert all("Spark Connect server does not respond" in failure.message for failure in failures)
    assert "SPARK_REMOTE" in failures[0].remedy
