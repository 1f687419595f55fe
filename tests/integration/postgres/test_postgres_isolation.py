"""One table's trouble is one table's (invariant 13): errors of the server, and locks and transactions that do not
end.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from replicator.errors import SourceBusy, SourcePermissionDenied, TableBusy, TableError, TableNotRead, TidemarkError
from replicator.model.change import ChangeBatch, SchemaChange, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import KeyRange, ReadOptions, SourceWait
from replicator.sources.postgres.blocking_transactions import lock_holders
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.check.checks import run_checks
from replicator.sources.postgres.connection import connect
from replicator.sources.postgres.offset import LsnOffset
from replicator.sources.postgres.snapshot.reader import PostgresSnapshotReader
from replicator.sources.postgres.stream.catalog_observer import CatalogObserver, CatalogSnapshot
from replicator.sources.postgres.stream.relations import Relations
from replicator.sources.postgres.stream.slot import ReplicationSlot
from replicator.sources.postgres.stream.snapshot_barriers import listed_in
from tests.crash.faults.errors import STATES
from tests.crash.faults.proxy import Proxy
from tests.integration.postgres.test_postgres_log import Log, changes, ddl, log
from webapp.embedded.postgres_source import EmbeddedPostgresSource

__all__ = ["log"]
pytestmark = pytest.mark.integration


@contextmanager
def behind_proxy(log: Log) -> Iterator[Proxy]:
    """`log.config` goes by way of a proxy that can answer errors."""
    direct = log.config
    with Proxy(direct.host, direct.port, speaks="postgres") as proxy:
        log.config = replace(direct, host=proxy.host, port=proxy.port)
        try:
            yield proxy
        finally:
            log.config = direct


@contextmanager
def held(log: Log, *statements: str) -> Iterator[Any]:
    """Another session's transaction, open in the block."""
    with closing(log.session()) as session, session.cursor() as cursor:
        cursor.execute("BEGIN")
        for statement in statements:
            cursor.execute(statement)
        yield session
        cursor.execute("ROLLBACK")


def test_whatever_the_server_answers_for_a_table_is_no_trouble_of_the_source(log: Log) -> None:
    """But for states of the connection or the server; and the next table is read."""
    log.run(
        "CREATE TABLE bad (id int PRIMARY KEY)", "CREATE TABLE good (id int PRIMARY KEY)", "INSERT INTO good VALUES (1)"
    )
    log.follow("bad", "good")
    chance = random.Random(7)
    of_source = ("08", "25006", "28", "3D", "57P", "53300")
    with behind_proxy(log) as proxy, closing(PostgresSnapshotReader(log.config, ReadOptions(), log.name)) as reader:
        for state in STATES:
            wanted = lambda statement: b"COPY" in statement and b'"bad"' in statement
            proxy.answer_errors(1, [state], wanted=wanted, chance=chance)
            with pytest.raises(TidemarkError) as caught:
                list(reader.read_chunk(log.table("bad"), KeyRange()).batches)
            assert state in caught.value.message
            ours = isinstance(caught.value, TableError | SourcePermissionDenied)
            assert ours is not state.startswith(of_source), caught.value
            rows = list(reader.read_chunk(log.table("good"), KeyRange()).batches)
            assert sum(batch.num_rows for batch in rows) == 1


def test_a_table_that_the_catalog_cannot_describe_leaves_the_others_described(log: Log) -> None:
    log.run(*(f"CREATE TABLE t{n} (id int PRIMARY KEY)" for n in range(5)))
    log.follow()
    tables = [log.table(f"t{n}") for n in range(5)]
    with behind_proxy(log) as proxy, closing(connect(log.config)) as connection:
        proxy.answer_errors(1000, ["XX000"], wanted=lambda statement: b"'t3'" in statement)
        found = PostgresCatalog(connection).details(tables)
        assert [isinstance(found[table], TableNotRead) for table in tables] == [False, False, False, True, False]
        with connection.cursor() as cursor:  # and in a transaction, which goes on
            cursor.execute("BEGIN")
            again = PostgresCatalog(connection).details(tables)
            cursor.execute("SELECT 1")
            cursor.execute("COMMIT")
        assert [isinstance(again[table], TableNotRead) for table in tables] == [False, False, False, True, False]


