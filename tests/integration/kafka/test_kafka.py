"""Tables replicated to a real broker, and rebuilt from their topics by a consumer that knows nothing of the target."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from replicator.errors import ConfigurationError, TargetConflict, TargetError
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import INT
from replicator.staging.storage import Storage
from replicator.targets.base import NO_TABLE, Create, DeleteBelow, Rename, TargetTable
from replicator.targets.kafka.config import KafkaConfig
from replicator.targets.kafka.target import KafkaTarget
from testing.servers.kafka import EmbeddedKafka
from tests.integration.kafka.conftest import KafkaLab, Topic
from tests.integration.kafka.consumer import messages
from webapp.console.definitions.export import export
from webapp.replicators import services
from webapp.replicators.targets import public_target
from webapp.worker.run import spark
from webapp.worker.run.headless import HeadlessRun

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).resolve().parents[3]
COLUMNS = (
    "id INT PRIMARY KEY, big BIGINT UNSIGNED, amount DECIMAL(30,12), name VARCHAR(100), raw VARBINARY(40), day DATE,"
    " wall DATETIME(6), moment TIMESTAMP(6) NULL, ratio DOUBLE, yes BOOLEAN"
)
ROW = (
    "seq, 18446744073709551615 - seq, seq / 7 - 3, CONCAT('näme \"', seq, '\\\\ \\n', CHAR(seq % 32)), UNHEX(HEX(seq *"
    " 7919)), '2024-02-29', '1999-12-31 23:59:59.000001', '2038-01-19 03:14:07', seq / 3, seq % 2"
)
FORMS = [
    ("json", "debezium"),
    ("avro", "flat"),
    pytest.param("json", "flat", marks=pytest.mark.long),
    pytest.param("avro", "debezium", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("format_", "envelope"), FORMS)
def test_a_topic_rebuilds_its_table(lab: KafkaLab, small_chunks: int, format_: str, envelope: str) -> None:
    """Initial load under traffic, then inserts, updates, key changes, deletes, nulls and a truncate."""
    lab.execute(
        f"CREATE TABLE t ({COLUMNS})",
        "CREATE TABLE k (v INT, w VARCHAR(9))",
        "CREATE TABLE e (a INT, b INT, PRIMARY KEY (b, a))",
    )
    lab.execute(f"INSERT INTO t SELECT {ROW} FROM seq_1_to_400", "INSERT INTO k SELECT seq % 5, 'x' FROM seq_1_to_20")
    lab.execute("INSERT INTO e SELECT seq, -seq FROM seq_1_to_30")
    replicator, asked = lab.replicate(format=format_, envelope=envelope, partitions=3), set(spark._pools)
    writing = threading.Thread(target=traffic, args=(lab,))
    with HeadlessRun(replicator):
        writing.start()
        writing.join()
    lab.run()
    for table in "tke":
        lab.assert_rebuilt(table)
    with lab.transaction() as cursor:
        cursor.execute("UPDATE t SET id = id + 10000 WHERE id <= 20")
        cursor.execute("UPDATE t SET name = NULL, ratio = NULL WHERE id % 9 = 0")
        cursor.execute("DELETE FROM t WHERE id % 10 = 3")
        cursor.execute("UPDATE k SET w = 'y' WHERE v = 2")
        cursor.execute("DELETE FROM k WHERE v = 3 LIMIT 2")
    lab.execute("TRUNCATE TABLE e", "INSERT INTO e VALUES (7, 7), (8, 8)", "UPDATE e SET a = 9 WHERE a = 8")
    lab.run()
    t, k, e = (lab.assert_rebuilt(table) for table in "tke")
    assert t.ops["r"] >= 300
    assert t.ops["d"] == t.tombstones >= 60
    assert k.tombstones == 0
    assert e.ops["t"] == 3  # one truncate message per partition
    assert set(spark._pools) == asked  # no JVM for this target
    if (format_, envelope) == ("json", "debezium"):
        debezium_shape(t.values[-1], lab)


@pytest.mark.parametrize("format_", ["json", pytest.param("avro", marks=pytest.mark.long)])
def test_rules_name_topics_and_add_columns(lab: KafkaLab, format_: str) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    computed = f"{lab.database}.*: tenant = 'eu', v_text = cast(v as string), made_by = operation, at = commit_time"
    lab.replicate(format=format_, routing=f"{lab.database}.*: {lab.name}.routed_{{table}}", computed_columns=computed)
    lab.run()
    lab.execute("UPDATE t SET v = 20 WHERE id = 2", "DELETE FROM t WHERE id = 3")
    lab.run()
    found = Topic.read(lab.broker.bootstrap_servers, lab.name, "routed_t")
    rows = {row["id"]: row for row in found.table()}
    assert {key: (row["v"], row["tenant"], row["v_text"], row["made_by"]) for key, row in rows.items()} == {
        1: (1, "eu", "1", "READ"), 2: (20, "eu", "20", "UPDATE")
    }  # fmt: skip
    assert all(row["at"] for row in rows.values())
    # Other rules are for tables that come later; an export says no name that Kafka would refuse.
    services.update_target(
        replicator=lab.replicator,
        target={**public_target(lab.replicator), "routing": f"{lab.database}.*: {lab.name}.y"},
    )
    lab.execute("UPDATE t SET v = 30 WHERE id = 2")
    lab.run()
    rows = {row["id"]: row for row in Topic.read(lab.broker.bootstrap_servers, lab.name, "routed_t").table()}
    assert rows[2]["v"] == 30
    assert "target: " not in export([lab.name]).partition("tables:")[2]


def debezium_shape(value: dict[str, Any], lab: KafkaLab) -> None:
    assert list(value) == ["before", "after", "source", "op", "ts_ms"]
    source = value["source"]
    assert (source["connector"], source["db"], source["table"], source["snapshot"]) == (
        "mysql",
        lab.database,
        "t",
        "false",
    )
    assert 0 <= value["ts_ms"] - source["ts_ms"] < 600_000
    assert source["sequence"] > 0
    assert source["offset"]


def traffic(lab: KafkaLab) -> None:
    """While chunks are read."""
    for n in range(40):
        with lab.transaction() as cursor:
            cursor.execute("UPDATE t SET name = %s WHERE id %% 40 = %s", (f"changed {n}", n))
            cursor.execute("DELETE FROM t WHERE id = %s", (400 - n * 3,))
            cursor.execute("INSERT INTO t (id, name) VALUES (%s, 'new')", (1000 + n,))
            cursor.execute("UPDATE t SET id = id + 5000 WHERE id = %s", (n * 7 + 1,))
        time.sleep(0.02)


def test_definitions_change_and_tables_are_read_anew(lab: KafkaLab, small_chunks: int) -> None:
    """Columns come, go and are renamed; a reload tells what is gone; a renamed table stays in its topic; a dropped one
    is emptied.
    """
    lab.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO t SELECT seq, seq, seq FROM seq_1_to_120"
    )
    lab.replicate(format="avro")
    lab.run()
    lab.assert_rebuilt("t")
    lab.execute("ALTER TABLE t RENAME COLUMN v TO renamed", "UPDATE t SET renamed = -1 WHERE id < 5")
    lab.execute(
        "ALTER TABLE t ADD COLUMN late VARCHAR(5)", "ALTER TABLE t DROP COLUMN w", "INSERT INTO t VALUES (500, 5, 'x')"
    )
    lab.run()
    lab.assert_rebuilt("t")
    services.resnapshot_table(table=lab.table("t"), reason="a test asks")
    lab.execute("DELETE FROM t WHERE id % 4 = 0", "UPDATE t SET renamed = 0 WHERE id % 4 = 1")
    lab.run()
    reloaded = lab.assert_rebuilt("t")
    assert reloaded.ops["t"] == 1
    lab.execute("RENAME TABLE t TO u", "INSERT INTO u VALUES (600, 6, 'y')")
    lab.run()
    lab.assert_rebuilt("u", topic="t")
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    lab.run()
    lab.assert_rebuilt("t", topic="t.2")
    lab.execute("DROP TABLE u", "DROP TABLE t")
    lab.run()
    assert lab.topic("t").table() == lab.topic("t.2").table() == []
    lab.execute("CREATE TABLE t (other VARCHAR(9) PRIMARY KEY)", "INSERT INTO t VALUES ('x'), ('y')")
    lab.run()
    lab.assert_rebuilt("t")


APPLY = """
import sys, time, django
django.setup()
from webapp.monitoring.models import Stage
from webapp.worker.run import work_slice
while True:
    work_slice.run_slice(Stage.APPLY, int(sys.argv[1]), seconds=60)
    time.sleep(0.1)  # the one that was killed still holds the lease
