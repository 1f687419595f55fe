"""Evidence, marks, streams, odd tables."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import psycopg2.extras
import pytest

from replicator.errors import KeyChanged, SourceUnreachable, TableBusy, TableDisappeared, TableError, TableNotRead
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import KeyRange, ReadOptions
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, connect, quoted
from replicator.sources.postgres.snapshot import copy_rows
from replicator.sources.postgres.snapshot.copy_libpq import LibpqBlocks
from replicator.sources.postgres.snapshot.reader import PostgresSnapshotReader
from replicator.sources.postgres.watermark import MESSAGES_SINCE
from tests.integration.postgres_snapshot.tables import (
    REPLICATOR,
    SCHEMA,
    assert_chunks_are_the_table,
    chunks,
    execute,
    make,
    reader_of,
    whole,
)

pytestmark = pytest.mark.integration


def test_an_empty_table_has_no_end_and_no_rows(server: Connection, reader: PostgresSnapshotReader) -> None:
    table = make(server, "empty", "id int primary key", [])
    assert reader.end_key(table) is None
    assert whole(reader, table).num_rows == 0
    execute(server, "INSERT INTO empty VALUES (1), (2), (3), (4)")
    assert_chunks_are_the_table(reader, table, [1, 2, 3, 4])


@pytest.mark.parametrize(
    "name", ["select", "with space", "a.b", "a/b\\c", '"tick"', "漢字é", "quote'\"", "UPPER lower", "%s %(x)s", "-- x;"]
)  # fmt: skip
def test_any_name_is_quoted(server: Connection, reader: PostgresSnapshotReader, name: str) -> None:
    other = quoted(name + "2")
    table = make(
        server, name, f"{quoted(name)} int primary key, {other} inet", ["(1, '::2')", "(3, '::4')", "(5, '::6')"]
    )
    assert [part.num_rows for part in chunks(reader, table, 2)] == [2, 1]
    assert whole(reader, table).to_pylist()[0] == {name: 1, name + "2": "::2"}


def test_generated_partitioned_and_wide_tables_are_read(
    server: Connection, config: PostgresConfig, reader: PostgresSnapshotReader
) -> None:
    columns = "id int generated always as identity primary key, d int default (1 + 1), gone int"
    table = make(server, "generated", columns, [])
    execute(server, "INSERT INTO generated (d) VALUES (DEFAULT), (5)")
    execute(server, "ALTER TABLE generated DROP COLUMN gone, ADD COLUMN late text DEFAULT 'x'")
    assert whole(reader, table).to_pylist()[1] == {"id": 2, "d": 5, "late": "x"}
    split = make(server, "split", "id int primary key, v text", [], "partition by hash (id)")
    for n in range(3):
        execute(server, f"DROP TABLE IF EXISTS split{n}; CREATE TABLE split{n} (v text, id int not null, gone int)")
        execute(server, f"ALTER TABLE split{n} DROP COLUMN gone")
        execute(server, f"ALTER TABLE split ATTACH PARTITION split{n} FOR VALUES WITH (modulus 3, remainder {n})")
    execute(server, "INSERT INTO split SELECT n, 'v' || n FROM generate_series(0, 8) n")
    by_root = f"ALTER PUBLICATION {quoted(config.publication_for(REPLICATOR))} SET (publish_via_partition_root = {{}})"
    execute(server, by_root.format("true"))
    assert_chunks_are_the_table(reader, split, list(range(9)))
    execute(server, by_root.format("false"))
    assert whole(reader, TableId(SCHEMA, "split0")).num_rows < 9
    wide = make(server, "wide", ", ".join(["id int primary key", *(f"c{n} int" for n in range(1599))]), [])
    execute(server, "INSERT INTO wide (id, c1598) VALUES (1, 7)")
    assert whole(reader, wide).to_pylist()[0]["c1598"] == 7


def test_excluded_columns_are_never_selected(server: Connection, config: PostgresConfig) -> None:
    table = make(server, "private", "id int primary key, secret int, v int", ["(1, 2, 3)"])
    tables = TableSet(tables=frozenset({table}), excluded_columns={table: frozenset({"secret"})})
    with closing(reader_of(config, tables)) as reader:
        assert whole(reader, table).to_pylist() == [{"id": 1, "v": 3}]


@pytest.fixture(params=["from the socket", "by libpq, as with TLS"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How rows are taken."""
    if "libpq" in request.param:
        monkeypatch.setattr(copy_rows, "SocketBlocks", LibpqBlocks)


