"""Postgres from the live server to Iceberg, compared row by row."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from replicator.model.identifiers import TableId, written_database
from replicator.sources.postgres.stream.catalog_observer import CatalogObserver, CatalogSnapshot
from replicator.sources.postgres.stream.relations import Relations
from tests.integration.pipeline.lab import insert
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators import services
from webapp.replicators.selection.entries import SelectionEntry, named_entry
from webapp.worker.upkeep.replicator_deletion import delete

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def lab(postgres_source: EmbeddedPostgresSource, transactional_db: Any) -> Iterator[PostgresLab]:
    one = PostgresLab(postgres_source.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


def test_rows_that_were_there_before_and_changes_after(lab: PostgresLab) -> None:
    lab.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name varchar(50), price numeric(10,2), at timestamptz DEFAULT now())"
    )
    with lab.transaction() as cursor:
        cursor.execute("INSERT INTO t SELECT n, 'name ' || n, n / 4.0 FROM generate_series(1, 5000) n")
    lab.replicate("t")
    assert lab.run_and_compare() == 5000
    lab.execute(
        "UPDATE t SET name = 'new' WHERE id % 7 = 0",
        "DELETE FROM t WHERE id % 11 = 0",
        "INSERT INTO t VALUES (10001, NULL, -1), (10002, '', 0)",
        "UPDATE t SET id = id + 100000 WHERE id % 13 = 0",
        "UPDATE t SET id = id + 1 WHERE id > 100000",
    )
    lab.run_and_compare(1)


def test_tables_without_a_key_are_multisets(lab: PostgresLab) -> None:
    lab.execute("CREATE TABLE t (name text, n int, d float8, b bytea)", "ALTER TABLE t REPLICA IDENTITY FULL")
    with lab.transaction() as cursor:
        insert(cursor, "t", [("same", 1, 0.5, b"\0\1")] * 5 + [(None, None, None, None)] * 3 + [("z", 2, -0.0, b"")])
    lab.replicate("t")
    assert lab.run_and_compare() == 9
    lab.execute(
        "DELETE FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE name = 'same' LIMIT 2))",
        "UPDATE t SET n = 7 WHERE ctid = (SELECT ctid FROM t WHERE name IS NULL LIMIT 1)",
        "INSERT INTO t VALUES ('same', 1, 0.5, '\\x0001'), ('nan', 0, 'NaN', NULL)",
    )
    lab.run_and_compare(1)


def test_large_values_that_updates_leave_out_come_from_the_target_or_the_batch(lab: PostgresLab) -> None:
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, n int, big text)", "ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    lab.execute("INSERT INTO t SELECT n, 0, repeat(md5(n::text), 200) FROM generate_series(1, 50) n")
    lab.replicate("t")
    lab.run_and_compare()
    lab.execute(
        "UPDATE t SET n = 1 WHERE id <= 10",
        "UPDATE t SET id = id + 1000 WHERE id > 40",
        "UPDATE t SET big = repeat('y', 9000) WHERE id = 1",
        "UPDATE t SET n = 2, id = 2000 WHERE id = 1",
        "INSERT INTO t VALUES (60, 0, repeat('z', 9000))",
        "UPDATE t SET n = 3 WHERE id = 60",
    )
    lab.run_and_compare(1)


def test_loading_under_writes_is_exact(lab: PostgresLab) -> None:
    """Chunks between writers whose commits come in any order."""
    lab.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT n, 0 FROM generate_series(1, 40000) n"
    )
    lab.replicate("t")
    stopped = threading.Event()

    def write(seed: int) -> None:
        session, number = lab.connect(), seed
        with session.cursor() as cursor:
            while not stopped.is_set():
                number = number * 1103515245 % 40009 + 1
                cursor.execute("UPDATE t SET v = v + 1 WHERE id BETWEEN %s AND %s", (number, number + 20))
                cursor.execute("DELETE FROM t WHERE id = %s", (number,))
                cursor.execute("INSERT INTO t VALUES (%s, -1) ON CONFLICT DO NOTHING", (number + 50_000,))
                time.sleep(0.002)
        session.close()

    writers = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    try:
        lab.run()
    finally:
        stopped.set()
        for writer in writers:
            writer.join()
    lab.run_and_compare(1)


def test_a_schema_followed_whole_with_definitions_that_change(lab: PostgresLab) -> None:
    lab.execute("CREATE TABLE a (id int PRIMARY KEY, v text)", "INSERT INTO a VALUES (1, 'one')")
    lab.replicate()
    lab.run_and_compare(1)
    lab.execute(
        "CREATE TABLE b (id int PRIMARY KEY, v text)", "INSERT INTO b VALUES (1, 'b')",
        "ALTER TABLE a ADD c int DEFAULT 7", "INSERT INTO a VALUES (2, 'two', 8)", "ALTER TABLE a RENAME v TO w",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')", "ALTER TABLE a ADD m mood DEFAULT 'ok'",
    )  # fmt: skip
    lab.run_and_compare(2)
    lab.execute(
        "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
        "TRUNCATE b",
        "INSERT INTO b VALUES (5, 'new')",
        "ALTER TABLE b RENAME TO bb",
    )
    time.sleep(3)
    lab.run_and_compare(2)
    lab.execute("DROP TABLE bb")
    time.sleep(3)
    lab.run()
    assert lab.states() == {"a": "streaming", "bb": "dropped"}
    last = lab.table("bb").schema_version
    lab.execute("CREATE TABLE bb (other date, id int PRIMARY KEY)", "INSERT INTO bb VALUES ('2026-11-22', 1)")
    lab.run_and_compare(2)
    assert lab.table("bb").schema_version == last + 1


def test_deleting_leaves_nothing_on_the_source(lab: PostgresLab) -> None:
    lab.execute("CREATE TABLE t (id int PRIMARY KEY)")
    replicator = lab.replicate("t")
    lab.run()
    services.delete_replicator(replicator=replicator, user=None)
    delete(replicator.pk)
    with lab.sql.cursor() as cursor:
        cursor.execute("SELECT (SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_publication)")
        assert cursor.fetchone() == (0, 0)


def test_a_skipped_table_stands_still_and_is_exact_again_when_it_is_resumed(lab: PostgresLab) -> None:
    lab.execute("CREATE TABLE a (id int PRIMARY KEY, v int)", "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
    lab.execute("CREATE TABLE b (id int PRIMARY KEY)")
    lab.replicate()
    lab.run_and_compare(2)
    services.skip_table(table=lab.table("a"))
    lab.execute("DELETE FROM a WHERE id = 1", "UPDATE a SET v = 20 WHERE id = 2", "INSERT INTO b VALUES (1)")
    lab.run()
    assert lab.states() == {"a": "skipped", "b": "streaming"}
    assert {str(report.pair): report.equal for report in lab.compare()} == {
        f"{lab.database}.a": False, f"{lab.database}.b": True
    }  # fmt: skip
    services.resume_table(table=lab.table("a"))
    lab.execute("INSERT INTO a VALUES (4, 4)")
    assert lab.run_and_compare(2) == 4


def test_a_table_that_comes_back_has_nothing_of_before_it_went(lab: PostgresLab) -> None:
    """Its row was inserted while the log had the table, and deleted while it had not: capture was behind both."""
    lab.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"
    )
    lab.replicate()
    lab.run_and_compare(2)
    with lab.sql.cursor() as cursor:
        cursor.execute("SELECT pubname FROM pg_publication_tables WHERE schemaname = %s", [lab.database])
        [publication] = {row[0] for row in cursor.fetchall()}
    lab.execute(
        "INSERT INTO t VALUES (42)",
        f"ALTER PUBLICATION {publication} DROP TABLE t",  # as a worker does that reads a plan without it, and dies
        "DELETE FROM t WHERE id = 42",
    )
    services.remove_table(replicator=lab.replicator, table=TableId(lab.database, "t"))
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "t")])
    lab.run_and_compare(2)
    lab.execute("INSERT INTO t VALUES (43)", "DELETE FROM t WHERE id = 1")
    lab.run_and_compare(2)


OUT_AND_IN = (
    "ALTER PUBLICATION {p} DROP TABLE t", "INSERT INTO t VALUES (4), (5)", "UPDATE t SET n = 30 WHERE n = 3",
    "ALTER PUBLICATION {p} ADD TABLE t",
)  # fmt: skip


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
@pytest.mark.parametrize("looked", ["never", "before it was published"])
def test_a_publication_changed_after_the_load_and_before_capture_looked(
    lab: PostgresLab, monkeypatch: pytest.MonkeyPatch, looked: str, key: str
) -> None:
    """The next observation was taken for the first, so the table was not read again, and three changes were lost."""
    lab.execute(
        f"CREATE TABLE t (n int {key})", "ALTER TABLE t REPLICA IDENTITY FULL", "INSERT INTO t VALUES (1), (2), (3)"
    )
    look, looks = CatalogObserver.look, iter(["first"] if looked != "never" else [])
    with lab.connect() as locking, locking.cursor() as cursor:
        if looked != "never":
            cursor.execute(f"LOCK TABLE {lab.database}.t IN SHARE UPDATE EXCLUSIVE MODE")

        def looks_once(watch: CatalogObserver, relations: Relations) -> CatalogSnapshot | None:
            observation = look(watch, relations) if next(looks, None) else None
            locking.commit()
            return observation

        monkeypatch.setattr(CatalogObserver, "look", looks_once)
        lab.replicate("t")
        assert lab.run_and_compare(1) == 3
    monkeypatch.undo()
    with lab.sql.cursor() as cursor:
        cursor.execute("SELECT pubname FROM pg_publication_tables WHERE schemaname = %s", [lab.database])
        [[publication]] = cursor.fetchall()
    lab.execute(*(statement.format(p=publication) for statement in OUT_AND_IN))
    assert lab.run_and_compare(1) == 5


def test_partitions_go_and_come_with_their_table(lab: PostgresLab) -> None:
    lab.execute(
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE part_1 PARTITION OF whole FOR VALUES FROM (0) TO (10)",
        "INSERT INTO whole VALUES (1)",
    )
    lab.replicate()
    lab.run_and_compare(2)
    services.remove_table(replicator=lab.replicator, table=TableId(lab.database, "whole"))
    lab.execute(
        "CREATE TABLE part_2 PARTITION OF whole FOR VALUES FROM (10) TO (20)",
        "INSERT INTO whole VALUES (2), (11)",
        "INSERT INTO other VALUES (1)",
    )
    lab.run()
    assert set(lab.states()) == {"other"}
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "whole")])
    lab.run_and_compare(2)
    assert set(lab.states()) == {"other", "whole"}


def test_a_table_that_comes_back_without_its_key_and_with_other_columns_is_made_anew(lab: PostgresLab) -> None:
    """The former copy has its own schema versions: the same number means other columns."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    lab.execute("CREATE TABLE stays (id INT PRIMARY KEY)")
    lab.replicate("t", "stays")
    lab.run_and_compare(2)
    services.remove_table(replicator=lab.replicator, table=TableId(lab.database, "t"))
    lab.execute(
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    lab.execute("INSERT INTO t VALUES (1, 1)")
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "t")])
    lab.run_and_compare(2)


