"""The live log of Postgres: every change once, with the values that a snapshot gives, every schema change at its
place.
"""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from hashlib import md5
from typing import Any

import psycopg2
import pytest
from psycopg.pq import ExecStatus

from replicator.errors import LogPurged, LogUnreadable, SourceUnreachable, TableBusy, TidemarkError
from replicator.model.change import (
    EVERY,
    ChangeBatch,
    Commit,
    Ddl,
    Heartbeat,
    LogMessage,
    Notice,
    SchemaChange,
    Settled,
    TableFailed,
    Watermark,
)
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import KeyRange, ReadOptions
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.config import PostgresConfig, TlsMode
from replicator.sources.postgres.connection import connect, read_rows
from replicator.sources.postgres.ddl.event_trigger import read_key
from replicator.sources.postgres.offset import LsnOffset, lsn_text
from replicator.sources.postgres.snapshot.reader import PostgresSnapshotReader
from replicator.sources.postgres.stream import catalog_observer
from replicator.sources.postgres.stream.reader import PgOutputReader
from replicator.sources.postgres.stream.slot import ReplicationSlot
from replicator.sources.postgres.watermark import write_mark
from replicator.sources.postgres.wire.copy_both import CopyStream, connect_log
from replicator.sources.postgres.wire.messages import note
from replicator.sources.postgres.wire.socket_stream import SocketStream
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
END = "end"
SECONDS = 40.0
_numbers = itertools.count(1)


class Log:
    """A test's schema, slot and publication, and the messages of the log from a position on."""

    def __init__(self, server: EmbeddedPostgresSource) -> None:
        self.server = server
        self.name = f"log_{next(_numbers)}"
        address = server.address
        self.config = PostgresConfig(
            address["host"], address["port"], address["user"], address["password"], address["dbname"]
        )
        self.control = connect(self.config)
        self.options = ReadOptions()
        self.run(f"CREATE SCHEMA {self.name}", f"SET search_path = {self.name}, pg_catalog")
        self.schemas: dict[TableId, TableSchema] = {}

    def run(self, *statements: str) -> None:
        with self.control.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def session(self) -> Any:
        connection = connect(self.config)
        with connection.cursor() as cursor:
            cursor.execute(f"SET search_path = {self.name}, pg_catalog")
        return connection

    def table(self, name: str) -> TableId:
        return TableId(self.name, name)

    def follow(self, *names: str, whole: bool = False) -> None:
        """From here on."""
        named = frozenset(self.table(name) for name in names)
        self.tables = TableSet(databases=frozenset({self.name})) if whole else TableSet(tables=named)
        self.log = ReplicationSlot(self.control, self.config, self.name)
        self.start = self.log.prepare(self.tables, first=True).offset
        found = PostgresCatalog(self.control, left_out=self.tables).describe(sorted(named))
        self.schemas = {table: schema for table, schema in found.items() if isinstance(schema, TableSchema)}

    def read(self, start: Any = None, *, observation: bool = False) -> list[LogMessage]:
        """All messages up to a mark that is written now; `observation`: and until the catalog was looked at after
        it.
        """
        end = f"{END} {next(_numbers)}"
        write_mark(self.control, self.name, end, "")
        found = list(self.until(lambda m: isinstance(m, Watermark) and m.token == end, start, more=observation))
        return [*found, *self.rest]

    def until(
        self, last: Callable[[LogMessage], bool], start: Any = None, *, more: bool = False
    ) -> Iterator[LogMessage]:
        """Messages up to the commit after the one that `last` finds; `rest`: what the catalog tells within three
        seconds more.
        """
        reader = PgOutputReader(self.config, self.options, self.name)
        deadline, met, self.rest = time.monotonic() + SECONDS, 0.0, list[LogMessage]()
        try:
            for message in reader.read(start or self.start, self.tables, self.schemas):
                assert time.monotonic() < deadline, "the log does not show what it should"
                if met and time.monotonic() > met + 3:
                    return
                if met:
                    self.rest.append(message)
                    continue
                yield message
                if last(message):
                    met = time.monotonic() - (0 if more else 3.0)
        finally:
            reader.close()

    def close(self) -> None:
        with self.control.cursor() as cursor:
            cursor.execute("SELECT gid FROM pg_prepared_xacts")
            for (gid,) in cursor.fetchall():
                cursor.execute(f"ROLLBACK PREPARED '{gid}'")
        self.log.remove()
        self.run(f"DROP SCHEMA IF EXISTS {self.name} CASCADE")
        self.control.close()


@pytest.fixture
def log(postgres_source: EmbeddedPostgresSource) -> Iterator[Log]:
    log = Log(postgres_source)
    yield log
    log.close()


def changes(messages: list[LogMessage], *columns: str) -> list[tuple[Any, ...]]:
    """(operation, columns…) by ordinal."""
    rows = [(row, m) for m in messages if isinstance(m, ChangeBatch) for row in m.data.to_pylist()]
    rows.sort(key=lambda one: one[0]["_sequence_num"])
    return [(row["_operation"], *(row.get(column) for column in columns)) for row, _ in rows]


def ddl(messages: list[LogMessage]) -> list[SchemaChange]:
    """Without what only tells how a table that is as it was can be known again."""
    return [message for message in messages if isinstance(message, SchemaChange) and message.statement]


def schemas(messages: list[LogMessage]) -> dict[TableId, TableSchema]:
    """As the journal keeps them."""
    return {m.table: m.schema for m in messages if isinstance(m, SchemaChange) and m.schema}


def test_every_shape_of_change_with_key_moves_and_rollbacks(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    log.follow("t")
    log.run(
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)",
        "UPDATE t SET v = 'c' WHERE id = 1",
        "UPDATE t SET id = 10 WHERE id = 2",
        "BEGIN", "DELETE FROM t", "ROLLBACK",
        "BEGIN", "SAVEPOINT s", "INSERT INTO t VALUES (7, 'gone')", "ROLLBACK TO s", "INSERT INTO t VALUES (8, 'here')",
        "COMMIT",
        "DELETE FROM t WHERE id = 3",
    )  # fmt: skip
    assert changes(log.read(), "id", "v", "_before_id") == [
        ("INSERT", 1, "a", None), ("INSERT", 2, "b", None), ("INSERT", 3, None, None),
        ("UPDATE", 1, "c", 1), ("UPDATE", 10, "b", 2), ("INSERT", 8, "here", None), ("DELETE", 3, None, 3),
    ]  # fmt: skip


def test_full_identity_has_whole_old_rows_and_default_the_key(log: Log) -> None:
    log.run("CREATE TABLE k (a int, b text)", "ALTER TABLE k REPLICA IDENTITY FULL")
    log.follow("k")
    log.run(
        "INSERT INTO k VALUES (1, 'x'), (1, 'x')",
        "UPDATE k SET b = 'y' WHERE ctid = '(0,1)'",
        "DELETE FROM k WHERE b = 'x'",
    )
    found = log.read()
    assert changes(found, "a", "b", "_before_a", "_before_b")[2:] == [
        ("UPDATE", 1, "y", 1, "x"), ("DELETE", 1, "x", 1, "x")
    ]  # fmt: skip
    assert not next(m for m in found if isinstance(m, ChangeBatch)).schema.partial


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_large_values_that_an_update_did_not_change(log: Log, identity: str) -> None:
    """Left out by the log: named where nothing tells them, taken from the old row where that is there."""
    log.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int, big text, other bytea)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL, ALTER other SET STORAGE EXTERNAL",
        f"ALTER TABLE t REPLICA IDENTITY {identity}",
        "INSERT INTO t VALUES (1, 1, repeat('x', 9000), decode(repeat('ff', 9000), 'hex'))",
    )
    log.follow("t")
    log.run("UPDATE t SET n = 2", "UPDATE t SET id = 5, big = 'small'")
    rows = changes(log.read(), "id", "n", "big", "other", "_unchanged")
    if identity == "DEFAULT":
        assert rows == [("UPDATE", 1, 2, None, None, [2, 3]), ("UPDATE", 5, 2, "small", None, [3])]
    else:
        assert rows == [
            ("UPDATE", 1, 2, "x" * 9000, b"\xff" * 9000, None),
            ("UPDATE", 5, 2, "small", b"\xff" * 9000, None),
        ]


