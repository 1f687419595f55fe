"""The process's Spark: secrets, failures, threads, and a JVM that dies."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from py4j.protocol import Py4JError, Py4JJavaError
from pyiceberg.catalog.sql import SqlCatalog

from replicator.errors import SparkUnavailable, TargetError
from replicator.targets.base import Append, Create, Merge, TargetTable
from replicator.targets.iceberg.direct.writer import SPARK_ONLY
from replicator.targets.iceberg.jvm import jvm as engine
from replicator.targets.iceberg.jvm.errors import translated
from replicator.targets.iceberg.jvm.executor import prompt_executor
from replicator.targets.iceberg.jvm.janino import instance
from replicator.targets.iceberg.jvm.session import SparkPool
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.spark.lake import Lake
from tests.staged import delete, insert, read, schema_of, update

KEYED = schema_of({"id": "int", "v": "string"}, ["id"])


def test_several_tables_are_applied_in_parallel(lake: Lake) -> None:
    tables = [lake.table(KEYED) for _ in range(4)]

    def life(place: int) -> list[object]:
        table = tables[place]
        lake.merge(table, KEYED, insert(0, 1, f"{place}"), insert(1, 2, "x"))
        lake.merge(table, KEYED, update(2, (1, f"{place}"), (1, f"{place}!")), delete(3, 2, "x"))
        return list(lake.rows(table))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(life, range(4))) == [[(1, f"{place}!")] for place in range(4)]
    assert len(lake.spark._free) <= 4


def test_java_of_our_own_is_compiled_once_by_threads_that_need_it_at_the_same_time(lake: Lake) -> None:
    """py4j remembers a class's methods by its name: of two that have one, it calls a method of the wrong one."""
    running, start = engine.running(lake.config), threading.Barrier(8)
    source = 'public class CompiledOnce { public String says() { return "once"; } }'

    def ask(_: int) -> str:
        start.wait(60)
        made = instance(running, "CompiledOnce", source)
        return f"{made.says()} {running.java('java.lang.System.identityHashCode')(made)}"

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(ask, range(8)))
    assert len(answers) == 1
    assert answers.pop().startswith("once ")


WITNESS = """
public class Witness implements py4j.GatewayServerListener {
    private final StringBuffer seen = new StringBuffer();
    public void connectionStarted(py4j.Py4JServerConnection connection) {
        try {
            seen.append(connection.getSocket().getTcpNoDelay()).append(' ');
        } catch (java.net.SocketException error) {
            seen.append("closed ");
        }
    }
    public String seen() { return seen.toString(); }
    public void connectionStopped(py4j.Py4JServerConnection connection) {}
    public void connectionError(Exception error) {}
    public void serverError(Exception error) {}
    public void serverPostShutdown() {}
    public void serverPreShutdown() {}
    public void serverStarted() {}
    public void serverStopped() {}
}
"""


def test_java_answers_each_thread_without_waiting_for_acknowledgements(lake: Lake) -> None:
    running = engine.running(lake.config)
    witness, server = instance(running, "Witness", WITNESS), running.gateway.java_gateway_server
    server.addListener(witness)
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(running.jvm.java.lang.System.nanoTime).result()
        assert "true" in (seen := witness.seen().split())
        assert "false" not in seen
    finally:
        server.removeListener(witness)


PROMPT = """
import java.util.concurrent.*;

public class Prompt {
    public String ask(ExecutorService executor) throws Exception {
        final CountDownLatch begun = new CountDownLatch(1), go = new CountDownLatch(1);
        Future works = executor.submit(new Runnable() { public void run() {
            begun.countDown();
            try { go.await(); } catch (InterruptedException error) { throw new RuntimeException("interrupted"); }
        } });
        begun.await();
        Thread.currentThread().interrupt();
        String said = works.isDone() + " " + Thread.interrupted();
        go.countDown();
        Future fails = executor.submit(new Runnable() { public void run() { throw new RuntimeException("no"); } });
        said = said + " " + works.isDone() + " " + fails.isDone();
        try {
            fails.get();
        } catch (ExecutionException error) {
            said = said + " " + error.getCause().getMessage();
        }
        return said;
    }
}
"""


def test_a_task_of_a_commit_is_done_when_it_is_asked_unless_whoever_asks_is_interrupted(lake: Lake) -> None:
    running = engine.running(lake.config)
    said = instance(running, "Prompt", PROMPT).ask(prompt_executor(running))
    assert said == "false true true true no"


