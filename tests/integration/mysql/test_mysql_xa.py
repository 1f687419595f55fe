"""XA transactions that stay prepared: nothing waits for them, and they are exact whenever they are decided."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from replicator.model.change import Notice, SchemaChange
from testing.servers.mysql import EmbeddedMySQL
from testing.workload.mysql.driver import MySQLDriver
from tests.integration.resuming import TABLE, Source, running
from webapp.embedded.mariadb import EmbeddedMariaDB

XIDS = {"ours", "not ours", "undone", "left", "early", "old", "of others", "forgotten", "in part"}
pytestmark = pytest.mark.integration


server = running("mariadb", "mysql")


@pytest.fixture
def source(server: EmbeddedMariaDB | EmbeddedMySQL) -> Iterator[Source]:
    source = Source(server)
    source.run("CREATE TABLE shop.unselected (id INT PRIMARY KEY)")
    yield source
    source.run(*(f"XA ROLLBACK '{left}'" for left in MySQLDriver().left(source.server.connect(), XIDS)))


def prepare(source: Source, xid: str, *statements: str) -> None:
    """By a session that goes away."""
    source.run(f"XA START '{xid}'", *statements, f"XA END '{xid}'", f"XA PREPARE '{xid}'")


def insert(*ids: int) -> str:
    return f"INSERT INTO {TABLE} VALUES " + ", ".join(f"({n}, {n})" for n in ids)


def reloads(source: Source) -> list[str]:
    return [str(one.table) for one in source.messages if isinstance(one, SchemaChange) and one.reload]


def test_checkpoints_pass_a_prepared_transaction_and_its_rows_come_with_its_commit(source: Source) -> None:
    prepare(source, "ours", insert(1, 2))
    prepare(source, "not ours", "INSERT INTO shop.unselected VALUES (1)")
    prepare(source, "undone", insert(3))
    source.insert(10)
    assert source.read() == [10]
    source.run("FLUSH BINARY LOGS")
    source.insert(11)
    assert source.read() == [11]
    assert source.read() == []
    source.run("XA COMMIT 'ours'", "XA ROLLBACK 'undone'", "XA COMMIT 'not ours'")
    source.insert(12)
    assert source.read() == [1, 2, 12]
    assert source.offset.prepared == ()
    assert not reloads(source)


@pytest.mark.parametrize("server", ["mariadb"], indirect=True)  # MySQL with GTIDs allows no such transaction
@pytest.mark.parametrize("again", [False, True])
def test_rows_that_a_savepoint_takes_back_are_not_committed(source: Source, *, again: bool) -> None:
    """A server that has changed a table without transactions meanwhile logs what is taken back, and says so after
    it.
    """
    source.run("CREATE TABLE shop.kept (id INT PRIMARY KEY) ENGINE=MyISAM")
    back = ("SAVEPOINT s", insert(2), "INSERT INTO shop.kept VALUES (1)", "ROLLBACK TO s", insert(3))
    prepare(source, "in part", insert(1), *back)
    if again:  # the reader begins again while it is undecided
        assert source.read() == []
    source.run("XA COMMIT 'in part'")
    assert source.read() == []
    assert reloads(source) == [str(TABLE)]


def test_a_server_that_crashed_commits_what_it_has_recovered(source: Source) -> None:
    prepare(source, "left", insert(1), f"UPDATE {TABLE} SET v = 7 WHERE id = 1")
    source.insert(2)
    assert source.read() == [2]
    source.server.restart(signal.SIGKILL)
    source.insert(3)
    assert source.read() == [3]
    source.run("XA COMMIT 'left'")
    assert source.read() == [1, 1]


@pytest.mark.parametrize(
    "server", ["mysql"], indirect=True
)  # MariaDB keeps the lock of a transaction whose session is gone
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE shop.t", "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)"],
        ["TRUNCATE TABLE shop.t"],
        ["RENAME TABLE shop.t TO shop.u, shop.unselected TO shop.t"],
    ],
    ids=lambda statements: statements[0].split(" shop")[0],
)
def test_rows_of_a_table_that_was_altered_meanwhile_are_not_taken_for_the_present_ones(
    source: Source, statements: list[str], *, again: bool
) -> None:
    """8.0.12 keeps no lock for it, and crashes at ALTER TABLE ADD."""
    prepare(source, "left", insert(1))
    source.insert(2)
    if again:
        source.read()
    source.run(*statements)
    if again:
        source.read()
    source.run("XA COMMIT 'left'")
    assert 1 not in source.read()
    assert reloads(source)[-1:] == [str(TABLE)]


def test_what_was_prepared_before_reading_began_is_read_with_its_table(source: Source) -> None:
    prepare(source, "early", insert(1))
    source.offset = source.now()
    source.insert(2)
    assert source.read() == [2]
    source.run("XA COMMIT 'early'")
    assert source.read() == []
    assert reloads(source) == [str(TABLE)]


def test_rows_that_the_log_has_no_more_are_read_with_their_table(source: Source) -> None:
    prepare(source, "old", insert(1))
    prepare(source, "of others", "INSERT INTO shop.unselected VALUES (2)")
    source.run("FLUSH BINARY LOGS")
    source.insert(2)
    assert source.read() == [2]
    if isinstance(source.server, EmbeddedMariaDB):
        source.run("SET GLOBAL slave_connections_needed_for_purge = 0")
    source.purge()
    source.run("XA COMMIT 'of others'")
    assert source.read() == []
    assert not reloads(source)
    source.run("XA COMMIT 'old'")
    assert source.read() == []
    assert reloads(source) == [str(TABLE)]


def test_who_waits_is_named_with_what_ends_it(source: Source) -> None:
    prepare(source, "forgotten", insert(1))
    prepare(source, "not ours", "INSERT INTO shop.unselected VALUES (1)")
    time.sleep(6)
    assert source.read() == []
    reader_ends = time.monotonic() + 30
    found: list[str] = []
    while not found and time.monotonic() < reader_ends:
        found = [one.text for one in source.watch(2.0) if isinstance(one, Notice)]
    (text,) = found
    xid = "X'" + b"forgotten".hex() + "',X'',1"
    assert text.startswith(f"The XA transaction {xid} on the source has been prepared since 20")
    assert text.endswith(f"XA COMMIT {xid} or XA ROLLBACK {xid} ends it.")
    assert str(TABLE) in text