def test_a_new_slot_waits_for_a_prepared_transaction_and_names_it(log: Log) -> None:
    """Of any database, for longer than any lock timeout."""
    with closing(connect(replace(log.config, database="postgres"))) as other, other.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS public.forgotten")
        cursor.execute("CREATE TABLE public.forgotten (id int)")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO public.forgotten VALUES (1)")
        cursor.execute("PREPARE TRANSACTION 'forgotten'")
        told: list[SourceBusy] = []
        ended = threading.Timer(12, lambda: cursor.execute("ROLLBACK PREPARED 'forgotten'"))
        ended.start()
        log.run("CREATE TABLE t (id int PRIMARY KEY)")
        log.log = ReplicationSlot(log.control, log.config, log.name)
        log.log.prepare(
            TableSet(tables=frozenset({log.table("t")})), first=True, waiting=SourceWait(on_busy=told.append)
        )
        ended.join()
        cursor.execute("DROP TABLE public.forgotten")
    assert "the prepared transaction forgotten (database postgres" in told[0].message
    assert "ROLLBACK PREPARED 'forgotten'" in told[0].remedy
    assert log.log.confirmed()


def test_a_slot_that_is_waited_for_is_given_up_within_seconds_and_leaves_nothing(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY)")
    log.log = ReplicationSlot(log.control, log.config, log.name)
    with held(log, "INSERT INTO t VALUES (1)") as session:
        pid, asked = session.info.backend_pid, time.monotonic()
        with pytest.raises(SourceBusy, match=f"pid {pid}") as caught:
            log.log.prepare(
                TableSet(tables=frozenset({log.table("t")})),
                first=True,
                waiting=SourceWait(lambda: time.monotonic() - asked > 1),
            )
        assert time.monotonic() - asked < 10
        assert f"pg_terminate_backend({pid})" in caught.value.remedy
        deadline = time.monotonic() + 10
        while log.log._slot_rows():
            assert time.monotonic() < deadline
        checks = {check.name: check for check in run_checks(log.config, None)}
        assert checks["open_transactions"].status in {"ok", "warning"}
    assert log.log.prepare(TableSet(tables=frozenset({log.table("t")})), first=True).offset


def test_a_locked_new_table_waits_while_the_log_of_the_others_goes_on(log: Log) -> None:
    """Created while no reader ran and locked by another session: it is published once the lock is released."""
    log.run("CREATE TABLE old (id int PRIMARY KEY)")
    log.follow("old")
    log.run(
        "CREATE TABLE fresh (id int PRIMARY KEY)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO fresh VALUES (1)",
    )
    log.tables = TableSet(databases=frozenset({log.name}))
    with held(log, "LOCK TABLE fresh IN ACCESS EXCLUSIVE MODE") as session:
        began = time.monotonic()
        log.log.prepare(log.tables, first=False)
        assert time.monotonic() - began < 5
        assert log.log.published() == {log.table("old"), log.table("other")}
        names = [log.table(name) for name in ("old", "fresh", "other")]
        found = PostgresCatalog(log.control, left_out=log.tables).describe(names)
        log.schemas = {table: schema for table, schema in found.items() if isinstance(schema, TableSchema)}
        assert len(log.schemas) == 3
        log.run("INSERT INTO old VALUES (1)", "INSERT INTO other VALUES (2)")
        assert changes(log.read(), "id") == [("INSERT", 1), ("INSERT", 2)]
        with closing(PostgresSnapshotReader(log.config, ReadOptions(), log.name)) as reader:
            asked = time.monotonic()
            for read in (
                lambda: reader.end_key(log.table("fresh")),
                lambda: reader.read_chunk(log.table("fresh"), KeyRange()),
            ):
                with pytest.raises(TableBusy, match=f"lock held by pid {session.info.backend_pid}"):
                    read()
            assert time.monotonic() - asked < 8
            with closing(connect(log.config)) as connection, connection.cursor() as cursor:
                cursor.execute(f"INSERT INTO {log.name}.old VALUES (3)")
            assert sum(batch.num_rows for batch in reader.read_chunk(log.table("old"), KeyRange()).batches) == 2

    def published(message: Any) -> bool:
        if log.table("fresh") in log.log.published():
            log.run("INSERT INTO fresh VALUES (5) ON CONFLICT DO NOTHING")
        return isinstance(message, ChangeBatch) and message.table == log.table("fresh")

    met = list(log.until(published))
    assert [row for row in changes(met, "id") if row[1] == 5] == [("INSERT", 5)]
    with closing(PostgresSnapshotReader(log.config, ReadOptions(), log.name)) as reader:
        assert sum(batch.num_rows for batch in reader.read_chunk(log.table("fresh"), KeyRange()).batches) == 2