def test_a_transaction_that_is_sent_before_it_ends_comes_whole_and_without_what_it_rolled_back(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    log.follow("t")
    log.run("SET logical_decoding_work_mem = '64kB'")  # the walsender's own setting decides; see the server's below
    with streaming(log):
        log.run(
            "BEGIN",
            "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 3000) n",
            "SAVEPOINT s", "INSERT INTO t SELECT n, repeat('y', 100) FROM generate_series(3001, 6000) n",
            "ROLLBACK TO s",
            "INSERT INTO t SELECT n, repeat('z', 100) FROM generate_series(6001, 9000) n",
        )  # fmt: skip
        other = log.session()
        with other.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (0, 'first')")
        log.run(
            "COMMIT",
            "BEGIN",
            "INSERT INTO t SELECT n, repeat('q', 100) FROM generate_series(10000, 13000) n",
            "ROLLBACK",
        )
        found = changes(log.read(), "id")
    assert [row[1] for row in found] == [0, *range(1, 3001), *range(6001, 9001)]


@contextmanager
def streaming(log: Log) -> Iterator[None]:
    """With a small logical_decoding_work_mem the server streams."""
    log.run("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'", "SELECT pg_reload_conf()")
    time.sleep(0.2)
    try:
        yield
    finally:
        log.run("ALTER SYSTEM RESET logical_decoding_work_mem", "SELECT pg_reload_conf()")


def test_a_prepared_transaction_comes_when_it_is_committed(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY)")
    log.follow("t")
    log.run(
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "PREPARE TRANSACTION 'one'",
        "BEGIN",
        "INSERT INTO t VALUES (2)",
        "PREPARE TRANSACTION 'two'",
    )
    assert changes(log.read(), "id") == []
    log.run("INSERT INTO t VALUES (3)", "COMMIT PREPARED 'one'", "ROLLBACK PREPARED 'two'")
    assert changes(log.read(), "id") == [("INSERT", 3), ("INSERT", 1)]


def test_reading_resumes_at_any_commit_with_nothing_lost_and_nothing_twice(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    log.follow("t")
    ends: list[LsnOffset] = []
    for number in range(6):
        log.run(f"INSERT INTO t VALUES ({number}, 0)", f"UPDATE t SET v = v + 1 WHERE id <= {number}")
        ends += [m.offset for m in log.read() if isinstance(m, Commit)][-1:]  # type: ignore[misc]
    whole = changes(log.read(), "id", "v")
    for number, end in enumerate(ends):
        seen = sum(1 + n + 1 for n in range(number + 1))
        assert changes(log.read(end), "id", "v") == whole[seen:]


DEFINITIONS: list[tuple[list[str], dict[str, Any]]] = [
    (["ALTER TABLE t ADD c int"], {"reload": False, "names": ("id", "v", "w", "c")}),
    (["ALTER TABLE t ADD c int DEFAULT 5"], {"reload": True, "names": ("id", "v", "w", "c")}),
    (["ALTER TABLE t ADD c float DEFAULT random()", "ALTER TABLE t ALTER c DROP DEFAULT"],
        {"reload": True, "names": ("id", "v", "w", "c")}),
    (["ALTER TABLE t DROP w"], {"reload": False, "names": ("id", "v")}),
    (["ALTER TABLE t RENAME v TO x"], {"reload": False, "names": ("id", "x", "w"), "renamed": {"v": "x"}}),
    (["ALTER TABLE t RENAME v TO x", "ALTER TABLE t RENAME w TO v"],
        {"names": ("id", "x", "v"), "renamed": {"v": "x", "w": "v"}}),
    (["ALTER TABLE t DROP w", "ALTER TABLE t ADD w text"], {"reload": True, "names": ("id", "v", "w")}),
    (["ALTER TABLE t ALTER v TYPE varchar(200)"], {"reload": False, "names": ("id", "v", "w")}),
    (["ALTER TABLE t ALTER w TYPE text USING w || '!'"], {"reload": True, "names": ("id", "v", "w")}),
    (["ALTER TABLE t ALTER w TYPE int USING 1"], {"reload": True, "names": ("id", "v", "w")}),
    (["ALTER TABLE t ALTER v SET NOT NULL"], {"reload": False, "names": ("id", "v", "w")}),
    (["ALTER TABLE t REPLICA IDENTITY FULL"], {"reload": False, "names": ("id", "v", "w")}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("statements", "expected"), DEFINITIONS, ids=lambda one: one[0] if isinstance(one, list) else ""
)
@pytest.mark.parametrize("row", [True, False], ids=["met before a row", "seen in the catalog"])
def test_a_new_definition_is_told_where_it_is_and_only_values_that_may_have_changed_are_read_again(
    log: Log, statements: list[str], expected: dict[str, Any], row: bool
) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY, v varchar(20), w varchar(20))", "INSERT INTO t VALUES (1, 'a', 'b')")
    log.follow("t")
    log.run("INSERT INTO t VALUES (2, 'a', 'b')", "BEGIN", *statements, "COMMIT")
    if row:
        log.run("INSERT INTO t (id, %s) VALUES (3, 'z')" % expected["names"][1])  # noqa: UP031
    found = log.read(observation=True)
    told = ddl(found)
    assert [one.operation for one in told] == [Ddl.ALTER_TABLE], told
    schema = told[0].schema
    assert schema is not None
    assert schema.names == expected["names"]
    assert dict(told[0].renamed_columns) == expected.get("renamed", {})
    assert told[0].reload == expected.get("reload", told[0].reload)
    present = PostgresCatalog(log.control, left_out=log.tables).describe([log.table("t")])[log.table("t")]
    assert schema == present
    batches = [m.schema.names for m in found if isinstance(m, ChangeBatch)]
    assert batches == [("id", "v", "w"), expected["names"]][: len(batches)]


def test_a_column_that_was_dropped_and_added_again_is_read_again(log: Log) -> None:
    """Its name, type and place are what they were: its number tells."""
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')")
    log.follow("t")
    log.run("BEGIN", "ALTER TABLE t DROP v", "ALTER TABLE t ADD v text", "COMMIT", "INSERT INTO t VALUES (2, 'b')")
    assert [(one.operation, one.reload) for one in ddl(log.read())] == [(Ddl.ALTER_TABLE, True)]


def test_vacuum_full_and_truncate_do_not_have_the_table_read_again(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    log.follow("t")
    log.run(
        "TRUNCATE t RESTART IDENTITY",
        "VACUUM FULL t",
        "ANALYZE t",
        "CREATE INDEX ON t (v)",
        "INSERT INTO t VALUES (2, 'b')",
    )
    found = log.read(observation=True)
    assert [one.operation for one in ddl(found) if one.statement] == [Ddl.TRUNCATE_TABLE]
    assert not any(one.reload for one in ddl(found))


def test_a_label_that_is_renamed_has_the_table_read_again_and_one_that_is_added_does_not(log: Log) -> None:
    """What is stored is the label's number: all rows show another text, and no change is in the log."""
    log.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TYPE pair AS (a int, m mood)",
        "CREATE DOMAIN moods AS mood[]",
        "CREATE TABLE t (id int PRIMARY KEY, p pair, m moods)", "INSERT INTO t VALUES (1, '(1,ok)', '{ok}')",
    )  # fmt: skip
    log.follow("t")
    log.run("ALTER TYPE mood ADD VALUE 'fine'")
    assert not any(one.reload for one in ddl(log.read(observation=True)))
    log.run("ALTER TYPE mood RENAME VALUE 'ok' TO 'good'")
    assert [one.reload for one in ddl(log.read(observation=True))][-1:] == [True]


@pytest.mark.parametrize("rows_after", [False, True])
@pytest.mark.parametrize("options", ["", " PARTITION BY RANGE (id)"], ids=["", "partitioned"])
@pytest.mark.parametrize("columns", ["id int PRIMARY KEY, {g}", "id int PRIMARY KEY, {g}, z int"])
def test_a_generated_column_that_becomes_a_plain_one_is_read(
    log: Log, columns: str, options: str, *, rows_after: bool
) -> None:
    """It was not in the log before, and no row is written: `ADD COLUMN` without a default looks much the same."""
    generated = columns.format(g="g int GENERATED ALWAYS AS (id * 2) STORED")
    log.run(f"CREATE TABLE t ({generated}){options}", f"CREATE TABLE u ({generated}){options}")
    if options:
        log.run("CREATE TABLE t_all PARTITION OF t DEFAULT", "CREATE TABLE u_all PARTITION OF u DEFAULT")
    log.run("INSERT INTO t VALUES (1), (2)")
    log.follow("t", "u")
    assert "g" not in log.schemas[log.table("t")].names
    log.run("ALTER TABLE t ALTER g DROP EXPRESSION", "ALTER TABLE u ADD x int")
    if rows_after:
        log.run("INSERT INTO t VALUES (3, 7)", "INSERT INTO u (id, x) VALUES (3, 7)")
    found = log.read(observation=True)
    assert {one.table.name for one in ddl(found) if one.reload} == {"t"}
    assert "g" in schemas(found)[log.table("t")].names


def test_a_label_that_is_renamed_inside_a_multirange_has_the_table_read_again(log: Log) -> None:
    """Such a type names its range, and through it the enum, in pg_depend only."""
    log.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TYPE moods AS RANGE (subtype = mood, multirange_type_name = many)",
        "CREATE TABLE t (id int PRIMARY KEY, m many)", "INSERT INTO t VALUES (1, '{[sad,ok]}')",
    )  # fmt: skip
    log.follow("t")
    log.run("ALTER TYPE mood RENAME VALUE 'ok' TO 'good'")
    assert [one.reload for one in ddl(log.read(observation=True))][-1:] == [True]


def test_a_definition_that_a_chunk_shows_before_the_log_is_looked_for_at_once(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows do not say that a column was renamed, nor that it is another table by now."""
    monkeypatch.setattr(catalog_observer, "MIN_SECONDS", 600.0)
    log.run("CREATE TABLE t (a int PRIMARY KEY, b int)")
    log.follow("t")
    table, catalog = log.table("t"), PostgresCatalog(log.control, left_out=log.tables)
    reader = PgOutputReader(log.config, log.options, log.name)
    messages = reader.read(log.start, log.tables, log.schemas)

    def described() -> TableSchema:
        found = catalog.describe([table])[table]
        assert isinstance(found, TableSchema)
        return found

    def chunk_shows(change: str, *more: str) -> list[SchemaChange]:
        next(message for message in messages if isinstance(message, Heartbeat))
        before = described()
        log.run(change, *more)
        shown = described()
        assert reader.learned(shown, before) is None
        told: list[SchemaChange] = []
        while reader.learned(shown, before) is None:
            told += ddl([next(messages)])
        return told + ddl(list(itertools.takewhile(lambda message: not isinstance(message, Heartbeat), messages)))

    try:
        told = chunk_shows("ALTER TABLE t RENAME COLUMN b TO c")
        assert [(change.operation, change.renamed_columns) for change in told] == [(Ddl.ALTER_TABLE, {"b": "c"})]
        told = chunk_shows("DROP TABLE t", "CREATE TABLE t (a int PRIMARY KEY, c int)")
        assert [change.operation for change in told] == [Ddl.DROP_TABLE, Ddl.CREATE_TABLE]
    finally:
        reader.close()


def test_tables_come_go_and_are_renamed_in_a_schema_that_is_followed_whole(log: Log) -> None:
    log.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    log.follow("a", "b", whole=True)
    log.run("CREATE TABLE c (id int PRIMARY KEY, v text)", "INSERT INTO c VALUES (1, 'before it was published')")
    log.run("ALTER TABLE b RENAME TO d", "DROP TABLE a", "CREATE TABLE a (n bigint PRIMARY KEY)")
    found = log.read(observation=True)
    told = [
        (one.operation, one.table.name, one.new_table.name if one.new_table else "", one.reload) for one in ddl(found)
    ]
    assert sorted(told) == [
        (Ddl.CREATE_TABLE, "a", "", True), (Ddl.CREATE_TABLE, "c", "", True), (Ddl.DROP_TABLE, "a", "", False),
        (Ddl.RENAME_TABLE, "b", "d", False),
    ]  # fmt: skip
    log.run("INSERT INTO c VALUES (2, 'after')")
    assert changes(log.read(), "id", "v")[-1] == ("INSERT", 2, "after")


def test_a_new_table_has_time_to_get_its_identity(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pg_restore does it: tables, rows, and the keys in the end.  What it held before is read then."""
    log.run("CREATE TABLE a (id int PRIMARY KEY)")
    log.follow("a", whole=True)
    log.run("CREATE TABLE b (id int)", "INSERT INTO b VALUES (1)", "CREATE TABLE c (v text)")
    found = log.read(observation=True)
    log.run("INSERT INTO b VALUES (2)", "INSERT INTO c VALUES ('x')")
    found += log.read(observation=True)
    assert not [*ddl(found), *(m for m in found if isinstance(m, TableFailed))]
    log.run("ALTER TABLE b ADD PRIMARY KEY (id)", "ALTER TABLE c REPLICA IDENTITY FULL")
    told: dict[str, SchemaChange] = {}

    def both(message: LogMessage) -> bool:
        if isinstance(message, SchemaChange) and message.statement:
            told[message.table.name] = message
        return set(told) == {"b", "c"}

    list(log.until(both))
    assert {(one.operation, one.reload) for one in told.values()} == {(Ddl.CREATE_TABLE, True)}
    assert {name: one.schema.key for name, one in told.items() if one.schema} == {"b": ("id",), "c": ()}
    monkeypatch.setattr(catalog_observer, "PATIENCE_SECONDS", 0.0)
    log.run("CREATE TABLE d (id int)")
    *_, failed = log.until(lambda m: isinstance(m, TableFailed))
    assert isinstance(failed, TableFailed)
    assert (failed.table.name, failed.error.remedy) == ("d", f'ALTER TABLE "{log.name}"."d" REPLICA IDENTITY FULL;')


def test_a_followed_table_has_time_to_get_another_identity(log: Log) -> None:
    log.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    log.run("CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)")
    log.follow("a", "p", whole=True)
    log.run("ALTER TABLE a DROP CONSTRAINT a_pkey", "INSERT INTO a VALUES (1)", "ALTER TABLE p REPLICA IDENTITY FULL")
    found = log.read(observation=True)
    assert not [*ddl(found), *(m for m in found if isinstance(m, TableFailed))]
    log.run("ALTER TABLE a ADD PRIMARY KEY (id)", "ALTER TABLE low REPLICA IDENTITY FULL", "DELETE FROM a")
    found = log.read(observation=True)
    assert not [m for m in found if isinstance(m, TableFailed)]
    assert changes(found, "id") == [("INSERT", 1), ("DELETE", 1)]


@pytest.mark.parametrize("known", [True, False])
def test_rows_that_go_with_a_partition_are_looked_for_behind_them(log: Log, known: bool) -> None:
    """The catalog shows the partition's new storage when the rows before its TRUNCATE are read: they are still to come
    then.
    """
    partitioned = (
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
    )
    log.run("CREATE TABLE a (id int PRIMARY KEY)", *(partitioned if known else ()))
    log.follow("a", *(["t"] if known else []), whole=True)
    log.run(*(() if known else partitioned))
    if not known:
        log.log.prepare(log.tables, first=False)
    log.run("INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN v int", "INSERT INTO t VALUES (2)", "TRUNCATE low")
    met: list[int] = []

    def read_again_behind_row_2(message: LogMessage) -> bool:
        if isinstance(message, ChangeBatch):
            met.extend(message.data.column("id").to_pylist())
        return isinstance(message, SchemaChange) and message.reload and 2 in met

    *_, found = log.until(read_again_behind_row_2)
    assert isinstance(found, SchemaChange)
    assert found.table.name == "t"


def test_tables_that_exchange_their_names_are_both_read_again(log: Log) -> None:
    log.run("CREATE TABLE a (id int PRIMARY KEY, x int)", "CREATE TABLE b (id int PRIMARY KEY, y text)")
    log.follow("a", "b")
    log.run("BEGIN", "ALTER TABLE a RENAME TO c", "ALTER TABLE b RENAME TO a", "ALTER TABLE c RENAME TO b", "COMMIT")
    log.run("INSERT INTO a VALUES (1, 'was b')", "INSERT INTO b VALUES (1, 1)")
    found = log.read(observation=True)
    assert {(one.table.name, one.schema.names) for one in ddl(found) if one.reload and one.schema} == {
        ("a", ("id", "y")), ("b", ("id", "x"))
    }  # fmt: skip


def test_a_partitioned_table_is_one_table_and_is_read_again_when_rows_come_or_go_with_partitions(log: Log) -> None:
    log.run(
        "CREATE TABLE p (id int, at int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "CREATE TABLE loose (id int, at int, PRIMARY KEY (id, at))", "INSERT INTO loose VALUES (1, 25)",
    )  # fmt: skip
    log.follow("p")
    log.run(
        "INSERT INTO p VALUES (1, 1)",
        "UPDATE p SET at = 11",
        "CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (30) TO (40)",
    )

    def told() -> list[bool]:
        found = log.read(observation=True)
        rows[:] = rows or changes(found, "id", "at", "_before_at")
        return [one.reload for one in ddl(found)]

    rows: list[tuple[Any, ...]] = []
    assert not any(told()), "a partition that was made empty brings no rows"
    assert [row[0] for row in rows][:1] == ["INSERT"]
    assert rows[-1][:3] == ("INSERT", 1, 11) or rows[-1] == ("UPDATE", 1, 11, 1)
    made = "CREATE TABLE p5 PARTITION OF p FOR VALUES FROM (50) TO (60)"
    for statements in (
        ["ALTER TABLE p ATTACH PARTITION loose FOR VALUES FROM (20) TO (30)"],
        ["TRUNCATE p2"],
        ["DROP TABLE p1"],
        [made, "INSERT INTO p VALUES (5, 55)", "TRUNCATE p5"],  # all before the catalog is looked at again
    ):
        log.start = log.log.state().offset
        log.schemas = dict(PostgresCatalog(log.control, left_out=log.tables).describe([log.table("p")]))  # type: ignore[arg-type]
        log.run(*statements)
        assert any(told()), statements


def test_the_slot_moves_when_it_is_told_and_not_before(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY)")
    log.follow("t")
    log.run("INSERT INTO t VALUES (1)")
    before = log.log.confirmed()
    reader = PgOutputReader(log.config, log.options, log.name)
    deadline = time.monotonic() + 4
    last: Any = None
    for message in reader.read(log.start, log.tables, log.schemas):
        if isinstance(message, Commit | Heartbeat) and message.offset is not None:
            last = message.offset
        if time.monotonic() > deadline:
            break
    assert log.log.confirmed() == before, "nothing is durable yet"
    reader.confirm(last)
    time.sleep(0.5)
    assert log.log.confirmed() == last.needed_from
    reader.close()


@pytest.mark.parametrize("direct", [True, False], ids=["the socket", "libpq"])
def test_rows_of_any_size_come_through(log: Log, monkeypatch: pytest.MonkeyPatch, direct: bool) -> None:
    """libpq is what reads where the connection has TLS."""
    if not direct:
        monkeypatch.setattr(SocketStream, "begin", lambda *_: None)
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    log.follow("t")
    sizes = [0, 1, 100, 5_000_000, 7, 1_048_500, 1_048_576, 30_000_000, *range(300), 20_000_000, 1]
    log.run(*(f"INSERT INTO t VALUES ({n}, repeat(chr(65 + {n} % 26), {size}))" for n, size in enumerate(sizes)))
    found = changes(log.read(), "id", "v")
    assert [row[1] for row in found] == list(range(len(sizes)))
    assert all(row[2] == chr(65 + n % 26) * size for n, (row, size) in enumerate(zip(found, sizes, strict=True)))


def test_another_reader_of_our_slot_is_ended(log: Log) -> None:
    """It is one of ours whose lease is over."""
    log.run("CREATE TABLE t (id int PRIMARY KEY)")
    log.follow("t")
    stale = PgOutputReader(log.config, log.options, log.name)
    messages = stale.read(log.start, log.tables, log.schemas)
    next(messages)
    log.run("INSERT INTO t VALUES (1)")
    assert changes(log.read(), "id") == [("INSERT", 1)]
    with pytest.raises(TidemarkError) as caught:
        list(itertools.islice(messages, 100))
    assert caught.value.retryable
    stale.close()


def test_a_slot_that_is_gone_or_was_read_by_others_is_a_purged_log(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY)")
    log.follow("t")
    log.run("INSERT INTO t VALUES (1)")
    slot = log.log.slot
    log.run(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    with pytest.raises(LogPurged, match="another client"):
        log.read()
    log.run(f"SELECT pg_drop_replication_slot('{slot}')")
    with pytest.raises(LogPurged):
        log.log.prepare(log.tables, first=False)


def test_the_server_goes_down_in_the_midst_and_nothing_is_lost(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY)")
    log.follow("t")
    log.run("INSERT INTO t SELECT generate_series(1, 1000)")
    reader = PgOutputReader(log.config, log.options, log.name)
    messages = reader.read(log.start, log.tables, log.schemas)
    next(messages)
    log.server.restart(signal.SIGKILL)
    with pytest.raises(TidemarkError) as caught:
        list(itertools.islice(messages, 100))
    assert caught.value.retryable
    reader.close()
    log.control = log.session()
    log.log = ReplicationSlot(log.control, log.config, log.name)
    log.run("INSERT INTO t VALUES (2000)")
    assert [row[1] for row in changes(log.read(), "id")] == [*range(1, 1001), 2000]


@contextmanager
def stalled_update(log: Log) -> Iterator[None]:
    """A commit that is in the log, and not visible before the end: it waits for a standby that does not exist."""
    log.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    session = log.session()

    def update() -> None:
        with session.cursor() as cursor:
            cursor.execute("SET synchronous_commit = on")
            cursor.execute("UPDATE t SET v = 'new' WHERE id = 1")

    with session.cursor() as cursor:
        shown = None
        while shown != ("nobody",):
            cursor.execute("SHOW synchronous_standby_names")
            shown = cursor.fetchone()
    thread = threading.Thread(target=update)
    thread.start()
    try:
        waits_for(log, "SyncRep")
        yield
    finally:
        log.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        thread.join()


def test_a_commit_between_log_and_visibility_is_told_apart_by_the_chunks_evidence(log: Log) -> None:
    """The update that watermarks by LSN lose: in the log before the low mark, invisible to the chunk that is read after
    it.
    """
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'old'), (2, 'same')")
    log.follow("t")
    with (
        stalled_update(log),
        closing(PostgresSnapshotReader(log.config, log.options, log.name, log.tables)) as reader,
    ):
        reader.mark("L:1:1:a")
        chunk = reader.read_chunk(log.table("t"), KeyRange())
        rows = [row for batch in chunk.batches for row in batch.to_pylist()]
        reader.mark("H:1:1:a")
        assert {row["id"]: row["v"] for row in rows} == {1: "old", 2: "same"}
        found = list(log.until(lambda m: isinstance(m, Watermark) and m.token.startswith("H")))
    kinds = [type(m).__name__ if not isinstance(m, Watermark) else m.token[0] for m in found]
    assert kinds.index("ChangeBatch") < kinds.index("L") < kinds.index("H"), "the log has it before the low mark"
    batch = next(m for m in found if isinstance(m, ChangeBatch))
    (transaction,) = set(batch.data.column("_txn_id").to_pylist())
    assert not PgOutputReader(log.config, log.options, log.name).shows(chunk.evidence, transaction)


def test_a_commit_that_stays_invisible_is_still_named_after_more_than_can_be(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.sources.postgres.xid_snapshot.NAMED", 3)
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'old')")
    log.follow("t")
    met: list[LogMessage] = []

    def settled(message: LogMessage) -> bool:
        if isinstance(message, Heartbeat) and not any(isinstance(one, Heartbeat) for one in met):
            stack.enter_context(stalled_update(log))
            for number in range(2, 40):  # before the next observation
                log.run(f"INSERT INTO t VALUES ({number}, 'later')")
        met.append(message)
        rows = [row["id"] for one in met if isinstance(one, ChangeBatch) for row in one.data.to_pylist()]
        return 39 in rows and isinstance(message, Settled) and EVERY not in message.unsettled

    with ExitStack() as stack:
        list(log.until(settled))
    stalled = next(m for m in met if isinstance(m, ChangeBatch)).data.column("_txn_id")[0].as_py()
    last = next(m for m in reversed(met) if isinstance(m, Settled))
    assert last.unsettled == {stalled}


def waits_for(log: Log, event: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with log.control.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = %s AND backend_type = 'client backend'",
                (event,),
            )
            if cursor.fetchone()[0]:  # type: ignore[index]
                return
        time.sleep(0.05)
    raise AssertionError(f"nobody waits for {event}")


def test_values_come_in_binary_where_all_can_be_decoded_and_as_text_from_the_first_that_cannot(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY, n numeric(12,3), f float8, u uuid, at timestamptz, j jsonb)")
    log.follow("t")
    row = (
        "-12.500, 'NaN', '00000000-0000-0000-0000-00000000000a', '2001-02-03 04:05:06.000007+00', '{\"a\": [1, null]}'"
    )
    log.run(
        f"INSERT INTO t VALUES (1, {row})",
        "ALTER TABLE t ADD net inet",
        f"INSERT INTO t VALUES (2, {row}, '10.0.0.0/8')",
    )
    log.run("ALTER TABLE t DROP net")  # when reading begins the catalog does not show what will come
    with pytest.raises(TidemarkError, match="in text format") as caught:
        log.read()
    assert caught.value.retryable
    found = changes(log.read(), "n", "f", "u", "at", "j", "net")
    assert [row[1:2] + row[3:6] for row in found] == [found[0][1:2] + found[0][3:6]] * 2
    assert (str(found[0][1]), found[0][3], found[1][6]) == (
        "-12.500",
        "00000000-0000-0000-0000-00000000000a",
        "10.0.0.0/8",
    )


def test_with_the_event_trigger_every_definition_is_told_at_its_place_however_late_the_log_is_read(log: Log) -> None:
    log.config = replace(log.config, event_trigger=True)
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE u (id int PRIMARY KEY)")
    log.follow("t", "u")
    log.run(
        "INSERT INTO t VALUES (1, 'a')", "ALTER TABLE t RENAME v TO w", "INSERT INTO t VALUES (2, 'b')",
        "ALTER TABLE t ADD n int", "INSERT INTO t VALUES (3, 'c', 1)", "BEGIN", "ALTER TABLE t DROP w",
        "INSERT INTO t VALUES (4, 2)", "ALTER TABLE t ADD w text", "INSERT INTO t VALUES (5, 3, 'e')", "COMMIT",
        "DROP TABLE u",
    )  # fmt: skip
    found = log.read()
    told = [(one.table.name, one.operation, one.schema.names if one.schema else (), one.reload) for one in ddl(found)]
    assert told == [
        ("t", Ddl.ALTER_TABLE, ("id", "w"), False), ("t", Ddl.ALTER_TABLE, ("id", "w", "n"), False),
        ("t", Ddl.ALTER_TABLE, ("id", "n"), False), ("t", Ddl.ALTER_TABLE, ("id", "n", "w"), False),
        ("u", Ddl.DROP_TABLE, (), False),
    ]  # fmt: skip
    assert dict(ddl(found)[0].renamed_columns) == {"v": "w"}
    assert [m.schema.names for m in found if isinstance(m, ChangeBatch)] == [
        ("id", "v"), ("id", "w"), ("id", "w", "n"), ("id", "n"), ("id", "n", "w")
    ]  # fmt: skip
    log.log.remove()
    with log.control.cursor() as cursor:
        cursor.execute(
            "SELECT evtname FROM pg_event_trigger UNION SELECT nspname FROM pg_namespace WHERE nspname = 'tidemark'"
        )
        assert cursor.fetchall() == []


def test_messages_that_others_write_change_nothing(log: Log) -> None:
    """Any role may write them, transactional or not: garbage, dropped tables, an earlier definition again, marks."""
    log.config = replace(log.config, event_trigger=True)
    log.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    log.follow("t")
    log.run("ALTER TABLE t ADD a int", "INSERT INTO t VALUES (2, 2)")
    recording = ddl_messages(log)
    make_role(log)
    other = connect(replace(log.config, user="nobody_special", password="x"))
    dropped = json.dumps({"dropped": [oid_of(log, "t")], "relations": [], "types": []})
    with other.cursor() as cursor:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("SELECT key FROM tidemark.ddl_key")
        for kept in ("true", "false"):
            for prefix in ("tidemark.ddl", "tidemark"):
                for words in ("garbage", dropped, f"{log.name}|L:1:1:x", "x" * 5_000):
                    cursor.execute("SELECT pg_logical_emit_message(%s::bool, %s, %s)", (kept, prefix, words))
            for content in recording:
                cursor.execute("SELECT pg_logical_emit_message(%s::bool, 'tidemark.ddl', %s::bytea)", (kept, content))
    other.close()
    log.run("INSERT INTO t VALUES (3, 3)", "ALTER TABLE t ADD b int", "INSERT INTO t VALUES (4, 4, 4)")
    found = log.read()
    assert [(one.operation, one.schema.names if one.schema else ()) for one in ddl(found)] == [
        (Ddl.ALTER_TABLE, ("id", "a")), (Ddl.ALTER_TABLE, ("id", "a", "b"))
    ]  # fmt: skip
    assert changes(found, "id", "a") == [("INSERT", 2, 2), ("INSERT", 3, 3), ("INSERT", 4, 4)]
    assert [m.token for m in found if isinstance(m, Watermark)][:1] == ["L:1:1:x"]  # an unknown attempt
    assert "1 schema message ignored" in next(m.text for m in found if isinstance(m, Notice))


def test_a_trigger_of_another_role_is_done_without(log: Log) -> None:
    """Its schema is not ours to use, nor its key to read."""
    log.config = replace(log.config, event_trigger=True)
    log.run("CREATE TABLE t (id int PRIMARY KEY)")
    log.follow("t")
    make_role(log)
    with (
        closing(connect(log.config)) as owner,
        closing(connect(replace(log.config, user="nobody_special", password="x"))) as other,
    ):
        assert len(read_key(owner, "here") or b"") == 32
        assert read_key(other, "here") is None
        with owner.cursor() as cursor:
            cursor.execute("GRANT USAGE ON SCHEMA tidemark TO nobody_special")
            assert read_key(other, "here") is None
            cursor.execute("GRANT SELECT ON tidemark.ddl_key TO nobody_special")
            assert read_key(other, "here") == read_key(owner, "here")


def make_role(log: Log) -> None:
    """Create a role that was granted nothing."""
    with log.control.cursor() as cursor:
        cursor.execute("SELECT FROM pg_roles WHERE rolname = 'nobody_special'")
        if not cursor.rowcount:
            cursor.execute("CREATE ROLE nobody_special LOGIN PASSWORD 'x'")


def oid_of(log: Log, table: str) -> int:
    with log.control.cursor() as cursor:
        cursor.execute(f"SELECT '{log.name}.{table}'::regclass::oid::int8")
        return int(cursor.fetchone()[0])


def ddl_messages(log: Log) -> list[bytes]:
    """Return what the trigger has written so far, as a reader of the log sees it."""
    with log.control.cursor() as cursor:
        cursor.execute(
            f"SELECT data FROM pg_logical_slot_peek_binary_changes('{log.log.slot}', NULL, NULL, 'proto_version', '2', "
            f"'publication_names', '{log.log.publication}', 'messages', 'true')"
        )
        notes = [note(bytes(data)) for (data,) in cursor.fetchall() if bytes(data)[:1] == b"M"]
    found = [one.content for one in notes if one.prefix == "tidemark.ddl"]
    assert found
    return found


TAMPERED = {
    "table out and in": ("ALTER PUBLICATION {p} DROP TABLE {t}", "ALTER PUBLICATION {p} ADD TABLE {t}"),
    "inserts alone": ("ALTER PUBLICATION {p} SET (publish = 'insert')",
        "ALTER PUBLICATION {p} SET (publish = 'insert, update, delete, truncate')"),
    "rows of a filter": ("ALTER PUBLICATION {p} SET TABLE {t} WHERE (id > 5)", "ALTER PUBLICATION {p} SET TABLE {t}"),
}  # fmt: skip


@pytest.mark.parametrize("meanwhile", [False, True])
@pytest.mark.parametrize("how", TAMPERED)
def test_a_table_that_was_published_in_another_way_is_read_again(log: Log, how: str, meanwhile: bool) -> None:
    """Between two catalog observations, and while no reader runs; Tidemark's own changes of the publication cause no
    resnapshot.
    """
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')", "CREATE TABLE u (id int)")
    log.follow("t")
    log.schemas |= schemas(log.read(observation=True))
    assert not any(m.reload for m in ddl(log.read(observation=True)))
    away, back = (text.format(p=log.log.publication, t=f"{log.name}.t") for text in TAMPERED[how])
    tampered = (away, "UPDATE t SET v = 'b'", "DELETE FROM t WHERE id = 1", back, "INSERT INTO t VALUES (9, 'c')")
    if meanwhile:
        log.run(*tampered)
        found = log.read(observation=True)
    else:
        end, told = f"{END} {next(_numbers)}", []
        for message in log.until(lambda m: isinstance(m, SchemaChange) and m.reload):
            if not told:
                told.append(message)
                log.run(*tampered)
                write_mark(log.control, log.name, end, "")
            told.append(message)
        found = told
    assert [(m.table.name, m.reload) for m in ddl(found) if m.reload] == [("t", True)]
    assert "published differently" in next(m.statement for m in ddl(found) if m.reload)
    log.schemas |= schemas(found)
    assert not any(m.reload for m in ddl(log.read(observation=True)))


@pytest.mark.parametrize("named", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA {schema}"])
def test_a_table_that_was_unlogged_for_a_while_is_read_again(log: Log, named: str) -> None:
    """The server refuses that only of a table that its publication names; VACUUM FULL, which looks alike, has none read
    again.
    """
    log.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO u VALUES (1)"
    )
    log.run(
        f"CREATE PUBLICATION {log.name}_own {named.format(schema=log.name)} WITH (publish_via_partition_root = true)"
    )
    log.config = replace(log.config, publication=f"{log.name}_own")
    log.follow("t", "u")
    log.schemas |= schemas(log.read(observation=True))
    log.run("INSERT INTO t VALUES (1, 'a')", "VACUUM FULL t", "TRUNCATE t")
    found = log.read(observation=True)
    assert not any(m.reload for m in ddl(found))
    log.schemas |= schemas(found)
    for table in ("t", "u"):
        log.run(
            f"ALTER TABLE {table} SET UNLOGGED", f"INSERT INTO {table} VALUES (7)", f"ALTER TABLE {table} SET LOGGED"
        )
    found = log.read(observation=True)
    assert {m.table.name for m in ddl(found) if m.reload} == {"t", "u"}
    log.run(f"DROP PUBLICATION {log.name}_own")


def test_what_the_publication_leaves_out_is_put_back(log: Log) -> None:
    """And until it is, the table is not read."""
    log.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    log.follow("t")
    reader = PostgresSnapshotReader(log.config, log.options, log.name, log.tables)
    try:
        assert reader.read_chunk(log.table("t"), KeyRange()).schema.names == ("id",)
        log.run(f"ALTER PUBLICATION {log.log.publication} SET (publish = 'insert')")
        with pytest.raises(TableBusy, match="excludes some changes"):
            reader.read_chunk(log.table("t"), KeyRange())
        log.log.prepare(log.tables, first=False)
        log.run(f"ALTER PUBLICATION {log.log.publication} SET TABLE {log.name}.t (id)")
        with pytest.raises(TableBusy, match="columns"):
            reader.read_chunk(log.table("t"), KeyRange())
        log.run(f"ALTER PUBLICATION {log.log.publication} SET TABLE {log.name}.t WHERE (id > 5)")
        log.log.prepare(log.tables, first=False)
        assert reader.read_chunk(log.table("t"), KeyRange()).schema.names == ("id",)
    finally:
        reader.close()


def test_a_partition_by_itself_is_published_by_its_table_in_a_users_publication(log: Log) -> None:
    log.run(
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "INSERT INTO p VALUES (1)",
        f"CREATE PUBLICATION {log.name}_own FOR TABLE p",
    )
    log.config = replace(log.config, publication=f"{log.name}_own")
    log.follow("low")
    log.run("INSERT INTO p VALUES (2)")
    found = log.read(observation=True)
    assert changes(found, "id") == [("INSERT", 2)]
    [identity] = [schema.identity for schema in schemas(found).values()]
    assert not identity.endswith("/-")
    with closing(PostgresSnapshotReader(log.config, log.options, log.name, log.tables)) as reader:
        rows = list(reader.read_chunk(log.table("low"), KeyRange()).batches)
        assert sum(batch.num_rows for batch in rows) == 2
        log.run(f"ALTER PUBLICATION {log.name}_own SET (publish_via_partition_root = true)")
        with pytest.raises(TableBusy):
            reader.read_chunk(log.table("low"), KeyRange())
    log.run(f"DROP PUBLICATION {log.name}_own")


def test_a_table_is_not_added_to_a_publication_that_somebody_has_dropped(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    log.follow("t")
    log.run(f"DROP PUBLICATION {log.log.publication}")
    with pytest.raises(TidemarkError, match="does not exist"):
        log.log.add(log.table("u"))


def test_a_table_of_an_unknown_type_fails_alone(log: Log) -> None:
    log.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int PRIMARY KEY)")
    log.follow("t", "u")
    log.run(
        "ALTER TABLE u ADD c regclass",
        "INSERT INTO u VALUES (1, 'pg_class')",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO u VALUES (2)",
    )
    found = log.read()
    assert [(m.table.name, m.error.code) for m in found if isinstance(m, TableFailed)] == [("u", "unsupported_type")]
    assert [m.table.name for m in found if isinstance(m, ChangeBatch)] == ["t"]


@pytest.mark.parametrize("tls", [False, True], ids=["", "by libpq"])
def test_a_type_that_the_server_has_no_binary_form_for_is_read_as_text(
    log: Log, monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    """Of a table that is not even selected, in the user's publication, and is gone again: every reading would meet
    it.
    """
    if tls:
        monkeypatch.setattr(SocketStream, "begin", lambda *_: None)
    log.run("CREATE EXTENSION IF NOT EXISTS seg SCHEMA public", "CREATE TABLE t (id int PRIMARY KEY)")
    log.run(f"CREATE PUBLICATION {log.name}_all FOR ALL TABLES WITH (publish_via_partition_root = true)")
    log.config = replace(log.config, publication=f"{log.name}_all")
    log.follow("t")
    log.run("CREATE TABLE other (id int, s public.seg[])", "INSERT INTO other VALUES (1, ARRAY['1..2'::public.seg])")
    log.run("DROP TABLE other", "INSERT INTO t VALUES (1)")
    with pytest.raises(SourceUnreachable, match="in text format"):
        log.read()
    assert changes(log.read(), "id") == [("INSERT", 1)]
    log.run(f"DROP PUBLICATION {log.name}_all")


@contextmanager
def in_database(log: Log, encoding: str) -> Iterator[None]:
    """The log is of another database, of this encoding, with a schema of the same name."""
    name = f"{log.name}_other"
    log.run(f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    here, log.config = log.control, replace(log.config, database=name)
    log.control = connect(log.config)
    try:
        log.run(f"CREATE SCHEMA {log.name}", f"SET search_path = {log.name}, pg_catalog")
        yield
        log.log.remove()
    finally:
        log.control.close()
        log.control, log.log = here, ReplicationSlot(here, log.config, log.name)
        log.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_text_that_is_no_character_fails_its_table_alone(log: Log) -> None:
    """WIN1252 takes 0x81, which UTF-8 has nothing for: the server itself cannot send it."""
    with in_database(log, "WIN1252"):
        log.run(
            'CREATE TABLE "größe" (id int PRIMARY KEY, "maß" text)', "CREATE TABLE bad (id int PRIMARY KEY, v text)"
        )
        log.follow("größe", "bad")
        log.run(
            """INSERT INTO "größe" VALUES (1, 'é‰€ ascii')""",
            r"INSERT INTO bad VALUES (1, pg_catalog.convert_from('\x41c381', 'WIN1252'))",
            """UPDATE "größe" SET "maß" = 'Ä'""",
        )
        with pytest.raises(SourceUnreachable, match="in text format"):
            log.read()
        found = log.read()
        assert changes([m for m in found if getattr(m, "table", None) == log.table("größe")], "id", "maß") == [
            ("INSERT", 1, "é‰€ ascii"), ("UPDATE", 1, "Ä")
        ]  # fmt: skip
        [failed] = [m for m in found if isinstance(m, TableFailed)]
        assert failed.table == log.table("bad")
        assert "not valid Unicode" in failed.error.message


def test_a_text_of_several_bytes_that_is_no_character_ends_the_log_with_a_way_out(log: Log) -> None:
    with in_database(log, "EUC_JP"):
        log.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
        log.follow("t")
        log.run(r"INSERT INTO t VALUES (1, pg_catalog.convert_from('\x41a9a1', 'EUC_JP'))")
        for _ in range(2):  # the first time the texts of the binary form are found not to be UTF-8
            with pytest.raises((LogUnreadable, SourceUnreachable)) as caught:
                log.read()
        assert caught.type is LogUnreadable
        assert "restart the replicator from scratch" in str(caught.value.remedy)  # type: ignore[attr-defined]


def test_another_databases_changes_move_a_quiet_ones_offset(log: Log) -> None:
    """So a quiet database does not hold the log."""
    log.run("CREATE TABLE t (id int PRIMARY KEY)")
    log.follow("t")
    log.run("CREATE DATABASE busy")
    try:
        before = log.start
        seen: list[Heartbeat] = []
        for message in log.until(lambda m: isinstance(m, Heartbeat) and m.source_ts is not None and before < m.offset):
            seen += [message] if isinstance(message, Heartbeat) else []
        assert before < seen[-1].offset
    finally:
        log.run("DROP DATABASE busy")


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize("trigger", [True, False])
def test_rows_after_an_exchange_of_names_in_their_own_transaction_have_the_new_names(
    log: Log, trigger: bool, partitioned: bool
) -> None:
    """Postgres does not announce the root of partitions again when it is renamed: its rows come as before."""
    log.config = replace(log.config, event_trigger=trigger)
    log.run(f"CREATE TABLE a (id int PRIMARY KEY, x int){' PARTITION BY RANGE (id)' if partitioned else ''}")
    if partitioned:
        log.run("CREATE TABLE low PARTITION OF a FOR VALUES FROM (0) TO (10)")
    log.run("CREATE TABLE b (id int PRIMARY KEY, y text)", "INSERT INTO a VALUES (1, 1), (2, 2)")
    log.follow("a", "b", whole=True)
    log.run(
        "UPDATE a SET x = 3", "BEGIN", "DELETE FROM a WHERE id = 1", "ALTER TABLE a RENAME TO c",
        "ALTER TABLE b RENAME TO a",
        "ALTER TABLE c RENAME TO b", "UPDATE b SET x = 9", "COMMIT", "INSERT INTO a VALUES (7, 'p')",
        "UPDATE b SET x = 10",
    )  # fmt: skip
    found = log.read(observation=True)
    if trigger or not partitioned:
        rows = {(m.table.name, m.schema.names[1]) for m in found if isinstance(m, ChangeBatch)}
        assert rows == {("a", "x"), ("b", "x"), ("a", "y")}
    else:  # the catalog tells, later: what came under the names before is read again
        assert {one.table.name for one in ddl(found) if one.reload} == {"a", "b"}


# What alone tells that existing rows may have other values is the table's identity: names, types and key are as they
# were.
ALIKE: dict[str, tuple[str, ...]] = {
    "a label renamed": ("ALTER TYPE mood RENAME VALUE 'ok' TO 'good'",),
    "a label renamed and back": (
        "ALTER TYPE mood RENAME VALUE 'ok' TO 'good'",
        "INSERT INTO t VALUES (2, 2, 'good')",
        "ALTER TYPE mood RENAME VALUE 'good' TO 'ok'",
    ),
    "using": ("ALTER TABLE t ALTER n TYPE int USING n * 2",),
    "another type and back": ("ALTER TABLE t ALTER n TYPE bigint USING n + 1", "ALTER TABLE t ALTER n TYPE int"),
    "rewritten twice": ("ALTER TABLE t ALTER n TYPE int USING n * 2", "ALTER TABLE t ALTER n TYPE int USING n + 1"),
    "dropped and added": ("ALTER TABLE t DROP n, ADD n int",),
    "filled by the way": ("ALTER TABLE t ADD x int DEFAULT 3", "ALTER TABLE t ALTER x DROP DEFAULT", "VACUUM FULL t"),
    "a partition emptied": ("TRUNCATE low",),
    "a partition emptied by hand": ("ALTER TABLE p DETACH PARTITION low", "DELETE FROM low",
        f"{'ALTER TABLE p '}{{back}}"),
    "a partition made again": ("DROP TABLE low", "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)"),
    "a partition made, filled and dropped": (
        "CREATE TABLE high PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p VALUES (11)",
        "DROP TABLE high",
    ),
    "a partition that had rows, and gets one": (
        "CREATE TABLE high (id int PRIMARY KEY)",
        "INSERT INTO high VALUES (11)",
        "ALTER TABLE p ATTACH PARTITION high FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p VALUES (12)",
    ),
    "a partition built and attached at once": (
        "BEGIN",
        "CREATE TABLE high (LIKE p INCLUDING ALL)",
        "INSERT INTO high VALUES (11)",
        "ALTER TABLE p ATTACH PARTITION high FOR VALUES FROM (10) TO (20)",
        "COMMIT",
        "INSERT INTO p VALUES (12)",
    ),
    "a partition made, filled and detached": (
        "CREATE TABLE high PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "INSERT INTO high VALUES (11)",
        "ALTER TABLE p DETACH PARTITION high",
    ),
}  # fmt: skip


@pytest.mark.parametrize("trigger", [False, True], ids=["", "with the trigger"])
@pytest.mark.parametrize("name", list(ALIKE))
def test_what_its_identity_alone_tells_is_read_again_once_and_not_after_a_restart(
    log: Log, name: str, *, trigger: bool
) -> None:
    log.config = replace(log.config, event_trigger=trigger)
    log.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE t (id int PRIMARY KEY, n int, m mood)",
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "INSERT INTO t VALUES (1, 1, 'ok')", "INSERT INTO p VALUES (1)",
    )  # fmt: skip
    log.follow("t", "p")
    log.run(*(one.format(back="ATTACH PARTITION low FOR VALUES FROM (0) TO (10)") for one in ALIKE[name]))
    found = log.read(observation=True)
    table = "p" if "partition" in name else "t"
    assert {one.table.name for one in ddl(found) if one.reload} == {table}
    assert not [m for m in found if isinstance(m, TableFailed)]
    for one in ddl(found):  # as the journal keeps them
        if one.schema is not None:
            log.schemas[one.table] = TableSchema.from_dict(one.schema.to_dict())
    *_, end = (m for m in found if isinstance(m, Commit))
    assert not ddl(log.read(end.offset, observation=True))


@pytest.mark.parametrize("version", ["13.22.0", "14.18.0", "15.13.0"])
def test_a_stream_that_has_met_a_partition_as_a_table_gives_its_rows_when_it_is_one(
    postgres_version: Callable[[str], EmbeddedPostgresSource], version: str
) -> None:
    """Servers before 15 do not look again how a relation is published."""
    log = Log(postgres_version(version))
    log.run(
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE high (id int PRIMARY KEY)",
        "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)", "CREATE TABLE other (id int PRIMARY KEY)",
    )  # fmt: skip
    log.follow("p", "other")
    log.run("INSERT INTO high VALUES (11)", "INSERT INTO other VALUES (1)", "INSERT INTO p VALUES (1)")
    end, seen, asked = f"{END} {next(_numbers)}", list[LogMessage](), 0
    for message in log.until(lambda m: isinstance(m, Watermark) and m.token == end):
        seen.append(message)
        if asked == 0 and [row[1] for row in changes(seen, "id")] == [1, 1]:
            high = "ALTER TABLE p ATTACH PARTITION high FOR VALUES FROM (10) TO (20)"
            log.run("BEGIN", high, "ALTER TABLE p DETACH PARTITION low", "COMMIT")
            asked = 1
        if asked == 1 and any(one.reload for one in ddl(seen)):
            log.run("INSERT INTO p VALUES (12)", "INSERT INTO low VALUES (2)", "INSERT INTO other VALUES (3)")
            write_mark(log.control, log.name, end, "")
            asked = 2
    assert sorted(row[1] for row in changes(seen, "id")) == [1, 1, 3, 12]
    log.close()


EMPTY = {
    "made": ("CREATE TABLE high PARTITION OF p FOR VALUES FROM (10) TO (20)",),
    "made by the way": (
        "BEGIN", "CREATE TABLE high PARTITION OF p (CHECK (id <> 17)) FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p VALUES (11)", "COMMIT",
    ),
    "built and attached at once": (
        "BEGIN", "CREATE TABLE high (LIKE p INCLUDING ALL)",
        "ALTER TABLE p ATTACH PARTITION high FOR VALUES FROM (10) TO (20)", "COMMIT",
    ),
    "attached": (
        "CREATE TABLE high (LIKE p INCLUDING ALL)", "ALTER TABLE p ATTACH PARTITION high FOR VALUES FROM (10) TO (20)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_a_partition_that_comes_without_rows_has_none_of_the_others_read_again(log: Log, name: str) -> None:
    log.run("CREATE TABLE p (id int PRIMARY KEY, x int DEFAULT 3) PARTITION BY RANGE (id)")
    log.follow("p")
    log.run(*EMPTY[name])
    found = log.read(observation=True)
    log.schemas |= schemas(found)
    *_, end = (m for m in found if isinstance(m, Commit))
    log.run("INSERT INTO p VALUES (12)")
    found += log.read(end.offset, observation=True)
    assert not any(one.reload for one in ddl(found))
    assert ("INSERT", 12) in changes(found, "id")
    log.schemas |= schemas(found)
    log.run("TRUNCATE high")
    assert any(one.reload for one in ddl(log.read(observation=True)))


def test_the_partitions_a_table_has_got_are_known_after_a_restart(log: Log) -> None:
    """Otherwise rows that are dropped with a partition, while no reader runs, would stay in the copy."""
    log.run("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    log.follow("p")
    log.run("CREATE TABLE high PARTITION OF p FOR VALUES FROM (10) TO (20)", "INSERT INTO p VALUES (11)")
    found = log.read(observation=True)
    assert not any(one.reload for one in ddl(found))
    log.schemas = {one.table: one.schema for one in ddl(found) if one.schema is not None}
    *_, end = (m for m in found if isinstance(m, Commit))
    log.run("DROP TABLE high")
    assert [one.reload for one in ddl(log.read(end.offset, observation=True))] == [True]


def test_a_partition_that_is_gone_has_its_table_read_again_once(log: Log) -> None:
    """Although the last transaction that was read comes again at each start, and names it."""
    log.run(
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE high PARTITION OF p FOR VALUES FROM (10) TO (20)",
    )
    log.follow("p")
    start: Any = next(m for m in log.until(lambda m: isinstance(m, Commit)) if isinstance(m, Commit)).offset
    log.run("INSERT INTO p VALUES (11)")
    met: list[LogMessage] = []
    for message in log.until(lambda m: isinstance(m, Commit) and bool(changes(met)), start):
        met.append(message)  # noqa: PERF402 - it is looked at meanwhile
    log.schemas |= schemas(met)
    start = next(m for m in reversed(met) if isinstance(m, Commit)).offset

    def until(last: Callable[[LogMessage], bool]) -> None:
        nonlocal met, start
        met = list(log.until(last, start, more=True))
        met += log.rest
        log.schemas |= schemas(met)
        start = [m for m in met if isinstance(m, Commit | Heartbeat) and m.offset][-1].offset

    log.run("DROP TABLE high")
    until(lambda m: isinstance(m, SchemaChange) and m.reload)
    row = start.last_commit
    until(lambda m: isinstance(m, Heartbeat))
    assert start.last_commit == row
    assert not ddl(met)


def test_over_tls_psycopg_3_reads_the_log_and_says_how_the_server_ended_it(
    postgres_tls: tuple[EmbeddedPostgresSource, str],
) -> None:
    """A value that is larger than the buffer, many small ones, and feedback that moves the slot."""
    server, _ = postgres_tls
    log = Log(server)
    log.config = replace(log.config, tls=TlsMode.REQUIRE)
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    log.follow("t")
    try:
        log.run(
            "INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 20000) AS i",
            "INSERT INTO t VALUES (0, repeat('x', 9000000))",
        )
        found = changes(log.read(), "id", "v")
        assert found[-1] == ("INSERT", 0, "x" * 9_000_000)
        assert found[:-1] == [("INSERT", i, md5(str(i).encode()).hexdigest()) for i in range(1, 20001)]

        reader = PgOutputReader(log.config, log.options, log.name)
        of_slot = f"FROM pg_replication_slots WHERE slot_name = '{log.log.slot}'"
        moved = f"confirmed_flush_lsn > '{lsn_text(log.start.lsn)}'::pg_lsn"
        # A server that is ended while it waits to send can no longer say why.
        idle = "active_pid IN (SELECT pid FROM pg_stat_activity WHERE wait_event ILIKE 'WalSenderWaitForWal')"

        def read_until_the_slot_has_moved() -> None:
            for message in reader.read(log.start, log.tables, log.schemas):
                if isinstance(message, Heartbeat) and message.offset is not None:
                    reader.confirm(message.offset)
                    log.run(f"SELECT pg_terminate_backend(active_pid) {of_slot} AND {moved} AND {idle}")

        with closing(reader), pytest.raises(SourceUnreachable, match=r"terminating connection.*administrator"):
            read_until_the_slot_has_moved()
    finally:
        log.close()


def test_over_tls_all_that_has_come_is_taken_at_once(postgres_tls: tuple[EmbeddedPostgresSource, str]) -> None:
    """The server makes a TLS record of each message, and libpq reads one record at a time."""
    server, _ = postgres_tls
    log = Log(server)
    log.config = replace(log.config, tls=TlsMode.REQUIRE)
    log.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    log.follow("t")
    try:
        log.run("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 1500) AS i")
        with closing(connect_log(log.config)) as connection:
            options = f"""proto_version '1', publication_names '"{log.log.publication}"'"""
            command = f'START_REPLICATION SLOT "{log.log.slot}" LOGICAL 0/0 ({options})'
            end = read_rows(log.control, "SELECT pg_current_wal_insert_lsn()::text", "")[0][0]
            assert connection.pgconn.exec_(command.encode()).status == ExecStatus.COPY_BOTH
            sent = f"SELECT count(*) FROM pg_stat_replication WHERE sent_lsn >= '{end}'"
            deadline = time.monotonic() + SECONDS
            while read_rows(log.control, sent, "") == [(0,)]:
                assert time.monotonic() < deadline
            stream = CopyStream(connection)
            assert stream.fill(SECONDS)
            assert stream.end - stream.at > 1500 * len(md5(b"").hexdigest())
    finally:
        log.close()
