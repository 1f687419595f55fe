"""Transactions and flashback.  Database Concepts 19c, "Transactions"; Development Guide 19c, "Using Oracle Flashback
Technology".
"""

from __future__ import annotations

import signal

import oracledb
import pytest

from tests.integration.oracle.conftest import Schema


@pytest.fixture
def table(schema: Schema) -> Schema:
    schema.run("CREATE TABLE t (id NUMBER(9) PRIMARY KEY, v VARCHAR2(20))")
    return schema


def test_others_see_what_is_committed_and_a_failed_statement_undoes_itself_alone(table: Schema) -> None:
    other = Schema(table.server, table.name)
    table.run("INSERT INTO t VALUES (1, 'a')")
    assert table.refused("INSERT INTO t SELECT LEVEL, 'b' FROM dual CONNECT BY LEVEL <= 3") == "ORA-00001"
    assert (table.run("SELECT * FROM t"), other.run("SELECT * FROM t")) == ([(1, "a")], [])
    table.connection.commit()
    assert other.run("SELECT * FROM t") == [(1, "a")]
    other.connection.close()


def test_a_savepoint_is_gone_back_to(table: Schema) -> None:
    table.run("INSERT INTO t VALUES (1, 'a')")
    table.run("SAVEPOINT here")
    table.run("UPDATE t SET v = 'b'")
    table.run("ROLLBACK TO SAVEPOINT here")
    table.connection.commit()
    assert table.run("SELECT * FROM t") == [(1, "a")]
    assert table.refused("ROLLBACK TO here") == "ORA-01086"


def test_a_definition_commits(table: Schema) -> None:
    table.run("INSERT INTO t VALUES (1, 'a')")
    table.run("CREATE TABLE other (id NUMBER)")
    table.connection.rollback()
    assert table.run("SELECT * FROM t") == [(1, "a")]


def test_what_was_committed_at_an_scn_is_read_as_of_it(table: Schema) -> None:
    """Beside an open transaction, and from the same session that changes."""
    scns = [table.scn()]
    for statement in ("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'b'", "DELETE FROM t"):
        table.run(statement)
        assert table.run(f"SELECT v FROM t AS OF SCN {table.scn()}") == table.run(
            f"SELECT v FROM t AS OF SCN {scns[-1]}"
        )
        table.connection.commit()
        scns.append(table.scn())
    found = [table.run(f"SELECT v FROM t AS OF SCN {scn}") for scn in scns]
    assert found == [[], [("a",)], [("b",)], []]


def test_an_scn_to_come_and_one_before_a_definition_are_refused(table: Schema) -> None:
    scn = table.scn()
    assert table.refused(f"SELECT * FROM t AS OF SCN {scn + 1_000_000}") == "ORA-08181"
    table.run("ALTER TABLE t ADD (n NUMBER DEFAULT 5)")
    assert table.refused(f"SELECT * FROM t AS OF SCN {scn}") == "ORA-01466"
    assert table.run(f"SELECT * FROM t AS OF SCN {table.scn()}") == []


def test_an_scn_older_than_undo_is_kept_is_refused(table: Schema) -> None:
    scn = table.scn()
    table.run("INSERT INTO t VALUES (1, 'a')")
    table.connection.commit()
    administrator = Schema.__new__(Schema)
    administrator.connection = table.server.connect()
    administrator.run("ALTER SYSTEM SET undo_retention = 0")
    assert table.refused(f"SELECT * FROM t AS OF SCN {scn}") == "ORA-01555"
    administrator.run("ALTER SYSTEM SET undo_retention = 100000")
    assert table.run(f"SELECT * FROM t AS OF SCN {scn}") == []
    administrator.connection.close()


def test_a_deadlock_is_told_to_one_of_two(table: Schema) -> None:
    import threading

    table.run("INSERT ALL INTO t VALUES (1, 'a') INTO t VALUES (2, 'b') SELECT * FROM dual")
    table.connection.commit()
    other = Schema(table.server, table.name)
    table.run("UPDATE t SET v = 'x' WHERE id = 1")
    other.run("UPDATE t SET v = 'x' WHERE id = 2")
    codes: list[str] = []

    def crosswise(schema: Schema, number: int) -> None:
        try:
            schema.run(f"UPDATE t SET v = 'y' WHERE id = {number}")
        except oracledb.DatabaseError as error:
            codes.append(error.args[0].full_code)
            schema.connection.rollback()

    threads = [threading.Thread(target=crosswise, args=one) for one in ((table, 2), (other, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == ["ORA-00060"]
    other.connection.close()


def test_a_killed_server_keeps_what_was_committed_and_takes_back_the_rest(table: Schema) -> None:
    """Its redo log tells the end of every transaction, too."""
    first = table.scn()
    table.run("INSERT INTO t VALUES (1, 'a')")
    table.connection.commit()
    table.run("INSERT INTO t VALUES (2, 'b')")
    table.server.restart(signal.SIGKILL)
    with pytest.raises(oracledb.DatabaseError):
        table.run("SELECT * FROM t")
    table.connection = table.server.connect(table.name, "secret")
    assert table.run("SELECT * FROM t") == [(1, "a")]
    assert [row["OPERATION"] for row in table.mined(first, committed=False)] == [
        "START", "INSERT", "COMMIT", "START", "INSERT", "DELETE", "ROLLBACK",
    ]  # fmt: skip
    assert table.run(f"SELECT * FROM t AS OF SCN {table.scn()}") == [(1, "a")]