def test_a_locked_table_that_came_while_the_log_was_read_holds_nobody_up(log: Log) -> None:
    log.run("CREATE TABLE old (id int PRIMARY KEY)")
    log.follow("old", whole=True)
    log.run("CREATE TABLE fresh (id int PRIMARY KEY)")
    with held(log, "LOCK TABLE fresh IN SHARE UPDATE EXCLUSIVE MODE"):
        log.run("INSERT INTO old VALUES (1)")
        assert changes(log.read(observation=True), "id") == [("INSERT", 1)]
        assert log.table("fresh") not in log.log.published()


def test_what_comes_late_into_the_publication_has_no_other_table_wait(log: Log) -> None:
    """The comment keeps the barriers of the others: it was us who published another table."""
    log.run("CREATE TABLE old (id int PRIMARY KEY)")
    log.follow("old", whole=True)
    log.run("CREATE TABLE fresh (id int PRIMARY KEY)")
    with held(log, "LOCK TABLE fresh IN SHARE UPDATE EXCLUSIVE MODE"):
        for message in log.read(observation=True):
            if isinstance(message, SchemaChange) and message.schema:
                log.schemas[message.table] = message.schema
    assert {table.name: schema.identity[-2:] == "/-" for table, schema in log.schemas.items()} == {
        "old": False,
        "fresh": True,
    }

    def known(message: Any) -> bool:
        told = isinstance(message, SchemaChange) and message.schema and message.table == log.table("fresh")
        return bool(told and message.schema.identity[-2:] != "/-")

    assert not any(m.reload for m in ddl(list(log.until(known))))
    with log.control.cursor() as cursor:
        cursor.execute(
            "SELECT pg_catalog.obj_description(p.oid) FROM pg_publication p WHERE p.pubname = %s",
            (log.log.publication,),
        )
        assert len(listed_in(cursor.fetchone()[0])) == 1


def test_a_table_of_marks_that_is_locked_is_waited_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    """13: a replicator that went on without it would never meet a mark."""
    server = EmbeddedPostgresSource(tmp_path_factory.mktemp("marks") / "server", version="13.22.0", durable=False)
    server.start()
    try:
        log = Log(server)
        log.run("CREATE TABLE t (id int PRIMARY KEY)")
        log.follow("t")
        second = ReplicationSlot(log.control, log.config, "second")
        with held(log, "LOCK TABLE tidemark.watermark IN SHARE UPDATE EXCLUSIVE MODE"), pytest.raises(SourceBusy):
            second.prepare(log.tables, first=True)
        second.prepare(log.tables, first=True)
        assert TableId("tidemark", "watermark") in second.published()
        second.remove()
        log.close()
    finally:
        server.stop()