@pytest.mark.parametrize("patient", [True, False], ids=["", "at once"])
def test_definitions_that_are_what_they_were_but_for_their_identity_are_read_again_once(
    lab: PostgresLab, *, patient: bool
) -> None:
    """While a worker runs, and while none does: the run that follows is current only when they were read."""
    lab.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE e (id int PRIMARY KEY, m mood)",
        "CREATE TABLE u (id int PRIMARY KEY, b int)", "CREATE TABLE d (id int PRIMARY KEY, v int)",
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "INSERT INTO e SELECT n, 'ok' FROM generate_series(1, 50) n",
        "INSERT INTO u SELECT n, n FROM generate_series(1, 50) n",
        "INSERT INTO d SELECT n, n FROM generate_series(1, 50) n",
        "INSERT INTO p SELECT n FROM generate_series(1, 19) n",
    )  # fmt: skip
    lab.replicate()
    lab.run_and_compare(4)

    def runs() -> dict[str, int]:
        return {name: lab.table(name).runs.count() for name in lab.states()}

    loaded = runs()
    lab.execute(
        "ALTER TYPE mood RENAME VALUE 'ok' TO 'good'", "ALTER TABLE u ALTER b TYPE int USING b * 2",
        "ALTER TABLE d DROP v, ADD v int", "TRUNCATE p1",
    )  # fmt: skip
    time.sleep(3 * patient)
    lab.run_and_compare(4)
    again = {name: number + 1 for name, number in loaded.items()}
    assert runs() == again
    lab.run_and_compare(4)
    time.sleep(3 * patient)
    lab.run_and_compare(4)
    assert runs() == again, "a restart found nothing new"


