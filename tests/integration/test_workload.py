"""Random histories against a live server: nearly all statements are taken, and nothing stops the player."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from testing.workload.histories import Size, generate
from testing.workload.runner import Played, Player
from testing.workload.workload import History, Phase, Session, Step
from tests.attended import play
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration
SEEDS = 20
TINY = Size(tables=(1, 3), rows=(0, 60), phases=(2, 2), steps=(5, 15))
TAKEN = 0.85


@pytest.fixture
def database(mariadb: EmbeddedMariaDB) -> Iterator[str]:
    name = "workload test"
    execute(mariadb, f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}`")
    yield name
    execute(mariadb, f"DROP DATABASE `{name}`")


def execute(server: EmbeddedMariaDB, *statements: str) -> Any:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


def test_most_statements_of_twenty_histories_are_taken_and_all_tables_are_made(mariadb: EmbeddedMariaDB) -> None:
    total, refused, crashes = Played(), Counter[str](), 0
    for seed in range(SEEDS):
        history = generate(seed, "mariadb", TINY)
        execute(mariadb, f"CREATE DATABASE workload_{seed}")
        try:
            player = Player(history, mariadb.connect, f"workload_{seed}")
            made = player.prepare()
            if made.failed:
                refused[f"seed {seed}: {made.errors}"] += 1
            total.add(made)
            played, died = play(player, mariadb)
            total.add(played)
            crashes += died
        finally:
            execute(mariadb, f"DROP DATABASE workload_{seed}")
    assert not refused
    assert total.failed <= (1 - TAKEN) * total.statements, total
    assert total.lost == 0 or crashes
    assert total.transactions > 40
    assert total.rollbacks > 5


def one_step(*steps: Step) -> History:
    sessions = (Session("+05:30", "latin1", "NO_BACKSLASH_ESCAPES"), Session("SYSTEM", "sjis", "ANSI_QUOTES"))
    setup = ("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20) CHARACTER SET utf8mb4)",)
    return History(1, "mariadb", sessions, setup, (Phase(steps),))


def test_a_step_ends_as_it_says_and_a_failed_transaction_is_rolled_back(
    mariadb: EmbeddedMariaDB, database: str
) -> None:
    history = one_step(
        Step(0, ("INSERT INTO t VALUES (1, 'é')",), "commit"),
        Step(0, ("INSERT INTO t VALUES (2, 'no')",), "rollback"),
        Step(0, ("INSERT INTO t VALUES (3, 'no')", "INSERT INTO t VALUES (1, 'twice')"), "commit"),
        Step(0, ("INSERT INTO t VALUES (4, 'x')", "INSERT INTO t VALUES (1, 'twice')",
                "INSERT INTO t VALUES (5, 'y\\n')"), "autocommit"),
        Step(1, ("INSERT INTO t VALUES (6, '表')",), "autocommit"),
    )  # fmt: skip
    player = Player(history, mariadb.connect, database)
    player.prepare()
    played = player.play()
    assert execute(mariadb, f"SELECT a, b FROM `{database}`.t ORDER BY a") == (
        (1, "é"), (4, "x"), (5, "y\\n"), (6, "表"),
    )  # fmt: skip
    assert (played.transactions, played.rollbacks, played.failed) == (1, 2, 2)
    assert played.errors == {"1062": 2}


def test_no_xa_transaction_is_left_prepared(mariadb: EmbeddedMariaDB, database: str) -> None:
    """What a shrunk history, or a lost connection, leaves undone would hold its locks for ever."""
    history = one_step(
        Step(0, ("XA START '1.0'", "INSERT INTO t VALUES (1, 'x')", "XA END '1.0'", "XA PREPARE '1.0'"), "autocommit"),
        Step(0, ("XA START '1.1'", "INSERT INTO t VALUES (1, 'y')", "INSERT INTO t VALUES (1, 'y')", "XA END '1.1'",
                 "XA PREPARE '1.1'", "XA COMMIT '1.1'"), "autocommit"),
        Step(0, ("INSERT INTO t VALUES (3, 'z')",), "commit"),
    )  # fmt: skip
    player = Player(history, mariadb.connect, database)
    player.prepare()
    with mariadb.connect() as other, other.cursor() as cursor:  # of a player that was killed
        for verb in ("START", "END", "PREPARE"):
            cursor.execute(f"XA {verb} '1.1'")
            if verb == "START":
                cursor.execute(f"INSERT INTO `{database}`.t VALUES (9, '')")
    gone = f"SELECT COUNT(*) FROM information_schema.processlist WHERE id = {other.thread_id()}"
    while execute(mariadb, gone) != ((0,),):
        time.sleep(0.05)
    player.prepare()
    assert player.play().transactions == 1
    assert execute(mariadb, "XA RECOVER") == ()
    assert execute(mariadb, f"SELECT a, b FROM `{database}`.t") == ((3, "z"),)


def test_the_player_goes_on_after_the_server_was_killed(mariadb: EmbeddedMariaDB, database: str) -> None:
    steps = [Step(0, (f"INSERT INTO t VALUES ({number}, 'x')",), "commit") for number in range(60)]
    player = Player(one_step(*steps), mariadb.connect, database, pace=0.03)
    player.prepare()
    played: list[Played] = []
    playing = threading.Thread(target=lambda: played.append(player.play()))
    playing.start()
    time.sleep(0.5)
    mariadb.restart(signal.SIGKILL)
    playing.join(60)
    assert not playing.is_alive()
    assert played[0].lost <= 2
    assert played[0].transactions >= 58
    assert execute(mariadb, f"SELECT COUNT(*) FROM `{database}`.t WHERE a >= 50") == ((10,),)


def test_the_player_stops_within_a_second_and_says_what_is_wrong_with_it(
    mariadb: EmbeddedMariaDB, database: str
) -> None:
    player = Player(one_step(Step(0, ("SELECT 1",), "autocommit", 0.0)), mariadb.connect, database, pace=30)
    player.prepare()
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    started = time.monotonic()
    assert player.play(stop.is_set).statements == 1
    assert time.monotonic() - started < 1.5

    def wrong() -> pymysql.Connection[Any]:
        message = "no such thing"
        raise TypeError(message)

    with pytest.raises(TypeError, match="no such thing"):
        Player(player.history, wrong, database).play()