"""
POINTS = ("apply.read.after", "apply.publish.before", "apply.publish.after", "apply.mark.written", "apply.mark.after")


def test_a_killed_worker_doubles_nothing_and_loses_nothing(lab: KafkaLab, process_environment: dict[str, str]) -> None:
    """SIGKILL between the messages, the transaction's commit and the journal."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE k (v INT)")
    lab.replicate()
    lab.run()
    replicator = lab.replicator
    environment = process_environment | {"DJANGO_SETTINGS_MODULE": "webapp.settings", "TIDEMARK_LEASE_SECONDS": "2"}
    for number, point in enumerate(POINTS):
        lab.execute(
            f"INSERT INTO t SELECT seq + {number * 1000}, seq FROM seq_1_to_300",
            "UPDATE t SET v = v + 1 WHERE id % 3 = 0",
            "INSERT INTO k SELECT seq FROM seq_1_to_50",
        )
        capture(lab)
        done = subprocess.run(
            [sys.executable, "-c", APPLY, str(replicator.pk)], env=environment | {"TIDEMARK_FAULTS": f"{point}=kill"},
            cwd=ROOT, timeout=120, check=False, capture_output=True,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    lab.run()
    t = lab.assert_rebuilt("t")
    assert t.ops["c"] == 300 * len(POINTS)
    assert lab.assert_rebuilt("k").ops["c"] == 50 * len(POINTS)


def capture(lab: KafkaLab) -> None:
    """Until the log's end of now is journaled."""
    from webapp.monitoring.models import Stage
    from webapp.worker.run import work_slice

    begun = lab.replicator.next_sequence
    stop = lambda: lab.replicator.next_sequence > begun
    deadline = time.monotonic() + 60
    while not stop() and time.monotonic() < deadline:
        work_slice.run_slice(Stage.CAPTURE, lab.replicator.pk, seconds=3, stopped=stop)


def make_target(broker: EmbeddedKafka, prefix: str, replicator: str = "r1", folder: str = "/nowhere") -> KafkaTarget:
    config = KafkaConfig.parse({"bootstrap_servers": broker.bootstrap_servers, "topic_prefix": prefix})
    return KafkaTarget(config, Storage(f"file://{folder}"), replicator, "mysql")


SCHEMA = TableSchema(TableId("db", "t"), (Column("id", INT, nullable=False, source_type="int"),), ("id",))


def test_of_two_workers_the_older_one_is_fenced(broker: EmbeddedKafka) -> None:
    table = TargetTable("fence.db", "t")
    older, newer = make_target(broker, "fence"), make_target(broker, "fence")
    assert older.position(table) is None
    older.apply(table, Create(SCHEMA, 1, -1, "L"), NO_TABLE)
    assert newer.position(table) == older.position(table) is not None
    newer.position(table)  # takes the fence back from the older one
    older.close()
    older = make_target(broker, "fence")
    older.position(table)
    newer = make_target(broker, "fence")
    newer.position(table)
    with pytest.raises(TargetConflict):
        older.apply(table, DeleteBelow(50, 50), "L")
    newer.apply(table, DeleteBelow(60, 60), "L")
    position = newer.position(table)
    assert position is not None
    assert position.applied == 60
    with pytest.raises(TargetConflict):
        newer.apply(table, DeleteBelow(70, 70), "another load")
    with pytest.raises(ConfigurationError, match="did not write"):
        make_target(broker, "fence", "r2").position(table)
    newer.apply(table, Rename(TargetTable("fence.db", "u")), "L")
    assert newer.position(table) is None
    assert newer.position(TargetTable("fence.db", "u")) == position


def test_what_a_dead_worker_left_open_hides_no_other_tables_position(broker: EmbeddedKafka) -> None:
    one, other = TargetTable("open.db", "t"), TargetTable("open.db", "u")
    target = make_target(broker, "open")
    for table in (one, other):
        target.position(table)
        target.apply(table, Create(SCHEMA, 1, -1, "L"), NO_TABLE)
    config = KafkaConfig.parse({"bootstrap_servers": broker.bootstrap_servers})
    dead = Producer(config.producer(f"tidemark.r1.{one}"))
    dead.init_transactions(20)
    dead.begin_transaction()
    held = target._open().positions.now().tables[one]
    dead.produce(
        "open.tidemark-applied",
        held.value.replace('"applied": -1', '"applied": 77'),
        json.dumps({"table": ["open.db", "t"]}),
    )
    dead.flush(10)
    target.apply(other, DeleteBelow(5, 5), "L")
    fresh = make_target(broker, "open")
    found = fresh.position(other)
    assert found is not None
    assert found.applied == 5
    found = fresh.position(one)
    assert found is not None
    assert found.applied == -1


def test_a_broker_that_is_away_is_waited_for(lab: KafkaLab) -> None:
    own = EmbeddedKafka(lab.broker.folder.parent / "kafka-away")
    own.start()
    shared, lab.broker = lab.broker, own
    try:
        lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        lab.replicate()
        lab.run()
        own.stop(signal.SIGKILL)
        target = make_target(own, lab.name)
        with pytest.raises(TargetError, match="do not respond") as told:
            target.position(TargetTable("a", "b"))
        assert told.value.retryable
        lab.execute("INSERT INTO t VALUES (2)")
        with HeadlessRun(lab.replicator):
            deadline = time.monotonic() + 90
            while not lab.table("t").error_message and time.monotonic() < deadline:
                time.sleep(0.2)
            assert "do not respond" in lab.table("t").error_message
            assert lab.table("t").state == "streaming"
        own.start()
        lab.run()
        lab.assert_rebuilt("t")
        assert lab.table("t").error_message == ""
    finally:
        own.stop()
        lab.broker = shared


def test_uncommitted_messages_are_there_and_are_not_read(lab: KafkaLab, process_environment: dict[str, str]) -> None:
    """So the test above proves something: an aborted transaction has left its messages in the log."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    lab.replicate()
    lab.run()
    lab.execute("INSERT INTO t SELECT seq FROM seq_1_to_20000")
    capture(lab)
    environment = process_environment | {"DJANGO_SETTINGS_MODULE": "webapp.settings", "TIDEMARK_LEASE_SECONDS": "2"}
    fault = {"TIDEMARK_FAULTS": "apply.publish.before=kill"}
    command = [sys.executable, "-c", APPLY, str(lab.replicator.pk)]
    subprocess.run(command, env=environment | fault, cwd=ROOT, timeout=120, check=False, capture_output=True)
    lab.run()
    topic = f"{lab.name}.{lab.database}.t"
    everything = sum(1 for _ in messages(lab.broker.bootstrap_servers, topic, "read_uncommitted"))
    assert everything > 20_000
    lab.assert_rebuilt("t")