ODD = ("my.schema", "Up Per", "50%s %%", "back\\slash", 'dou"ble', "it's", "ünï", "semi;--", "a`b")


def test_names_of_all_characters_are_selected_and_copied(lab: PostgresLab) -> None:
    """As people write them, in quotes where a name has dots; alone, as patterns and as whole schemas."""

    def name(part: str) -> str:
        return '"' + part.replace('"', '""') + '"'

    schemas = [f"{lab.name} {odd}" for odd in ODD]
    tables = sorted({(schema, odd) for schema, own in zip(schemas, ODD, strict=True) for odd in (ODD[0], own)})
    try:
        for schema in schemas:
            lab.execute(f"CREATE SCHEMA {name(schema)}")
        for schema, table in tables:
            lab.execute(
                f"CREATE TABLE {name(schema)}.{name(table)} (id int PRIMARY KEY, {name(table)} text)",
                f"INSERT INTO {name(schema)}.{name(table)} VALUES (1, 'one')",
            )
        lines = [
            named_entry(f"{name(schemas[0])}.*"), named_entry(f"{name(schemas[1])}.{name(ODD[1])}"),
            named_entry(f"{written_database(schemas[2])}.50*"), *(SelectionEntry(schema) for schema in schemas[3:]),
        ]  # fmt: skip
        services.create_replicator(
            name=lab.name, connection=lab.connection(), selection=lines, options={}, user=None, start=True
        )
        taken = {(schema, table) for schema, table in tables if table != ODD[0] or schema not in schemas[1:3]}
        lab.run_and_compare(len(taken))
        for schema, table in taken:
            lab.execute(f"INSERT INTO {name(schema)}.{name(table)} VALUES (2, 'two')")
        assert lab.run_and_compare(len(taken)) == 2 * len(taken)
        services.resnapshot_table(table=lab.replicator.tables.get(database=schemas[0]))
        call_command("verify", lab.name, table=[f"{name(schemas[0])}.{name(ODD[0])}"])
        lab.run_and_compare(len(taken))
    finally:
        for schema in schemas:
            lab.execute(f"DROP SCHEMA IF EXISTS {name(schema)} CASCADE")


