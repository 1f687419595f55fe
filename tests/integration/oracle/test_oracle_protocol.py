"""The emulator speaks to the real thin driver (python-oracledb, "Connecting to Oracle Database", "Using CLOB and BLOB
Data", "Executing SQL"; Database Error Messages).
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Any

import oracledb
import pytest

from testing.servers.oracle.server.embedded import EmbeddedOracle
from tests.integration.oracle.conftest import Schema


def _refusal(server: EmbeddedOracle, **how: Any) -> str:
    with pytest.raises(oracledb.Error) as caught:
        oracledb.connect(
            **{
                "host": server.host,
                "port": server.port,
                "service_name": server.service,
                "user": "SYSTEM",
                "password": "x",
            }
            | how
        )
    return str(caught.value)


def test_who_has_not_the_password_is_refused(oracle: EmbeddedOracle) -> None:
    assert "ORA-01017" in _refusal(oracle)
    assert "ORA-01017" in _refusal(oracle, user="nobody")
    assert "ORA-12514" in _refusal(oracle, service_name="elsewhere")


def test_a_user_without_create_session_is_refused(oracle: EmbeddedOracle) -> None:
    with closing(oracle.connect()) as session, session.cursor() as cursor:
        cursor.execute("CREATE USER locked_out IDENTIFIED BY x")
    assert "ORA-01045" in _refusal(oracle, user="locked_out")


def test_rows_come_in_batches_and_statements_are_executed_again(schema: Schema) -> None:
    schema.run("CREATE TABLE t (id NUMBER(9) PRIMARY KEY, v VARCHAR2(400))")
    with schema.connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (:1, :2)", [(at, "é" * 150) for at in range(1000)])
        assert cursor.rowcount == 1000
        cursor.arraysize = 90
        for least in (0, 500, 999):
            cursor.execute("SELECT id, v FROM t WHERE id >= :least ORDER BY id", least=least)
            assert [row[0] for row in cursor] == list(range(least, 1000))


def test_large_objects_are_read_by_locator_or_as_values(schema: Schema) -> None:
    schema.run("CREATE TABLE t (c CLOB, b BLOB, n NCLOB)")
    schema.run("INSERT INTO t VALUES (:1, :2, :3)", "é🎈" * 20_000, b"\0\xff" * 5000, "x")
    row = schema.run("SELECT c, b, n FROM t")[0]
    assert row[0].read() == "é🎈" * 20_000
    assert row[0].read(2, 2) == "🎈"  # counted in units of UTF-16
    assert (row[1].size(), row[2].read()) == (10_000, "x")
    with schema.connection.cursor() as cursor:
        cursor.execute("SELECT c, b FROM t", fetch_lobs=False)
        assert cursor.fetchall() == [("é🎈" * 20_000, b"\0\xff" * 5000)]


def test_arrow_batches_are_fetched(schema: Schema) -> None:
    frames = schema.connection.fetch_df_batches(
        "SELECT LEVEL AS n, TO_CHAR(LEVEL) AS v FROM dual CONNECT BY LEVEL <= 250"
    )
    assert sum(frame.num_rows() for frame in frames) == 250


def test_a_statement_that_waits_is_cancelled_and_the_session_goes_on(schema: Schema) -> None:
    schema.run("CREATE TABLE t (id NUMBER(9) PRIMARY KEY)")
    schema.run("INSERT INTO t VALUES (1)")
    other = Schema(schema.server, schema.name)
    waits = threading.Timer(0.3, other.connection.cancel)
    waits.start()
    began = time.monotonic()
    assert other.refused("INSERT INTO t VALUES (1)") == "ORA-01013"
    assert time.monotonic() - began < 10
    assert other.run("SELECT * FROM t") == []
    other.connection.call_timeout = 300
    with pytest.raises(oracledb.DatabaseError, match="DPY-4024"):
        other.run("INSERT INTO t VALUES (1)")
    other.connection.call_timeout = 0
    assert other.run("SELECT * FROM t") == []
    other.connection.close()


def test_what_the_emulator_does_not_know_is_refused_by_name(schema: Schema) -> None:
    with pytest.raises(oracledb.DatabaseError, match=r"ORA-03001: unimplemented feature: .*PIVOT"):
        schema.run("SELECT * FROM (SELECT 1 a, 2 b FROM dual) PIVOT (SUM(b) FOR a IN (1))")
    assert schema.refused("SELECT SDO_GEOM(1) FROM dual") == "ORA-00904"
    assert schema.refused("BEGIN dbms_aq.enqueue(1); END;") == "ORA-06550"
