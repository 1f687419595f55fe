"""The emulator speaks TDS to Microsoft's driver: types, batches, transactions, locks, logins, cancelling."""

from __future__ import annotations

import datetime as dt
import signal
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import mssql_python
import pytest

from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from tests.integration.sqlserver.emulated import Database, until

UTC_530 = dt.timezone(dt.timedelta(hours=5, minutes=30))
# "Data types (Transact-SQL)": declared, written, read.
VALUES: tuple[tuple[str, str, Any], ...] = (
    ("tinyint", "255", 255), ("smallint", "-32768", -32768), ("int", "-2147483648", -(2**31)),
    ("bigint", "9223372036854775807", 2**63 - 1), ("bit", "5", True), ("decimal(38,10)",
    "-1234567890123456789012345678.0123456789",
    Decimal("-1234567890123456789012345678.0123456789")), ("money", "-922337203685477.5808",
    Decimal("-922337203685477.5808")),
    ("smallmoney", "214748.3647", Decimal("214748.3647")), ("float", "1.7976931348623157e308", 1.7976931348623157e308),
    ("real", "0.5", 0.5),
    ("date", "'0001-01-01'", dt.date(1, 1, 1)), ("time(3)", "'10:11:12.3456'", dt.time(10, 11, 12, 346000)),
    ("datetime", "'2024-01-01 10:00:00.124'", dt.datetime.fromisoformat("2024-01-01T10:00:00.123")),
    ("smalldatetime", "'2024-01-01 10:00:31'", dt.datetime.fromisoformat("2024-01-01T10:01")),
    ("datetime2(6)", "'9999-12-31T23:59:59.999999'", dt.datetime.fromisoformat("9999-12-31T23:59:59.999999")),
    ("datetimeoffset(4)", "'2024-01-01 10:00:00.1234567 +05:30'", dt.datetime(2024, 1, 1, 10, 0, 0, 123500, UTC_530)),
    ("uniqueidentifier", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", uuid.UUID("6F9619FF-8B86-D011-B42D-00C04FC964FF")),
    ("char(5)", "'ab'", "ab   "), ("varchar(20)", "'h\u00e9'", "h\u00e9"), ("varchar(20)", "N'\u0436'", "?"),
    ("varchar(20) COLLATE Cyrillic_General_CI_AS", "N'\u0436'", "\u0436"),
    ("varchar(20) COLLATE Latin1_General_100_CI_AS_SC_UTF8", "N'\u8868'", "\u8868"),
    ("char(8) COLLATE Latin1_General_100_CI_AS_SC_UTF8", "N'\u8868'", "\u8868     "),
    ("nchar(4)", "N'\U0001f388'", "\U0001f388  "),
    ("nchar(3)", "N'\u0436'", "\u0436  "), ("nvarchar(10)", "N'\u0436\U0001f388'", "\u0436\U0001f388"),
    ("nvarchar(max)", "REPLICATE(N'x', 9000)", "x" * 9000),
    ("varchar(max)", "''", ""), ("text", "'old'", "old"), ("ntext", "N'\u0436'", "\u0436"), ("image", "0x00FF",
    b"\x00\xff"), ("binary(4)", "0x01", b"\x01\0\0\0"),
    ("varbinary(4)", "0x", b""), ("varbinary(max)", "0x0102", b"\x01\x02"), ("xml", "N'<a>\u0436</a>'",
    "<a>\u0436</a>"), ("sql_variant", "CAST(5 AS int)", 5),
    *(("sql_variant", text, value) for text, value in (
        ("CAST(-32768 AS smallint)", -32768), ("CAST(255 AS tinyint)", 255), ("CAST(1 AS bit)", True),
        ("CAST(-1.50 AS decimal(38,2))", Decimal("-1.50")), ("CAST(-1e300 AS float)", -1e300),
        ("CAST(0.5 AS real)", 0.5), ("CAST(-92233720368547.5808 AS money)", Decimal("-92233720368547.5808")),
        ("CAST(-0.5 AS smallmoney)", Decimal("-0.5000")), ("CAST('0001-01-01' AS date)", dt.date(1, 1, 1)),
        ("CAST('10:11:12.345' AS time(7))", dt.time(10, 11, 12, 345000)),
        ("CAST('1753-01-01 10:00:00.12' AS datetime)", dt.datetime.fromisoformat("1753-01-01T10:00:00.120")),
        ("CAST('2024-01-01 10:01' AS smalldatetime)", dt.datetime.fromisoformat("2024-01-01T10:01")),
        ("CAST('9999-12-31T23:59:59.999999' AS datetime2(7))", dt.datetime.fromisoformat("9999-12-31T23:59:59.999999")),
        ("CAST('2024-01-01 10:00:00.12 -05:30' AS datetimeoffset(7))", "2024-01-01 10:00:00.1200000 -05:30"),
        ("CAST('6F9619FF-8B86-D011-B42D-00C04FC964FF' AS uniqueidentifier)",
         uuid.UUID("6F9619FF-8B86-D011-B42D-00C04FC964FF")),
        ("CAST('ab' AS char(5))", "ab   "), ("'\u00e9'", "\u00e9"), ("N'\u0436\U0001f388'", "\u0436\U0001f388"),
        ("CAST(0x01 AS binary(4))", b"\x01\0\0\0"),
    )),
    ("hierarchyid", "'/1/'", b"\x58"), ("geography", "geography::Point(1, 2, 4326)",
    bytes.fromhex("e6100000010c000000000000f03f0000000000000040")),
)  # fmt: skip


def test_every_type_comes_back_as_it_was_written(database: Database) -> None:
    columns = ", ".join(f"c{at} {kind}" for at, (kind, _, _) in enumerate(VALUES))
    database.run(f"CREATE TABLE t (id int PRIMARY KEY, r rowversion, {columns})")
    listed = ", ".join(f"c{at}" for at in range(len(VALUES)))
    database.run(
        f"INSERT INTO t (id, {listed}) VALUES (1, {', '.join(text for _, text, _ in VALUES)})",
        "INSERT INTO t (id) VALUES (2)",
    )
    (row,) = database.run(f"SELECT {listed} FROM t WHERE id = 1")
    for (kind, text, value), found in zip(VALUES, row, strict=True):
        assert (found, type(found)) == (value, type(value)), f"{kind} {text}"
    assert database.run(f"SELECT {listed} FROM t WHERE id = 2") == [(None,) * len(VALUES)]
    ((first,), (second,)) = database.run("SELECT r FROM t ORDER BY id")
    assert first < second


def test_texts_and_guids_compare_as_on_the_server(database: Database) -> None:
    """Collation and Unicode support; Compare GUID and uniqueidentifier values."""
    database.run("CREATE TABLE t (a nvarchar(10) PRIMARY KEY, g uniqueidentifier)")
    database.run(
        "INSERT INTO t VALUES (N'Key', '01000000-0000-0000-0000-000000000000'), (N'z',"
        " '00000000-0000-0000-0000-010000000000')"
    )
    assert database.run("SELECT a FROM t WHERE a = N'kEY '") == [("Key",)]
    assert "Cannot insert duplicate key" in database.refused("INSERT INTO t (a) VALUES (N'KEY ')")
    assert database.run("SELECT a FROM t ORDER BY g") == [("Key",), ("z",)]
    assert database.run("SELECT a FROM t WHERE a COLLATE Latin1_General_BIN2 = N'key'") == []


def test_a_batch_has_variables_branches_and_parameters(database: Database) -> None:
    database.run("CREATE TABLE t (id int IDENTITY PRIMARY KEY, a nvarchar(20))")
    rows = database.run(
        "SET NOCOUNT ON DECLARE @n int = 1, @a nvarchar(20) WHILE @n < 4 BEGIN SET @a = CONCAT(N'row ', @n) INSERT"
        " INTO t (a) VALUES (@a)"
        " SET @n = @n + 1 END IF @n = 4 SELECT COUNT(*), @n FROM t ELSE SELECT 0, 0"
    )
    assert rows == [(3, 4)]
    assert database.run("SELECT id FROM t WHERE a = ? AND id > ?", a="ROW 2", n=0) == [(2,)]
    assert database.run("SELECT ?, ?, ?", a=None, b=b"\0", c=Decimal("-1.50")) == [(None, b"\0", Decimal("-1.50"))]
    assert "explicit value for identity" in database.refused("INSERT INTO t (id, a) VALUES (9, N'x')")
    assert "String or binary data would be truncated" in database.refused(f"INSERT INTO t (a) VALUES (N'{'x' * 21}')")
    assert "Invalid object name 'no'" in database.refused("SELECT * FROM no")
    assert "does not know" in database.refused("SELECT a FROM t FOR XML PATH('')")


def test_an_error_ends_its_statement_and_not_its_transaction(
    database: Database, session: Callable[[], Database]
) -> None:
    """SET XACT_ABORT: when OFF, in most cases only the statement is rolled back."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "BEGIN TRAN", "INSERT INTO t VALUES (1)")
    assert "Cannot insert duplicate key" in database.refused("INSERT INTO t VALUES (1)")
    database.run(
        "SAVE TRAN here", "INSERT INTO t VALUES (2)", "ROLLBACK TRAN here", "INSERT INTO t VALUES (3)", "COMMIT"
    )
    assert session().run("SELECT id FROM t ORDER BY id") == [(1,), (3,)]


def test_readers_of_committed_rows_wait_and_those_of_versions_do_not(
    database: Database, session: Callable[[], Database]
) -> None:
    """SET TRANSACTION ISOLATION LEVEL; SET LOCK_TIMEOUT: error 1222."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    writer, snapshot = session(), session()
    writer.run("BEGIN TRAN", "INSERT INTO t VALUES (2)")
    database.run("SET LOCK_TIMEOUT 50")
    assert "Lock request time out period exceeded" in database.refused("SELECT id FROM t")
    snapshot.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT", "BEGIN TRAN")
    assert snapshot.run("SELECT id FROM t") == [(1,)]
    assert "Lock request time out" in database.refused("SELECT TOP (0) 1 FROM t WITH (TABLOCK, HOLDLOCK)")
    writer.run("COMMIT")
    assert database.run("SELECT COUNT(*) FROM t") == [(2,)]
    assert snapshot.run("SELECT id FROM t") == [(1,)]
    snapshot.run("COMMIT")
    assert snapshot.run("SELECT COUNT(*) FROM t") == [(2,)]


def _read(cursor: Any, query: str) -> list[Any]:
    cursor.execute(query)
    rows: list[Any] = cursor.fetchall()
    return rows


def test_a_statement_ends_when_its_client_cancels_it(database: Database) -> None:
    """[MS-TDS] 2.2.1.7, Attention."""
    with closing(database.server.connect(database.name)) as connection, closing(connection.cursor()) as cursor:

        def cancel() -> None:
            cursor.hstmt._cancel()

        threading.Timer(0.5, cancel).start()
        began = time.monotonic()
        with pytest.raises(mssql_python.Error):
            _read(cursor, "SELECT COUNT(*) FROM GENERATE_SERIES(1, 2000000000)")
        assert time.monotonic() - began < 20
        cursor.execute("SELECT 1")
        assert tuple(cursor.fetchone()) == (1,)


def test_logins_have_passwords_and_rights_of_their_own(database: Database) -> None:
    """MSSQLSERVER_18456; GRANT object permissions; sys.sp_cdc_enable_table, @role_name."""
    server, name = database.server, f"{database.name}_reader"
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE u (id int)",
        f"CREATE LOGIN {name} WITH PASSWORD = 'Reader-1'",
    )
    for user, password in ((name, "wrong"), ("nobody_here", "x")):
        with pytest.raises(mssql_python.Error, match=f"Login failed for user '{user}'"):
            server.connect(UID=user, PWD=password)
    with pytest.raises(
        mssql_python.Error, match=f"Login failed for user '{name}'"
    ):  # 4060 comes before, 18456 is shown
        server.connect(database.name, UID=name, PWD="Reader-1")
    database.run(f"CREATE USER {name} FOR LOGIN {name}", f"GRANT SELECT ON dbo.t TO {name}", "INSERT INTO t VALUES (1)")
    with (
        closing(server.connect(database.name, UID=name, PWD="Reader-1")) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.execute(
            "SELECT id, HAS_PERMS_BY_NAME('dbo.t', 'OBJECT', 'SELECT'), HAS_PERMS_BY_NAME('dbo.t', 'OBJECT', 'DELETE')"
            " FROM t"
        )
        assert tuple(cursor.fetchone()) == (1, 1, 0)
        for refused in ("DELETE FROM t", "SELECT * FROM u"):
            with pytest.raises(mssql_python.Error, match="permission was denied"):
                cursor.execute(refused)
        cursor.execute("SELECT name FROM sys.tables WHERE is_ms_shipped = 0")
        assert [tuple(row) for row in cursor.fetchall()] == [("t",)]
    database.run(f"DROP USER {name}", f"DROP LOGIN {name}")


@pytest.mark.parametrize(("asked", "found"), [("yes", "TRUE"), ("no", "FALSE")])
def test_a_session_is_in_tls_where_the_client_asks_for_it(database: Database, asked: str, found: str) -> None:
    """[MS-TDS] 2.2.6.5, PRELOGIN: where neither insists, the login alone is encrypted."""
    connection = database.server.connect(database.name, Encrypt=asked)
    with closing(connection), closing(connection.cursor()) as cursor:
        cursor.execute("SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID")
        assert tuple(cursor.fetchone()) == (found,)


def test_a_large_result_streams(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, a nvarchar(50), d datetime2(6), m decimal(18,4))")
    made = "SELECT value, CONCAT(N'row ', value), CAST('2024-01-01' AS datetime2(6)), value * 0.25"
    database.run(f"INSERT INTO t (id, a, d, m) {made} FROM GENERATE_SERIES(1, 50000)")
    assert len(database.run("SELECT * FROM t")) == 50000
    with closing(database.server.connect(database.name)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SELECT * FROM t ORDER BY id")
        assert cursor.fetchone()[0] == 1  # and the rest is left where it is


def test_it_goes_on_with_its_data_after_a_crash(tmp_path: Path) -> None:
    """What was committed is captured once, whenever the job went down."""
    server = EmbeddedSQLServer(tmp_path / "sqlserver", encrypt="off", durable=True)
    server.start()
    try:
        with closing(server.connect()) as connection, closing(connection.cursor()) as cursor:
            for statement in (
                "CREATE DATABASE shop",
                "USE shop",
                "EXEC sys.sp_cdc_enable_db",
                "CREATE TABLE t (id int PRIMARY KEY)",
            ):
                cursor.execute(statement)
            cursor.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL"
            )
            for number in range(300):
                cursor.execute(f"INSERT INTO t VALUES ({number})")
        server.restart(signal.SIGKILL)
        with closing(server.connect("shop")) as connection, closing(connection.cursor()) as cursor:

            def captured() -> list[int]:
                cursor.execute("SELECT id FROM cdc.dbo_t_CT ORDER BY [__$start_lsn]")
                return [row[0] for row in cursor.fetchall()]

            until(lambda: len(captured()) >= 300)
            assert captured() == list(range(300))
            cursor.execute("SELECT recovery_fork_guid FROM sys.database_recovery_status")
            before = cursor.fetchone()[0]
        server.stop()
        server.begin_fork()  # sys.database_recovery_status: a restore begins another one
        server.start()
        with closing(server.connect("shop")) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SELECT recovery_fork_guid FROM sys.database_recovery_status")
            assert cursor.fetchone()[0] != before
    finally:
        server.stop(signal.SIGKILL)