def test_an_inheritance_tree_is_refused_whenever_it_is_made_and_copied_when_it_is_none_any_more(
    lab: PostgresLab,
) -> None:
    """A SELECT of the parent gives the child's rows, which the log has as the child's."""
    lab.execute(
        "CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (id int PRIMARY KEY)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (2)",
    )  # fmt: skip
    lab.replicate()
    lab.run_and_compare(3)
    lab.execute("ALTER TABLE child INHERIT parent", "INSERT INTO child VALUES (3)", "INSERT INTO other VALUES (1)")
    with pytest.raises(CommandError, match="is part of an inheritance tree"):
        lab.run()
    assert lab.states() == {"parent": "failed", "child": "failed", "other": "streaming"}
    lab.execute("ALTER TABLE child NO INHERIT parent", "INSERT INTO parent VALUES (4)")
    for name in ("parent", "child"):
        services.resnapshot_table(table=lab.table(name))
    assert lab.run_and_compare(3) == 5
    lab.execute(
        "CREATE TABLE grandchild () INHERITS (child)",
        "INSERT INTO grandchild VALUES (9)",
        "INSERT INTO other VALUES (2)",
    )
    with pytest.raises(CommandError, match="is part of an inheritance tree"):
        lab.run()
    states = {name: state for name, state in lab.states().items() if state != "failed"}
    assert states == {"parent": "streaming", "other": "streaming"}
    lab.execute("INSERT INTO other VALUES (3)", "INSERT INTO parent VALUES (5)")
    with pytest.raises(CommandError, match="is part of an inheritance tree"):
        lab.run()
    assert {name: state for name, state in lab.states().items() if state != "failed"} == states
    assert lab.table("other").rows_inserted == 3