def test_a_context_that_was_shut_down_is_told_as_spark_that_ended(lake: Lake) -> None:
    """As a JVM that runs out of memory does on its way out; py4j tells a class that it cannot ask for any more as
    missing.
    """
    jvm = engine.running(lake.config).jvm
    ended = jvm.org.apache.spark.SparkException("Job 140 cancelled because SparkContext was shut down")
    thrown = jvm.java.util.concurrent.CompletableFuture.failedFuture(ended)
    with pytest.raises(Py4JJavaError) as raised:
        thrown.get()
    for error in (raised.value, Py4JError("org.apache.iceberg does not exist in the JVM")):
        assert isinstance(translated(error), SparkUnavailable)


def test_the_catalogs_password_is_in_no_command_line_no_setting_of_the_context_and_no_repr(lake: Lake) -> None:
    lake.target.position(lake.table(KEYED))
    running = engine.running(lake.config)
    shown = running.root.sparkContext._conf.toDebugString() + repr(lake.config)
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # one that has just ended
            shown += " ".join(child.cmdline())
    assert "tidemark" in shown
    assert lake.config.catalog_password not in shown


def test_a_failure_is_one_line_without_stack_and_secret(lake: Lake) -> None:
    table = lake.table(KEYED)
    segment = lake.segment(KEYED, [read(0, 1, "a")])
    file = Path(urlsplit(lake.storage.uri(segment.path)).path)
    file.write_bytes(b"not Parquet" * 10)
    with pytest.raises(TargetError) as raised:
        lake.another_worker(limits=SPARK_ONLY).apply(table, Append([segment], KEYED, 0))
    text = raised.value.message
    assert file.name in text
    assert "\n" not in text
    assert "at org." not in text
    assert "\tat org." in raised.value.stack
    assert lake.config.catalog_password not in raised.value.stack


def test_a_spark_that_cannot_start_says_why(lake: Lake) -> None:
    broken = dataclasses.replace(lake.config, jars=[Path("/nowhere/iceberg.jar")])
    with pytest.raises(SparkUnavailable, match=r"iceberg\.jar"):
        engine._start_or_say(broken, 0)


def test_a_jvm_that_dies_is_told_and_replaced_on_the_next_use(lake: Lake) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, insert(0, 1, "a"))
    running = engine.running(lake.config)
    launched = psutil.Process(running.gateway.proc.pid)
    jvm = next(process for process in [launched, *launched.children(recursive=True)] if process.name() == "java")
    jvm.kill()
    jvm.wait(20)
    segment = lake.segment(KEYED, [update(1, (1, "a"), (1, "b"))])
    with pytest.raises(SparkUnavailable):
        lake.target.apply(table, Merge([segment], KEYED, 1))
    lake.target.apply(table, Merge([segment], KEYED, 1))
    assert lake.rows(table) == [(1, "b")]


def test_who_failed_with_the_jvm_before_leaves_the_new_one_alone(lake: Lake) -> None:
    """Two turns fail with one JVM: the first has another started, the second reports the failure later."""
    running = engine.running(lake.config)
    engine.forget(running.generation - 1)
    assert engine.running(lake.config) is running


def test_a_lake_with_its_catalog_in_postgres_works_and_keeps_its_connections(lake: Lake, postgres_url: str) -> None:
    from urllib.parse import unquote, urlsplit

    import psycopg2

    at = urlsplit(postgres_url)
    with psycopg2.connect(postgres_url) as admin:
        admin.autocommit = True
        config = dataclasses.replace(
            lake.config,
            catalog_uri=f"jdbc:postgresql://{at.hostname}:{at.port}{at.path}",
            catalog_user=unquote(at.username or ""),
            catalog_password=unquote(at.password or ""),
        )
        pool = SparkPool(config)
        target = IcebergTarget(pool, lake.storage, "r1")
        table = TargetTable("Ünder.score", "T")
        target.apply(table, Create(KEYED, 1, -1, "L1"))
        for n in range(6):
            segment = lake.segment(KEYED, [insert(n, n % 3, f"{n}")])
            target.apply(table, Merge([segment], KEYED, n))
        with admin.cursor() as cursor:
            cursor.execute("select count(*) from pg_stat_activity where application_name like 'PostgreSQL JDBC%'")
            assert cursor.fetchone()[0] <= 6
        uri = postgres_url.replace("postgres://", "postgresql://").replace("postgresql://", "postgresql+psycopg2://")
        reader = SqlCatalog("lake", uri=uri, warehouse=config.warehouse)
        found = reader.load_table((table.namespace, table.name)).scan().to_arrow()
        assert sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == [
            (0, "3"),
            (1, "4"),
            (2, "5"),
        ]
        wrong = dataclasses.replace(config, catalog_user="nobody", catalog_password="wr0ng-p4ss")
        with pytest.raises(TargetError) as raised:
            IcebergTarget(SparkPool(wrong), lake.storage, "r1").position(table)
        assert "wr0ng-p4ss" not in raised.value.message
        print(raised.value.message)