@pytest.mark.usefixtures("way")
def test_a_large_row_comes_whole_and_batches_stay_small(server: Connection, config: PostgresConfig) -> None:
    size = 40_000_000
    table = make(server, "large", "id int primary key, v bytea, w int", ["(1, 'x', 1)"])
    execute(server, "ALTER TABLE large ALTER v SET STORAGE EXTERNAL")
    for number in (2, 3, 4):
        execute(server, f"INSERT INTO large VALUES ({number}, repeat('{number}', {size})::bytea, {number})")
    execute(server, "INSERT INTO large VALUES (5, repeat('e', 999990)::bytea, 5), (6, 'after', 6)")
    seen: dict[int, tuple[int, bytes, int]] = {}
    with closing(reader_of(config, batch_bytes=1_000_000)) as reader:
        for batch in reader.read_chunk(table, KeyRange()).batches:
            assert batch.num_rows <= 2
            seen |= {i: (len(v), v[-1:], w) for i, v, w in zip(*(c.to_pylist() for c in batch.columns), strict=True)}
    assert seen == {
        1: (1, b"x", 1),
        **{n: (size, str(n).encode(), n) for n in (2, 3, 4)},
        5: (999990, b"e", 5),
        6: (5, b"r", 6),
    }


@pytest.mark.usefixtures("way")
def test_batches_have_the_wanted_size_and_a_read_can_be_left(server: Connection, config: PostgresConfig) -> None:
    table = make(server, "many", "id int primary key, v varchar(100)", [])
    execute(server, "INSERT INTO many SELECT n, repeat('v', 100) FROM generate_series(1, 5000) n")
    with closing(reader_of(config, batch_rows=700)) as reader:
        sizes = [batch.num_rows for batch in reader.read_chunk(table, KeyRange()).batches]
        assert sum(sizes) == 5000
        assert max(sizes) <= 700
        assert len(sizes) <= 9
        next(reader.read_chunk(table, KeyRange()).batches)
        assert whole(reader, table).num_rows == 5000
        reader.read_chunk(table, KeyRange())
        reader.mark("still fine")
        assert whole(reader, table).num_rows == 5000
        left = reader.read_chunk(table, KeyRange()).batches
        next(left)
    assert not [one for one in threading.enumerate() if one.name == "copy"]
    deadline = time.monotonic() + 10
    while execute(server, "SELECT 1 FROM pg_locks WHERE relation = 'many'::regclass AND pid <> pg_backend_pid()"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_evidence_is_the_snapshot_of_the_rows(
    server: Connection, config: PostgresConfig, reader: PostgresSnapshotReader
) -> None:
    table = make(server, "seen", "id int primary key", ["(1)"])
    with closing(connect(config)) as other:
        execute(other, "BEGIN")
        execute(other, f'INSERT INTO "{SCHEMA}".seen VALUES (2)')
        xid = execute(other, "SELECT pg_current_xact_id()::text")[0][0]
        chunk = reader.read_chunk(table, KeyRange())
        execute(other, "COMMIT")
    assert [v for batch in chunk.batches for v in batch.column("id").to_pylist()] == [1]
    visible = f"SELECT pg_visible_in_snapshot('{xid}', '{{}}')"
    assert execute(server, visible.format(chunk.evidence)) == [(False,)]
    later = reader.read_chunk(table, KeyRange())
    assert sorted(v for batch in later.batches for v in batch.column("id").to_pylist()) == [1, 2]
    assert execute(server, visible.format(later.evidence)) == [(True,)]


def test_a_table_is_not_read_while_a_transaction_from_before_its_publication_is_open(
    server: Connection, config: PostgresConfig
) -> None:
    table = make(server, "settling", "id int primary key", ["(1)"])
    other = PostgresSnapshotReader(config, ReadOptions(), "late")
    publication = quoted(config.publication_for("late"))
    execute(server, f"DROP PUBLICATION IF EXISTS {publication}")
    with closing(connect(config)) as writer, closing(other):
        execute(writer, "BEGIN")
        execute(writer, f'INSERT INTO "{SCHEMA}".seen VALUES (77)')
        execute(server, f"CREATE PUBLICATION {publication} FOR ALL TABLES")
        execute(server, f"COMMENT ON PUBLICATION {publication} IS 'made by Tidemark'")
        with pytest.raises(TableBusy):
            other.read_chunk(table, KeyRange())
        execute(writer, "ROLLBACK")
        assert whole(other, table).num_rows == 1
    execute(server, f"DROP PUBLICATION {publication}")


def test_a_mark_reaches_the_log_of_an_idle_server_at_once(
    server: Connection, config: PostgresConfig, reader: PostgresSnapshotReader
) -> None:
    if server.server_version < MESSAGES_SINCE:
        pytest.skip("13 has a table for it")
    execute(server, "ALTER ROLE CURRENT_USER SET synchronous_commit = off")
    reader.mark("connect first")
    publication = config.publication_for(REPLICATOR)
    options = {"proto_version": "1", "publication_names": f'"{publication}"', "messages": "true"}
    with (
        closing(connect(config, connection_factory=psycopg2.extras.LogicalReplicationConnection)) as log,
        log.cursor() as cursor,
    ):
        cursor.create_replication_slot(
            "marks_at_once", slot_type=psycopg2.extras.REPLICATION_LOGICAL, output_plugin="pgoutput"
        )
        cursor.start_replication("marks_at_once", options=options, decode=False)
        try:
            for token in ("low:1", "high:1"):
                time.sleep(0.5)
                while cursor.read_message() is not None:
                    pass
                began = time.monotonic()
                reader.mark(token)
                wanted = f"{REPLICATOR}|{token}".encode()
                while True:
                    message = cursor.read_message()
                    if message is not None and wanted in bytes(message.payload):
                        break
                    assert time.monotonic() - began < 5, "the mark does not arrive"
                    time.sleep(0.001)
                assert time.monotonic() - began < 0.15
        finally:
            log.close()
    execute(server, "ALTER ROLE CURRENT_USER RESET synchronous_commit")
    deadline = time.monotonic() + 10
    while execute(server, "SELECT 1 FROM pg_replication_slots WHERE slot_name = 'marks_at_once' AND active"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    execute(server, "SELECT pg_drop_replication_slot('marks_at_once')")


def test_a_table_without_key_is_read_as_of_its_mark(
    server: Connection, config: PostgresConfig, reader: PostgresSnapshotReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(server, "keyless", "v int, t text", ["(1, 'a')", "(1, 'a')", "(2, NULL)"])
    marks = []
    mark = reader.mark

    def marked(token: str) -> None:
        marks.append(token)
        mark(token)
        execute(server, "INSERT INTO keyless VALUES (3, 'after the mark')")

    monkeypatch.setattr(reader, "mark", marked)
    chunk = reader.read_table(table, "opened")
    assert marks == ["opened"]
    assert sorted(v for batch in chunk.batches for v in batch.column("v").to_pylist()) == [1, 1, 2]
    assert chunk.evidence
    assert whole(reader, table).num_rows == 4


def test_bounds_of_a_key_of_another_type_are_told_from_a_table_that_cannot_be_read(
    server: Connection, reader: PostgresSnapshotReader
) -> None:
    table = make(server, "rekeyed", "word varchar primary key", ["('a')", "('b')", "('c')"])
    end = reader.end_key(table)
    bounds = KeyRange(None, reader.next_bound(table, None, end, 2))
    execute(server, "ALTER TABLE rekeyed DROP COLUMN word, ADD COLUMN id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
    with pytest.raises(KeyChanged, match="no longer has the key for which its chunks were planned"):
        list(reader.read_chunk(table, bounds).batches)
    with pytest.raises(KeyChanged):
        reader.next_bound(table, bounds.upper, end, 2)


def test_a_table_that_is_gone_or_is_none_says_so(server: Connection, reader: PostgresSnapshotReader) -> None:
    for read in (lambda t: reader.read_chunk(t, KeyRange()), lambda t: reader.read_table(t, "opened"), reader.end_key):
        with pytest.raises(TableDisappeared, match=r"snapshot tests\.nothing"):
            read(TableId(SCHEMA, "nothing"))
        with pytest.raises(TableDisappeared, match=r"no such\.nothing"):
            read(TableId("no such", "nothing"))
    execute(server, "CREATE OR REPLACE VIEW shown AS SELECT 1 AS id")
    execute(server, "CREATE SEQUENCE IF NOT EXISTS counted")
    for name in ("shown", "counted"):
        with pytest.raises(TableError):
            reader.read_chunk(TableId(SCHEMA, name), KeyRange())


def test_rows_hidden_by_a_policy_are_an_error_and_not_a_smaller_table(
    server: Connection, config: PostgresConfig
) -> None:
    table = make(server, "secured", "id int primary key", ["(1)", "(2)"])
    execute(server, "ALTER TABLE secured ENABLE ROW LEVEL SECURITY")
    execute(server, "CREATE POLICY half ON secured USING (id = 1)")
    execute(server, "DROP ROLE IF EXISTS limited")
    execute(server, "CREATE ROLE limited LOGIN PASSWORD 'limited'")
    execute(server, f"GRANT USAGE ON SCHEMA {quoted(SCHEMA)} TO limited; GRANT SELECT ON secured TO limited")
    other = PostgresConfig.parse(vars(config) | {"user": "limited", "password": "limited"})
    with closing(reader_of(other)) as reader, pytest.raises(Exception, match="row-level security"):
        whole(reader, table)
    execute(server, f"REVOKE ALL ON SCHEMA {quoted(SCHEMA)} FROM limited; REVOKE ALL ON secured FROM limited")
    execute(server, "DROP ROLE limited")


def test_a_lock_of_another_session_is_waited_for_and_no_longer_than_said(
    server: Connection, config: PostgresConfig, reader: PostgresSnapshotReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(server, "locked", "id int primary key", ["(1)"])
    assert whole(reader, table).num_rows == 1
    assert reader._reading is not None
    execute(reader._reading, "SET lock_timeout = '300ms'")
    with closing(connect(config)) as other:
        execute(other, f'BEGIN; TRUNCATE "{SCHEMA}".locked')
        with pytest.raises(TableBusy, match=f"lock held by pid {other.info.backend_pid}"):
            whole(reader, table)
        execute(other, "COMMIT")
    assert whole(reader, table).num_rows == 0


def test_a_rewrite_that_a_reader_waits_for_is_seen_by_its_snapshot(
    server: Connection, config: PostgresConfig, reader: PostgresSnapshotReader
) -> None:
    """A snapshot taken before a TRUNCATE or a rewrite would show a table that is opened after it empty, or with rows of
    no consistent state.
    """
    table = make(server, "rewritten", "id int primary key, v int", ["(1, 5)", "(2, 6)"])
    with closing(connect(config)) as other:
        execute(other, f"BEGIN; ALTER TABLE \"{SCHEMA}\".rewritten ALTER v TYPE text USING 'new ' || v")
        threading.Timer(0.5, lambda: execute(other, "COMMIT")).start()
        assert whole(reader, table).sort_by("id").to_pylist() == [{"id": 1, "v": "new 5"}, {"id": 2, "v": "new 6"}]


@pytest.mark.usefixtures("way")
def test_a_killed_connection_is_an_error_once_and_then_replaced(server: Connection, config: PostgresConfig) -> None:
    table = make(server, "killed", "id int primary key, v text", [])
    execute(server, "INSERT INTO killed SELECT n, repeat('v', 1000) FROM generate_series(1, 40000) n")
    with closing(reader_of(config, batch_rows=100, batch_bytes=100_000)) as reader:
        batches = reader.read_chunk(table, KeyRange()).batches
        next(batches)
        assert reader._reading is not None
        execute(server, f"SELECT pg_terminate_backend({reader._reading.info.backend_pid})")
        with pytest.raises(SourceUnreachable):
            list(batches)
        assert whole(reader, table).num_rows == 40_000


@pytest.mark.usefixtures("way")
def test_an_error_of_the_server_in_the_middle_of_the_rows_is_its_own(
    server: Connection, config: PostgresConfig
) -> None:
    table = make(server, "cancelled", "id int primary key, v text", [])
    execute(server, "INSERT INTO cancelled SELECT n, repeat('v', 1000) FROM generate_series(1, 40000) n")
    with closing(reader_of(config, batch_rows=100, batch_bytes=100_000)) as reader:
        batches = reader.read_chunk(table, KeyRange()).batches
        next(batches)
        assert reader._reading is not None
        execute(server, f"SELECT pg_cancel_backend({reader._reading.info.backend_pid})")
        with pytest.raises(TableNotRead, match="canceling statement"):
            list(batches)
        assert whole(reader, table).num_rows == 40_000
