"""What other replicators lost, doubled or misread from the log; each test is named after it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from replicator.engine.capture import capture
from tests.integration.pipeline.lab import Lab, insert
from tests.integration.regressions_of_other_tools.purging import purge_everything_old
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.replicators.models import SegmentRow
from webapp.worker.run.headless import HeadlessRun

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[3]

# Small batches: one transaction comes in many messages, and its segments are spilled in parts.
CAPTURE = """
import sys, time, django
from dataclasses import replace
django.setup()
from replicator.engine.capture import capture
from replicator.staging import writer
from webapp.monitoring.models import Stage
from webapp.worker.run import wiring, work_slice
writer.SPILL_BYTES, capture.SMALL_SECONDS = 10_000, 0  # commits are under way while the log is read on
options = wiring.read_options
wiring.read_options = lambda replicator: replace(options(replicator), batch_rows=50)
while True:
    work_slice.run_slice(Stage.CAPTURE, int(sys.argv[1]), seconds=60)
    time.sleep(0.1)  # the one that was killed still holds the lease
"""


def capture_until_killed(lab: Lab, fault: str, environment: dict[str, str]) -> None:
    """A process that captures, and dies by SIGKILL at the fault point."""
    settings = {"DJANGO_SETTINGS_MODULE": "webapp.settings", "TIDEMARK_LEASE_SECONDS": "1", "TIDEMARK_FAULTS": fault}
    command = [sys.executable, "-c", CAPTURE, str(lab.replicator.pk)]
    done = subprocess.run(command, env=environment | settings, cwd=ROOT, timeout=120, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def test_events_that_share_one_log_position_across_a_restart(lab: Lab, process_environment: dict[str, str]) -> None:
    """Debezium DBZ-144, seatunnel #10775: a place inside a transaction was resumed by counting events and rows, and
    missed some.

    Tidemark resumes at transactions only: what a killed capture had of one is read again, what is journaled is not.
    """
    lab.execute("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (v INT)")
    lab.execute("INSERT INTO keyed VALUES (-1, 0)", "INSERT INTO keyless VALUES (0), (0)")
    lab.replicate()
    lab.run_and_compare(2)
    with lab.transaction() as cursor:  # each statement is a few events of hundreds of rows
        cursor.execute("INSERT INTO keyed SELECT seq, seq FROM seq_1_to_3000")
        cursor.execute("INSERT INTO keyless SELECT seq MOD 7 FROM seq_1_to_3000")
        cursor.execute("UPDATE keyed SET v = -v WHERE id MOD 2 = 0")
        cursor.execute("DELETE FROM keyless WHERE v = 3 LIMIT 200")
    before = lab.replicator.checkpoint_offset
    points = ("capture.message.read=kill@7", "segment.spill.after=kill@3", "segment.close.before=kill@2",
              "storage.sync.before=kill@2", "capture.journal.before=kill")  # fmt: skip
    for fault in points:
        capture_until_killed(lab, fault, process_environment)
        assert lab.replicator.checkpoint_offset == before, fault
    capture_until_killed(lab, "capture.journal.after=kill", process_environment)
    assert lab.replicator.checkpoint_offset != before
    assert lab.run_and_compare(2) == 3001 + 2802
    keyed, keyless = lab.table("keyed"), lab.table("keyless")
    assert (keyed.rows_inserted, keyed.rows_updated) == (3000, 1500)
    assert (keyless.rows_inserted, keyless.rows_deleted) == (3000, 200)


def orders(present: bool, length: int) -> Iterator[str]:
    """All that may happen to one key: Insert, Update, Delete, Move away, a row of another key Arrives."""
    if length:
        for step in "UDM" if present else "IA":
            for rest in orders(step in "UIA", length - 1):
                yield step + rest
    else:
        yield ""


STEPS = {
    "I": "INSERT INTO {t} VALUES ({k}, {n})",
    "U": "UPDATE {t} SET v = {n} WHERE k = {k}",
    "D": "DELETE FROM {t} WHERE k = {k}",
    "M": "UPDATE {t} SET k = {spare} WHERE k = {k}",
    "A": "UPDATE {t} SET k = {k}, v = {n} WHERE k = {source}",
}
ABSENT = [order for length in range(1, 5) for order in orders(present=False, length=length)]
PRESENT = [order for length in range(1, 5) for order in orders(present=True, length=length)]


def play(table: str, order: str, key: int, numbers: Iterator[int]) -> Iterator[str]:
    """The statements of one order; rows that arrive come from the keys that `stock` has filled."""
    for step in order:
        n = next(numbers)
        yield STEPS[step].format(t=table, k=key, n=n, spare=1_000_000 + n, source=2_000_000 + n)


def test_a_delete_lost_when_insert_and_delete_share_a_batch(lab: Lab) -> None:
    """lance-flink #74, flink-connector-clickhouse #63 and #88, clickhouse-sink #1411: all inserts first, then all
    deletes.

    Tidemark folds a batch in log order, a move of a key as a delete and an insert; without keys it adds and subtracts.
    """
    tables = {"keyed": "PRIMARY KEY (k)", "keyless": "INDEX (k)"}
    for table, index in tables.items():
        lab.execute(f"CREATE TABLE {table} (k INT, v INT, {index})")
        with lab.transaction() as cursor:
            insert(cursor, table, [(key, 0) for key in range(len(PRESENT))])
            insert(cursor, table, [(2_000_000 + n, 0) for n in range(1500)])
    lab.execute("CREATE TABLE arrivals (k INT PRIMARY KEY, v INT)")
    lab.replicate()
    lab.run_and_compare(3)
    with lab.transaction() as cursor:
        for table in tables:
            numbers = iter(range(1500))
            for key, order in enumerate(PRESENT + ABSENT):
                for statement in play(table, order, key, numbers):
                    cursor.execute(statement)
        numbers = iter(range(1500))  # into an empty table: by appending, not by merging
        for key, order in enumerate(order for order in ABSENT if "A" not in order):
            for statement in play("arrivals", order, key, numbers):
                cursor.execute(statement)
    lab.run_and_compare(3)
    for table in (*tables, "arrivals"):
        assert SegmentRow.objects.filter(table=lab.table(table), kind="log").count() == 1


def test_an_enum_turning_from_text_to_number(lab: Lab) -> None:
    """PeerDB #3183 and #3950, materialize #26022, olake #707: the snapshot has labels, the log has numbers of a list
    that changes.

    Tidemark reads the log's numbers by the list that the log itself gives with them.
    """
    columns = "e ENUM('a','b','c') CHARACTER SET latin1, n ENUM('2','1','0','ä'), s SET('x','y','z')"
    lab.execute(f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, {columns})")
    lab.execute(f"CREATE TABLE k ({columns}, PRIMARY KEY (e, n))")
    lab.execute("SET SESSION sql_mode = ''")
    rows = "('a', '2', 'x'), ('b', '1', 'y,z'), ('c', '0', ''), ('', 'ä', 'z'), ('unknown', 1, 7), (3, '3', 'w')"
    write = (f"INSERT INTO t (e, n, s) VALUES {rows}, (NULL, NULL, NULL)", f"INSERT IGNORE INTO k VALUES {rows}")
    lab.execute(*write)
    lab.replicate()
    lab.run_and_compare(2)
    lab.execute(*write, "UPDATE t SET e = 2, n = '1', s = 5 WHERE id < 4", "DELETE FROM k WHERE e = 'c'", *write)
    for change in (
        "MODIFY e ENUM('a','b','c','d') CHARACTER SET latin1",
        "MODIFY e ENUM('d','new','c','b','a','2'), MODIFY s SET('y','x','z','w')",
        "MODIFY n ENUM('0','1','2','3')",
        "MODIFY n VARCHAR(5)",
        "MODIFY n ENUM('1','0','2','ä') NOT NULL",
        "MODIFY n INT NOT NULL, MODIFY s INT",
    ):
        lab.execute(f"ALTER IGNORE TABLE t {change}", f"ALTER IGNORE TABLE k {change}", *write)
        lab.execute("UPDATE t SET e = 'c', n = '2' WHERE id % 5 = 0", "UPDATE IGNORE k SET e = 'd' WHERE e = 'b'")
    lab.run_and_compare(2)


# Local time jumps from 02:00 to 03:00 at the first moment, and from 03:00 back to 02:00 at the second.
GAP, OVERLAP = datetime(2025, 3, 30, 1, tzinfo=UTC), datetime(2025, 10, 26, 1, tzinfo=UTC)
INSTANTS = [
    *(edge + timedelta(seconds=s) for edge in (GAP, OVERLAP) for s in (-3601, -3600, -1800, -1, 0, 1, 1800, 3599,
            3600)),
    datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC),
]  # fmt: skip


@pytest.fixture
def summer_time(lab: Lab) -> Iterator[Lab]:
    """The server lives in a zone with a gap and an overlap; so do its sessions, where they say nothing else."""
    zone = 4242
    edges = ", ".join(f"({zone}, {edge.timestamp():.0f}, {kind})" for edge, kind in ((GAP, 1), (OVERLAP, 0)))
    lab.execute(
        "SET SESSION sql_log_bin = 0",
        f"INSERT INTO mysql.time_zone VALUES ({zone}, 'N')",
        f"INSERT INTO mysql.time_zone_name VALUES ('Regressions/{lab.name}', {zone})",
        f"INSERT INTO mysql.time_zone_transition_type VALUES ({zone}, 0, 3600, 0, 'W'), ({zone}, 1, 7200, 1, 'S')",
        f"INSERT INTO mysql.time_zone_transition VALUES {edges}",
        "SET SESSION sql_log_bin = 1",
        f"SET GLOBAL time_zone = 'Regressions/{lab.name}'",
    )
    yield lab
    tables = ("time_zone", "time_zone_transition_type", "time_zone_transition", "time_zone_name")
    lab.execute("SET GLOBAL time_zone = 'SYSTEM'", "SET SESSION sql_log_bin = 0")
    lab.execute(
        *(f"DELETE FROM mysql.{table} WHERE Time_zone_id = {zone}" for table in tables), "SET SESSION sql_log_bin = 1"
    )


def target_rows(lab: Lab, table: str) -> list[dict[str, Any]]:
    """Through pyiceberg."""
    from replicator.verification.target import open_catalog
    from webapp.destinations.lakes import catalog_config

    config, name = catalog_config(), lab.table(table)
    catalog = open_catalog(config)
    return list(catalog.load_table((name.target_namespace, name.target_name)).scan().to_arrow().to_pylist())


def write_times(lab: Lab, first: int) -> None:
    """All instants, written from sessions in five zones, and what their clocks show as DATETIME."""
    for place, zone in enumerate(("+00:00", "+05:30", "-11:00", "+13:00", f"Regressions/{lab.name}")):
        with lab.transaction() as cursor:
            cursor.execute("SET SESSION time_zone = %s, sql_mode = ''", (zone,))
            for n, instant in enumerate(INSTANTS):
                cursor.execute(f"SET SESSION timestamp = {instant.timestamp():.6f}")
                row = first + place * 100 + n
                cursor.execute("INSERT INTO t VALUES (%s, NOW(6), NOW(6), NOW(), DEFAULT)", (row,))
                cursor.execute("INSERT IGNORE INTO k VALUES (NOW(6), %s)", (row,))
            cursor.execute("SET SESSION timestamp = DEFAULT")
            for n, local in enumerate(("2025-03-30 02:30:00", "2025-10-26 02:30:00.5", "2025-03-30 03:00:00")):
                cursor.execute(
                    "INSERT INTO t VALUES (%s, %s, %s, %s, %s)", (first + place * 100 + 90 + n, *[local] * 4)
                )


def test_snapshot_local_time_against_log_utc(summer_time: Lab, small_chunks: int) -> None:
    """flink-cdc #317, #1406, #1614, #1906, #2074; ingestr #977: the snapshot's times are the session's, the log's are
    UTC.

    Tidemark's sessions are in UTC regardless of the server's zone; a DATETIME keeps its wall-clock value.
    """
    lab = summer_time
    lab.execute("CREATE TABLE k (at TIMESTAMP(6) PRIMARY KEY, n INT)")
    lab.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP(6) NULL, wall DATETIME(6), old TIMESTAMP NULL, "
        "made TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3))"
    )
    write_times(lab, 0)
    lab.replicate()
    lab.run_and_compare(2)
    write_times(lab, 1000)
    lab.execute("UPDATE t SET old = at WHERE id % 7 = 0", "DELETE FROM k WHERE n % 5 = 0")
    lab.execute(
        "SET SESSION time_zone = '+05:30'", "ALTER TABLE t ADD COLUMN late TIMESTAMP NULL DEFAULT '2025-01-01 05:30:00'"
    )
    lab.execute(
        "SET SESSION time_zone = DEFAULT", "ALTER TABLE t ADD COLUMN early DATETIME NULL DEFAULT '2025-03-30 02:30:00'"
    )
    lab.run_and_compare(2)
    by_id = {row["id"]: row for row in target_rows(lab, "t")}
    for first in (0, 1000):
        for n, instant in enumerate(INSTANTS):
            found = [by_id[first + place * 100 + n] for place in range(5)]
            assert {row["at"] for row in found} == {instant}
            offsets = [row["wall"] - instant.replace(tzinfo=None) for row in found]
            hours = 2 if GAP <= instant < OVERLAP else 1
            assert offsets == [timedelta(hours=h) for h in (0, 5.5, -11, 13, hours)]
    assert {row["late"] for row in by_id.values()} == {datetime(2025, 1, 1, tzinfo=UTC)}
    assert {row["early"] for row in by_id.values()} == {datetime(2025, 3, 30, 2, 30)}  # noqa: DTZ001 - that is the point


def test_unsigned_types_that_differ_between_snapshot_and_log(lab: Lab, small_chunks: int) -> None:
    """ingestr #977, risingwave #25947, mysql-binlog-connector-java #188: the log's integers do not say that they have
    no sign.

    Tidemark takes the sign from the log's metadata; 64 bits without a sign are decimals, in keys too.
    """
    types = [
        *((f"{name} UNSIGNED", bits) for name,
            bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32))),
        ("BIGINT UNSIGNED", 64), ("INT(9) UNSIGNED ZEROFILL", 32), ("BIGINT ZEROFILL", 64), ("BIT(1)", 1),
        ("BIT(33)", 33),
        ("BIT(64)", 64), ("YEAR", 0),
    ]  # fmt: skip
    plain = {"DECIMAL(20,0) UNSIGNED": "99999999999999999999", "DECIMAL(9,4) UNSIGNED ZEROFILL": "99999.9999",
             "FLOAT UNSIGNED": "3.4e38", "DOUBLE UNSIGNED ZEROFILL": "1.7e308"}  # fmt: skip
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate([*(kind for kind, _ in types), *plain]))
    rows = [
        [min(n, (1 << bits) - 1) if bits else 1901 + n % 250 for _, bits in types] + [n % 9999] * len(plain)
        for n in (0, 1, 127, 128, 255, 32768, 65535, 1 << 23, 1 << 24, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1)
    ]
    rows.append([(1 << bits) - 1 if bits else 2155 for _, bits in types] + [*plain.values()])
    rows.append([(1 << bits) >> 1 if bits else 0 for _, bits in types] + [0] * len(plain))
    rows.append([None] * (len(types) + len(plain)))
    lab.execute(
        f"CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, {columns})",
        "CREATE TABLE k (id BIGINT UNSIGNED PRIMARY KEY, v INT)",
    )
    edges = [0, 5, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 2, (1 << 64) - 1, *range(10, 20)]
    with lab.transaction() as cursor:
        insert(cursor, "t", [(n, *row) for n, row in enumerate(rows)])
        insert(cursor, "k", [(key, 0) for key in edges])
    lab.replicate()
    lab.run_and_compare(2)
    with lab.transaction() as cursor:
        insert(cursor, "t", [((1 << 32) - 1 - n, *row) for n, row in enumerate(rows)])
        cursor.execute("UPDATE t SET c0 = 255, c4 = 18446744073709551615, c9 = b'1' WHERE id < 5")
        cursor.execute(
            "UPDATE k SET v = 1 WHERE id IN (5, 9223372036854775807, 9223372036854775808, 18446744073709551615)"
        )
        cursor.execute("UPDATE k SET id = 18446744073709551613 WHERE id = 18446744073709551614")
        cursor.execute("DELETE FROM k WHERE id IN (0, 9223372036854775809)")
        cursor.execute("INSERT INTO k VALUES (9223372036854775810, 2)")
    lab.run_and_compare(2)


@pytest.fixture
def own_lab(tmp_path: Path, transactional_db: Any) -> Iterator[tuple[EmbeddedMariaDB, Lab]]:
    """A lab on a separate server, which may be restarted and lose its log."""
    server = EmbeddedMariaDB(tmp_path / "own")
    server.start()
    yield server, Lab(server.address, "quiet")
    server.stop()


def log_file(lab: Lab) -> str:
    """The newest file of the source's log."""
    with lab.sql.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        return str(cursor.fetchone()[0])


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_idle_table_whose_checkpoint_falls_out_of_the_logs_retention(
    own_lab: tuple[EmbeddedMariaDB, Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debezium DBZ-220, flink-cdc #641 and #1947, risingwave #12753: the offset stays at a quiet table's last change
    until it is purged.

    Tidemark's checkpoint follows the reading, over other databases' changes and over a restart in which nothing
    happened.
    """
    monkeypatch.setattr(capture, "IDLE_COMMIT_SECONDS", 0.3)
    server, lab = own_lab
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "CREATE DATABASE loud")
    lab.replicate("t")
    lab.run_and_compare(1)
    at: Callable[[], Any] = lambda: lab.replicator.checkpoint_offset["file"]
    with HeadlessRun(lab.replicator):
        lab.execute("CREATE TABLE loud.t (v INT)", "INSERT INTO loud.t VALUES (1)", "FLUSH BINARY LOGS")
        lab.execute("INSERT INTO loud.t SELECT seq FROM seq_1_to_1000", "FLUSH BINARY LOGS")
        wait_until(lambda: at() == log_file(lab))
        purge_everything_old(lab)
        wait_until(lambda: at() == log_file(lab))
    for how in (signal.SIGTERM, signal.SIGKILL):  # the file ends with an event that says so, or with nothing
        before = at()
        lab.sql.close()
        server.restart(how)
        assert log_file(lab) > before
        lab.run()
        assert at() == log_file(lab)
    purge_everything_old(lab)
    lab.execute(f"INSERT INTO {lab.database}.t VALUES (2)")
    assert lab.run_and_compare(1) == 2
    assert lab.table("t").runs.count() == 1
