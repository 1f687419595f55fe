"""Every shape of change, from a live server to Iceberg and compared row by row."""

from __future__ import annotations

import threading
import time

import pytest
from django.conf import settings
from django.core.management import CommandError

from replicator.staging import writer as staging
from replicator.staging.storage import Storage
from tests.integration.pipeline.lab import Lab, insert
from webapp.monitoring.models import Stage
from webapp.replicators import services
from webapp.replicators.models import SegmentRow
from webapp.worker.run.work_slice import run_slice

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


def test_rows_that_were_there_before_and_changes_after(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(50), price DECIMAL(10,2))")
    with lab.transaction() as cursor:
        insert(cursor, "t", [(n, f"name {n}", n / 4) for n in range(5000)])
    lab.replicate("t")
    assert lab.run_and_compare() == 5000
    lab.execute(
        "UPDATE t SET name = 'new' WHERE id % 7 = 0",
        "DELETE FROM t WHERE id % 11 = 0",
        "INSERT INTO t VALUES (10001, NULL, -1), (10002, '', 0)",
        "UPDATE t SET id = id + 100000 WHERE id % 13 = 0",
    )
    lab.run_and_compare(1)


def test_keys_swap_and_move_inside_one_transaction(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (a INT, b VARCHAR(10), v INT, PRIMARY KEY (a, b))")
    with lab.transaction() as cursor:
        insert(cursor, "t", [(n, "x", n) for n in range(20)])
    lab.replicate("t")
    lab.run_and_compare()
    with lab.transaction() as cursor:
        cursor.execute("UPDATE t SET a = 1000 WHERE a = 1")
        cursor.execute("UPDATE t SET a = 1 WHERE a = 2")
        cursor.execute("UPDATE t SET a = 2 WHERE a = 1000")
        cursor.execute("UPDATE t SET a = 50 WHERE a = 3")
        cursor.execute("UPDATE t SET a = 51 WHERE a = 50")
        cursor.execute("DELETE FROM t WHERE a = 4")
        cursor.execute("INSERT INTO t VALUES (4, 'x', 44)")
        cursor.execute("INSERT INTO t VALUES (77, 'x', 1)")
        cursor.execute("DELETE FROM t WHERE a = 77")
    lab.run_and_compare(1)


def test_a_run_ends_current_beside_an_undecided_xa_transaction_and_names_it(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    lab.replicate("t")
    lab.run_and_compare()
    other = lab.connect(database=lab.database)
    with other.cursor() as cursor:
        for statement in ("XA START 'open'", "INSERT INTO t VALUES (2, 2)", "XA END 'open'", "XA PREPARE 'open'"):
            cursor.execute(statement)
    other.close()
    lab.execute("INSERT INTO t VALUES (3, 3)")
    time.sleep(5.5)  # those that are decided by then are nothing to tell
    assert lab.run_and_compare(1) == 2
    told = lab.replicator.log_lines.get(level="warning", message__contains="XA transaction").message
    assert told.endswith("XA COMMIT X'6f70656e',X'',1 or XA ROLLBACK X'6f70656e',X'',1 ends it.")
    lab.execute("XA COMMIT 'open'")
    assert lab.run_and_compare(1) == 3


def test_tables_without_a_key_are_multisets(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (name VARCHAR(50), n INT, d DOUBLE, b VARBINARY(10))")
    with lab.transaction() as cursor:
        insert(cursor, "t", [("same", 1, 0.5, b"\0\1")] * 5 + [(None, None, None, None)] * 3 + [("z", 2, -0.0, b"")])
    lab.replicate("t")
    assert lab.run_and_compare() == 9
    lab.execute(
        "DELETE FROM t WHERE name = 'same' LIMIT 2",
        "UPDATE t SET n = 7 WHERE name IS NULL LIMIT 1",
        "INSERT INTO t VALUES ('same', 1, 0.5, x'0001')",
        "UPDATE t SET name = 'same', n = 1, d = 0.5, b = x'0001' WHERE name = 'z'",
    )
    lab.run_and_compare(1)


def test_a_merge_that_takes_longer_than_its_slice_is_let_finish(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (at DOUBLE PRIMARY KEY, v INT)")  # a key that is merged by Spark
    with lab.transaction() as cursor:
        insert(cursor, "t", [(n / 8, n) for n in range(1000)])
    replicator = lab.replicate("t")
    lab.run_and_compare(1)
    lab.execute("DELETE FROM t WHERE at < 60", "UPDATE t SET v = -1 WHERE at > 90")
    services.start_replicator(replicator=lab.replicator)
    assert run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    assert run_slice(Stage.APPLY, replicator.pk, seconds=1)  # Spark takes longer to start alone
    assert lab.assert_equal(1) == 520


def test_a_transaction_over_several_tables(lab: Lab) -> None:
    lab.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (id INT PRIMARY KEY, v INT)")
    lab.replicate()
    lab.run_and_compare(2)
    with lab.transaction() as cursor:
        for n in range(100):
            cursor.execute("INSERT INTO a VALUES (%s, %s)", (n, n))
            cursor.execute("INSERT INTO b VALUES (%s, %s)", (n, -n))
    assert lab.run_and_compare(2) == 200


def test_a_transaction_larger_than_memory_is_spilled(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "SPILL_BYTES", 100_000)
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100))")
    lab.replicate("t")
    lab.run()
    with lab.transaction() as cursor:
        for start in range(0, 60_000, 5000):
            insert(cursor, "t", [(n, "v" * (n % 100)) for n in range(start, start + 5000)])
    assert lab.run_and_compare() == 60_000
    assert lab.table("t").segments.filter(kind="log").count() == 1


def test_the_snapshot_is_exact_while_the_table_is_written(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    with lab.transaction() as cursor:
        for start in range(0, 40_000, 5000):
            insert(cursor, "t", [(n, 0) for n in range(start, start + 5000)])
    stop = threading.Event()

    def write() -> None:
        connection, n = lab.connect(database=lab.database), 0
        while not stop.is_set():
            n += 1
            with connection.cursor() as cursor:
                cursor.execute("UPDATE t SET v = %s WHERE id = %s", (n, n * 7919 % 40_000))
                cursor.execute("DELETE FROM t WHERE id = %s", (n * 104_729 % 40_000,))
                cursor.execute("INSERT IGNORE INTO t VALUES (%s, %s)", (n * 31 % 45_000, -n))
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        lab.replicate("t")
        lab.run()
    finally:
        stop.set()
        writer.join()
    lab.run_and_compare(1)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_takes_longer_than_a_slice_comes_to_its_end(lab: Lab) -> None:
    """A transaction, a table that is read in one piece, and its merge by Spark: each begun once."""
    lab.execute("CREATE TABLE t (a INT, b VARCHAR(20))", "INSERT INTO t SELECT seq, seq FROM seq_1_to_1500000")
    replicator = lab.replicate("t").pk
    rounds = 0
    while lab.states() != {"t": "streaming"}:
        take_slices(replicator)
        rounds += 1
        assert rounds < 20
    lab.execute("UPDATE t SET b = 'new' WHERE a % 2 = 0", "DELETE FROM t WHERE a % 3 = 0")
    for _ in range(5):
        take_slices(replicator)
    assert lab.assert_equal(1) == 1_000_000


def take_slices(replicator: int) -> None:
    for stage in (Stage.CAPTURE, Stage.SNAPSHOT, Stage.APPLY):
        run_slice(stage, replicator, seconds=0.5, idle=0.2)


def test_staged_changes_whose_file_is_gone_are_got_past_by_a_resnapshot(lab: Lab) -> None:
    """As after a restore without the staging location (docs/backup.md)."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    replicator = lab.replicate(options={"retry_minutes": 0})
    lab.run_and_compare(1)
    lab.execute("UPDATE t SET v = 3 WHERE id = 1")
    assert run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    (segment,) = SegmentRow.objects.filter(table=lab.table("t"), last_sequence__gt=lab.table("t").applied)
    Storage(settings.TIDEMARK_STAGING_URL).delete(segment.path)
    with pytest.raises(CommandError, match="does not exist"):
        lab.run()
    failed = lab.table("t")
    assert (failed.state, failed.error_code) == ("failed", "staged_file_lost")
    services.resnapshot_table(table=failed)
    assert lab.run_and_compare(1) == 2
    assert lab.states() == {"t": "streaming"}
