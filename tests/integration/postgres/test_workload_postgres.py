"""Random histories against live Postgres servers: nearly all statements are taken, and nothing stops the player."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2.errors
import pytest

from testing.workload.histories import Maker, Size
from testing.workload.postgres.values.rng_literals import quoted
from testing.workload.runner import Played, Player
from testing.workload.workload import History, Phase, PostgresSession, Step
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
SEEDS = 12
TINY = Size(tables=(1, 3), rows=(0, 60), phases=(2, 2), steps=(5, 15))
ALONE = Size(tables=(1, 3), rows=(0, 30), phases=(2, 2), steps=(10, 25), writers=(1, 1))
TAKEN = 0.85
SCHEMA = "workload's schema"
COLUMNS = """
    SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = quote_ident(%s)::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND a.attnum > 0 AND NOT a.attisdropped
"""


@contextmanager
def database(server: EmbeddedPostgresSource, name: str) -> Iterator[Callable[[], Any]]:
    """A database with the schema; what is given connects to it."""
    execute(server.connect, f"DROP DATABASE IF EXISTS {name} (FORCE)", f"CREATE DATABASE {name}")

    def connect() -> Any:
        return server.connect(dbname=name)

    execute(connect, f"CREATE SCHEMA {quoted(SCHEMA)}")
    try:
        yield connect
    finally:
        _drop(server, name)


def _drop(server: EmbeddedPostgresSource, name: str) -> None:
    """The server may notice a while after it that a reader of a slot has gone."""
    deadline = time.monotonic() + 60
    while True:
        try:
            execute(server.connect, f"DROP DATABASE {name} (FORCE)")
        except psycopg2.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def execute(connect: Callable[[], Any], *statements: str) -> list[tuple[Any, ...]]:
    with closing(connect()) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


@pytest.mark.parametrize("version", ["13.22.0", "17.5.0"])
def test_most_statements_of_twelve_histories_are_taken_and_all_tables_are_made(
    postgres_version: Callable[[str], EmbeddedPostgresSource], version: str
) -> None:
    total, refused = Played(), Counter[str]()
    for seed in range(SEEDS):
        history = Maker(seed, "postgres", TINY, int(version.partition(".")[0])).history()
        with database(postgres_version(version), f"workload_{seed}") as connect:
            player = Player(history, connect, SCHEMA)
            made = player.prepare()
            if made.failed:
                refused[f"seed {seed}: {made.errors}"] += 1
            total.add(made)
            total.add(player.play())
            assert execute(connect, "SELECT gid FROM pg_prepared_xacts") == []
    print(
        f"Postgres {version}: {total.failed / total.statements:.1%} of {total.statements} statements failed,"
        f" {total.errors}"
    )
    assert not refused
    assert total.failed <= (1 - TAKEN) * total.statements, total
    assert total.lost == 0
    assert total.transactions > 40
    assert total.rollbacks > 5


def test_what_the_generator_knows_of_its_tables_is_what_the_server_says(
    postgres_source: EmbeddedPostgresSource,
) -> None:
    """With one writer every statement comes in order: where none failed, the tables and columns are as drafted."""
    compared = 0
    for seed in range(SEEDS * 2):
        maker = Maker(seed, "postgres", ALONE)
        history = maker.history()
        with database(postgres_source, f"model_{seed}") as connect:
            player = Player(history, connect, SCHEMA)
            made, played = player.prepare(), player.play()
            if made.failed or played.failed:
                continue
            compared += 1
            with closing(connect()) as connection, connection.cursor() as cursor:
                cursor.execute(COLUMNS, (SCHEMA,))
                found = set(cursor.fetchall())
        drafted = {(table.name, column.name) for table in maker.draft.tables.values() for column in table.columns}
        inherited = {(name, "d") for name in history.refused if name.endswith(" child")}
        assert found == drafted | inherited, seed
    assert compared >= SEEDS // 2


def one_step(*steps: Step) -> History:
    sessions = (
        PostgresSession("Asia/Kolkata", "LATIN1", (("DateStyle", "SQL, DMY"), ("bytea_output", "escape"))),
        PostgresSession("UTC", "SJIS", (("IntervalStyle", "sql_standard"),)),
    )
    return History(1, "postgres", sessions, ("CREATE TABLE t (a integer PRIMARY KEY, b varchar(20))",), (Phase(steps),))


@pytest.fixture
def connect(postgres_source: EmbeddedPostgresSource) -> Iterator[Callable[[], Any]]:
    with database(postgres_source, "workload") as connected:
        yield connected


def rows(connect: Callable[[], Any]) -> list[tuple[Any, ...]]:
    return execute(connect, f"SELECT a, b FROM {quoted(SCHEMA)}.t ORDER BY a")


def test_a_step_ends_as_it_says_and_a_failed_transaction_is_rolled_back(connect: Callable[[], Any]) -> None:
    history = one_step(
        Step(0, ("INSERT INTO t VALUES (1, 'é')",), "commit"),
        Step(0, ("INSERT INTO t VALUES (2, 'no')", "ALTER TABLE t ADD COLUMN c integer"), "rollback"),
        Step(0, ("INSERT INTO t VALUES (3, 'no')", "INSERT INTO t VALUES (1, 'twice')"), "commit"),
        Step(0, ("INSERT INTO t VALUES (4, 'x')", "INSERT INTO t VALUES (1, 'twice')",
                "INSERT INTO t VALUES (5, 'y\\n')"), "autocommit"),
        Step(1, ("INSERT INTO t VALUES (6, '表')",), "autocommit"),
        Step(1, ("SAVEPOINT s", "INSERT INTO t VALUES (7, 'no')", "ROLLBACK TO SAVEPOINT s",
                "INSERT INTO t VALUES (8, 'z')"), "commit"),
    )  # fmt: skip
    player = Player(history, connect, SCHEMA)
    player.prepare()
    played = player.play()
    assert rows(connect) == [(1, "é"), (4, "x"), (5, "y\\n"), (6, "表"), (8, "z")]
    assert (played.transactions, played.rollbacks, played.failed) == (2, 2, 2)
    assert played.errors == {"23505": 2}


def test_no_transaction_is_left_prepared(connect: Callable[[], Any]) -> None:
    """What a shrunk history, or a lost connection, leaves undone would hold its locks for ever."""
    begin, insert = "BEGIN /* '1.{}' */", "INSERT INTO t VALUES ({}, 'x')"
    history = one_step(
        Step(0, (begin.format(0), insert.format(1), "PREPARE TRANSACTION '1.0'"), "autocommit"),
        Step(0, (begin.format(1), insert.format(1), insert.format(1), "PREPARE TRANSACTION '1.1'",
                "COMMIT PREPARED '1.1'"), "autocommit"),
        Step(0, (begin.format(2), insert.format(2), "PREPARE TRANSACTION '1.2'", "COMMIT PREPARED '1.2'"),
            "autocommit"),
        Step(0, (begin.format(3), insert.format(9)), "autocommit"),
        Step(0, (insert.format(3),), "commit"),
    )  # fmt: skip
    player = Player(history, connect, SCHEMA)
    player.prepare()
    execute(
        connect, "BEGIN", f"INSERT INTO {quoted(SCHEMA)}.t VALUES (8, '')", "PREPARE TRANSACTION '1.1'"
    )  # of a player that was killed
    player.prepare()
    assert player.play().transactions == 2
    assert execute(connect, "SELECT gid FROM pg_prepared_xacts") == []
    assert rows(connect) == [(2, "x"), (3, "x")]


def test_the_player_goes_on_after_the_server_was_killed(
    postgres_source: EmbeddedPostgresSource, connect: Callable[[], Any]
) -> None:
    steps = [Step(0, (f"INSERT INTO t VALUES ({number}, 'x')",), "commit") for number in range(60)]
    player = Player(one_step(*steps), connect, SCHEMA, pace=0.03)
    player.prepare()
    played: list[Played] = []
    playing = threading.Thread(target=lambda: played.append(player.play()))
    playing.start()
    time.sleep(0.5)
    postgres_source.restart(signal.SIGKILL)
    playing.join(60)
    assert not playing.is_alive()
    assert played[0].lost <= 2
    assert played[0].transactions >= 58
    assert [a for a, _ in rows(connect) if a >= 50] == list(range(50, 60))