def test_a_failed_table_that_goes_is_gone_and_one_that_is_made_again_is_read(lab: PostgresLab) -> None:
    """Whether the run in which the table fails also sees the drop, or the table is dropped between two runs."""
    names = ("at_once", "later", "anew", "stays")
    for name in names:
        lab.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
    lab.execute("CREATE TABLE other (id int PRIMARY KEY)")
    lab.replicate()
    lab.run_and_compare(5)
    for name in names:
        lab.execute(f"ALTER TABLE {name} ADD c regclass", f"INSERT INTO {name} VALUES (2)")
    lab.execute("DROP TABLE at_once")
    with pytest.raises(CommandError, match="regclass"):
        lab.run()
    assert lab.states() == {
        "at_once": "dropped", "later": "failed", "anew": "failed", "stays": "failed", "other": "streaming"
    }  # fmt: skip
    lab.execute(
        "DROP TABLE later, anew", "CREATE TABLE anew (v text, id int PRIMARY KEY)", "INSERT INTO anew VALUES ('x', 7)"
    )
    with pytest.raises(CommandError, match="stays failed"):
        lab.run()
    lab.execute("INSERT INTO anew VALUES ('y', 8)")
    with pytest.raises(CommandError, match="stays failed"):
        lab.run()
    assert lab.states() == {
        "at_once": "dropped", "later": "dropped", "anew": "streaming", "stays": "failed", "other": "streaming"
    }  # fmt: skip
    services.resnapshot_table(table=lab.table("stays"))
    lab.execute("ALTER TABLE stays DROP c")
    assert lab.run_and_compare(3) == 4


def test_partitions_made_again_and_tables_that_become_some_while_capture_is_behind(lab: PostgresLab) -> None:
    lab.execute(
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "INSERT INTO p VALUES (1)",
    )  # fmt: skip
    lab.replicate()
    lab.run_and_compare(1)
    lab.execute(
        "INSERT INTO p VALUES (2)", "DROP TABLE low", "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "INSERT INTO p VALUES (3)",
        "CREATE TABLE high PARTITION OF p FOR VALUES FROM (10) TO (20)", "INSERT INTO p VALUES (11)", "DROP TABLE high",
        "CREATE TABLE gone (id int PRIMARY KEY)", "INSERT INTO gone VALUES (1)", "DROP TABLE gone",
        "CREATE TABLE joins (id int PRIMARY KEY)", "INSERT INTO joins VALUES (21)",
    )  # fmt: skip
    assert lab.run_and_compare(2) == 2
    assert lab.states() == {"p": "streaming", "joins": "streaming"}
    services.resnapshot_table(table=lab.table("joins"))
    lab.execute("INSERT INTO joins VALUES (22)", "ALTER TABLE p ATTACH PARTITION joins FOR VALUES FROM (20) TO (30)")
    assert lab.run_and_compare(1) == 3
    assert lab.states() == {"p": "streaming", "joins": "dropped"}