def test_an_autovacuum_gives_way_to_a_publication(tmp_path_factory: pytest.TempPathFactory) -> None:
    options = {"autovacuum_naptime": "1s"}
    server = EmbeddedPostgresSource(tmp_path_factory.mktemp("vacuum") / "server", options=options, durable=False)
    server.start()
    try:
        log = Log(server)
        slow = "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1"
        log.run(
            f"CREATE TABLE t (id int PRIMARY KEY, v text) WITH (autovacuum_vacuum_threshold = 1, {slow})",
            "INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(1, 20000) n",
            "DELETE FROM t WHERE id % 2 = 0",
        )
        log.follow()
        deadline = time.monotonic() + 120
        while not any(one.gives_way for one in lock_holders(log.control, "here").get(log.table("t"), ())):
            assert time.monotonic() < deadline, "no autovacuum has begun"
            time.sleep(0.05)
        log.log.add(log.table("t"))
        assert log.table("t") in log.log.published()
        log.close()
    finally:
        server.stop()


def test_a_refused_table_that_was_seen_too_early_to_be_told_is_told_later(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is seen while a transaction of before may still change it is not acted upon."""
    log.run("CREATE TABLE parent (id int PRIMARY KEY)")
    log.follow(whole=True)
    looks, look = [0], CatalogObserver.look

    def counted(watch: CatalogObserver, relations: Relations) -> CatalogSnapshot | None:
        looks[0] += 1
        return look(watch, relations)

    monkeypatch.setattr(CatalogObserver, "look", counted)
    with closing(connect(log.config)) as other, other.cursor() as cursor:
        cursor.execute("BEGIN; SELECT pg_catalog.pg_current_xact_id()::text")
        open_ones = frozenset(cursor.fetchone())
        log.run("CREATE TABLE child (d int) INHERITS (parent)")
        told = []
        start = LsnOffset(log.start.lsn, lambda: open_ones)
        for message in log.until(lambda m: isinstance(m, TableFailed) and m.table == log.table("child"), start):
            if looks[0] == 3:  # the first observation was passed over, the second was taken after that
                cursor.execute("COMMIT")
            told += [message.table] if isinstance(message, TableFailed) else []
    assert log.table("child") in told


def test_a_table_that_is_withdrawn_is_not_waited_for(log: Log) -> None:
    log.run("CREATE TABLE old (id int PRIMARY KEY)", "CREATE TABLE left_out (id int PRIMARY KEY)")
    log.follow("old", "left_out")
    with held(log, "LOCK TABLE left_out"):
        began = time.monotonic()
        log.log.withdraw(TableSet(tables=frozenset({log.table("old")})))
        assert time.monotonic() - began < 5
    log.log.withdraw(TableSet(tables=frozenset({log.table("old")})))
    assert log.log.published() == {log.table("old")}


def test_a_table_that_may_not_be_published_leaves_the_others_published(log: Log) -> None:
    """Not ours to publish: another role's."""
    log.run("CREATE TABLE ours (id int PRIMARY KEY)", "CREATE TABLE theirs (id int PRIMARY KEY)")
    with behind_proxy(log) as proxy:
        proxy.answer_errors(
            1000,
            ["42501"],
            wanted=lambda statement: b"PUBLICATION" in statement and b'"theirs"' in statement,
            done=(None,),
        )
        with closing(connect(log.config)) as control:
            other = ReplicationSlot(control, log.config, log.name)
            other.publish(TableSet(databases=frozenset({log.name})))
    log.log = ReplicationSlot(log.control, log.config, log.name)
    assert log.log.published() == {log.table("ours")}


def test_a_lock_on_one_table_of_a_published_schema_leaves_the_others_readable(log: Log) -> None:
    """In a publication that the user has brought."""
    log.run(
        "CREATE TABLE locked (id int PRIMARY KEY)",
        "CREATE TABLE free (id int PRIMARY KEY)",
        "INSERT INTO free VALUES (1)",
    )
    log.run(f"CREATE PUBLICATION {log.name}_whole FOR TABLES IN SCHEMA {log.name}")
    log.config = replace(log.config, publication=f"{log.name}_whole")
    log.follow("locked", "free")
    with held(log, "LOCK TABLE locked"), closing(PostgresSnapshotReader(log.config, ReadOptions(), log.name)) as reader:
        rows = list(reader.read_chunk(log.table("free"), KeyRange()).batches)
    assert sum(batch.num_rows for batch in rows) == 1
    log.run(f"DROP PUBLICATION {log.name}_whole")
