"""Change data capture of the emulator does what the vendor documents; each test names the page."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import psycopg2
import pytest

from tests.integration.sqlserver.emulated import Database, until

DELETED, INSERTED, BEFORE, AFTER = 1, 2, 3, 4
ENABLE = "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL"


def test_a_change_table_has_each_change_with_its_operation_and_mask(database: Database) -> None:
    """cdc.<capture_instance>_CT: __$operation, __$update_mask."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int, b nvarchar(10))")
    database.capture("t")
    database.run("INSERT INTO t VALUES (1, 5, N'x')", "UPDATE t SET b = N'y'", "DELETE FROM t")
    assert database.changes("dbo_t", "id, a, b, [__$update_mask]", 4) == [
        (INSERTED, 1, 5, "x", b"\x07"),
        (BEFORE, 1, 5, "x", b"\x04"),
        (AFTER, 1, 5, "y", b"\x04"),
        (DELETED, 1, 5, "y", b"\x07"),
    ]
    mask = "(SELECT TOP (1) [__$update_mask] FROM cdc.dbo_t_CT WHERE [__$operation] = 4)"
    query = f"SELECT sys.fn_cdc_is_bit_set(sys.fn_cdc_get_column_ordinal('dbo_t', '{{}}'), {mask})"
    assert database.run(query.format("b")) == [(True,)]
    assert database.run(query.format("a")) == [(False,)]


def test_a_transaction_has_one_lsn_and_its_time_and_is_seen_whole(database: Database) -> None:
    """cdc.lsn_time_mapping; sys.fn_cdc_map_lsn_to_time; sys.fn_cdc_map_time_to_lsn."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int)", "CREATE TABLE u (id int PRIMARY KEY)")
    database.capture("t")
    database.capture("u")
    database.run("BEGIN TRAN; INSERT INTO t VALUES (1, 1); INSERT INTO u VALUES (1); UPDATE t SET a = 2; COMMIT")
    database.run(
        "BEGIN TRAN; INSERT INTO t VALUES (2, 1); SAVE TRAN s; INSERT INTO t VALUES (3, 1); ROLLBACK TRAN s; COMMIT"
    )
    rows = database.changes("dbo_t", "id, [__$start_lsn], [__$command_id]", 4)
    first = rows[0][2]
    assert [(row[0], row[1], row[3]) for row in rows] == [(2, 1, 1), (3, 1, 3), (4, 1, 3), (2, 2, 1)]
    assert {row[2] for row in rows[:3]} == {first}
    assert database.changes("dbo_u", "[__$start_lsn]", 1) == [(INSERTED, first)]
    ((mapped,),) = database.run(f"SELECT COUNT(*) FROM cdc.lsn_time_mapping WHERE start_lsn = 0x{first.hex()}")
    assert mapped == 1
    ((back,),) = database.run(
        f"SELECT sys.fn_cdc_map_time_to_lsn('largest less than or equal', sys.fn_cdc_map_lsn_to_time(0x{first.hex()}))"
    )
    assert back == first


def test_an_update_of_a_key_is_delete_and_insert_under_one_sequence_value(database: Database) -> None:
    """cdc.fn_cdc_get_all_changes_<capture_instance>, Remarks."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int)")
    database.capture("t")
    database.run("INSERT INTO t VALUES (1, 1)", "UPDATE t SET id = 2, a = 3")
    rows = database.changes("dbo_t", "id, a, [__$seqval]", 3)
    assert [row[:3] for row in rows[1:]] == [(DELETED, 1, 1), (INSERTED, 2, 3)]
    assert rows[1][3] == rows[2][3]


def test_large_values_that_did_not_change_are_null_in_the_old_row(database: Database) -> None:
    """cdc.<capture_instance>_CT, Large Object Data Types; computed columns are always NULL."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, m nvarchar(max), o ntext, c AS (id + 1))")
    database.capture("t")
    database.run("INSERT INTO t VALUES (1, REPLICATE(N'x', 5000), N'old')", "UPDATE t SET o = N'new'", "DELETE FROM t")
    long = "x" * 5000
    assert database.changes("dbo_t", "m, o, c", 4) == [
        (INSERTED, long, "old", None),
        (BEFORE, None, None, None),
        (AFTER, long, "new", None),
        (DELETED, long, None, None),
    ]


def test_a_range_outside_of_the_validity_interval_is_error_313(database: Database) -> None:
    """cdc.fn_cdc_get_all_changes_<capture_instance>, Remarks."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    database.capture("t")
    database.run("INSERT INTO t VALUES (1)")
    database.changes("dbo_t", "id", 1)
    read = "SELECT [__$operation], id FROM cdc.fn_cdc_get_all_changes_dbo_t({}, {}, N'{}')"
    low, high = "sys.fn_cdc_get_min_lsn('dbo_t')", "sys.fn_cdc_get_max_lsn()"
    assert database.run(read.format(low, high, "all")) == [(INSERTED, 1)]
    beyond = (
        ("0x00000000000000000001", high, "all"),
        (low, f"sys.fn_cdc_increment_lsn({high})", "all"),
        (low, high, "no"),
    )
    for one in beyond:
        assert "An insufficient number of arguments were supplied" in database.refused(read.format(*one))
    assert database.run("SELECT sys.fn_cdc_get_min_lsn('no')") == [(bytes(10),)]


def test_ddl_is_told_and_the_change_table_keeps_its_columns(database: Database) -> None:
    """What is change data capture (CDC)?, "Handling changes to source tables"; cdc.ddl_history."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(5))")
    database.capture("t")
    alterations = (
        "ALTER TABLE t ADD c int",
        "ALTER TABLE t ALTER COLUMN b nvarchar(20)",
        "ALTER TABLE t DROP COLUMN a",
    )
    database.run("INSERT INTO t VALUES (1, 1, 'b')", *alterations)
    database.run("ALTER TABLE t ADD a int", "INSERT INTO t (id, a, b, c) VALUES (2, 7, N'ж' , 7)")
    assert database.changes("dbo_t", "id, a, b", 2) == [(INSERTED, 1, 1, "b"), (INSERTED, 2, None, "ж")]
    told = database.run("SELECT ddl_command, required_column_update FROM cdc.ddl_history ORDER BY ddl_lsn")
    assert told == [
        (alterations[0], False),
        (alterations[1], True),
        (alterations[2], False),
        ("ALTER TABLE t ADD a int", False),
    ]
    database.capture("t", "@capture_instance = N'second'")
    database.run("INSERT INTO t (id, a, b, c) VALUES (3, 8, N'x', 9)")
    assert database.changes("second", "id, b, c, a", 1) == [(INSERTED, 3, "x", 9, 8)]


def test_what_a_captured_table_refuses(database: Database) -> None:
    """TRUNCATE TABLE, Restrictions; sys.sp_cdc_enable_table, Remarks: at most two capture instances."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int)")
    database.capture("t", "@captured_column_list = N'[id]'")
    database.capture("t", "@capture_instance = N'b'", "@supports_net_changes = 0")
    assert "Two capture instances already exist" in database.refused(f"{ENABLE}, @capture_instance = N'c'")
    assert "Cannot truncate table" in database.refused("TRUNCATE TABLE t")
    assert "is 'REPLICATED'" in database.refused("EXEC sp_rename 't.id', 'x', 'COLUMN'")
    database.run("EXEC sp_rename 't', 'u'", "INSERT INTO u VALUES (1, 1)")
    assert database.changes("b", "a", 1) == [(INSERTED, 1)]
    assert "invalid column name" in database.refused("SELECT a FROM cdc.dbo_t_CT").lower()
    database.run("DROP TABLE u")
    assert database.run("SELECT * FROM cdc.change_tables") == []


def test_what_is_committed_is_seen_when_the_job_has_run(database: Database) -> None:
    """sys.sp_cdc_stop_job, sys.sp_cdc_start_job; sys.dm_server_services for the Agent."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    database.capture("t")
    database.run("EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
    ((before,),) = database.run("SELECT sys.fn_cdc_get_max_lsn()")
    database.run("INSERT INTO t VALUES (1)", "WAITFOR DELAY '00:00:00.3'")
    assert database.run("SELECT sys.fn_cdc_get_max_lsn()") == [(before,)]
    assert database.run("SELECT COUNT(*) FROM cdc.dbo_t_CT") == [(0,)]
    database.run("EXEC sys.sp_cdc_start_job")
    assert database.changes("dbo_t", "id", 1) == [(INSERTED, 1)]


def test_cleanup_moves_the_low_end_and_takes_the_rows(database: Database) -> None:
    """sys.sp_cdc_cleanup_change_table; sys.fn_cdc_get_min_lsn."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    database.capture("t")
    for number in (1, 2):
        database.run(f"INSERT INTO t VALUES ({number})")
    second = database.changes("dbo_t", "id, [__$start_lsn]", 2)[1][2]
    database.run(
        f"EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_t', @low_water_mark = 0x{second.hex()}"
    )
    assert database.changes("dbo_t", "id", 1) == [(INSERTED, 2)]
    assert database.run("SELECT sys.fn_cdc_get_min_lsn('dbo_t')") == [(second,)]
    assert "invalid" in database.refused(
        "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_t', @low_water_mark = 0x0000002A000000000001"
    )


def test_sequence_values_need_not_rise_in_a_transaction(database: Database) -> None:
    """A habit that no page promises against: commands order a transaction, sequence values only within one."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int)")
    database.capture("t")
    database.run(
        "EXEC sp_emulator @name = N'habit', @value = N'seqval_disorder'",
        "EXEC sp_emulator @name = N'habit', @value = N'unordered'",
    )
    steps = "; ".join(f"INSERT INTO t VALUES ({n}, {n}); UPDATE t SET a = -1 WHERE id = {n}" for n in range(4))
    database.run(f"BEGIN TRAN; {steps}; COMMIT")
    rows = database.changes("dbo_t", "id, [__$seqval], [__$command_id]", 12)
    assert [(row[0], row[1]) for row in rows] == [(op, n) for n in range(4) for op in (2, 3, 4)]
    assert [row[2] for row in rows] != sorted(row[2] for row in rows)
    assert [row[1] for row in database.run("SELECT [__$operation], id FROM cdc.dbo_t_CT")] != [row[1] for row in rows]


def test_net_changes_have_one_row_for_each_key(database: Database) -> None:
    """cdc.fn_cdc_get_net_changes_<capture_instance>."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    database.capture("t")
    database.run("UPDATE t SET a = 5 WHERE id = 1", "UPDATE t SET a = 6 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    database.run("INSERT INTO t VALUES (3, 1)", "UPDATE t SET a = 7 WHERE id = 3", "INSERT INTO t VALUES (4, 1)")
    database.run("DELETE FROM t WHERE id = 4")
    database.changes("dbo_t", "id", 10)
    between = "sys.fn_cdc_get_min_lsn('dbo_t'), sys.fn_cdc_get_max_lsn()"
    query = f"SELECT [__$operation], id, a FROM cdc.fn_cdc_get_net_changes_dbo_t({between}, N'all') ORDER BY id"
    assert database.run(query) == [(AFTER, 1, 6), (DELETED, 2, 2), (INSERTED, 3, 7)]


@pytest.mark.parametrize("net", [0, 1])
def test_net_changes_need_a_key(database: Database, net: int) -> None:
    """sys.sp_cdc_enable_table, @supports_net_changes."""
    database.run("CREATE TABLE t (id int)")
    if net:
        assert "does not have a primary key" in database.refused(f"{ENABLE}, @supports_net_changes = 1")
    else:
        database.capture("t", "@supports_net_changes = 0")


def test_a_database_without_it_says_how_to_report_on_it(database: Database) -> None:
    """sys.sp_cdc_disable_db; sys.databases, is_cdc_enabled."""
    database.run("CREATE TABLE t (id int PRIMARY KEY)")
    database.capture("t")
    database.run("EXEC sys.sp_cdc_disable_db")
    assert database.run("SELECT is_cdc_enabled FROM sys.databases WHERE database_id = DB_ID()") == [(False,)]
    assert "is not enabled for Change Data Capture" in database.refused(ENABLE)
    database.run("EXEC sys.sp_cdc_enable_db")
    database.capture("t")
    database.run("INSERT INTO t VALUES (1)")
    assert database.changes("dbo_t", "id", 1) == [(INSERTED, 1)]


def test_an_instance_that_was_not_made_leaves_its_session_without_transaction(
    database: Database, session: Callable[..., Database]
) -> None:
    """sys.sp_cdc_enable_table is one transaction, which it begins where none is open."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t VALUES (1, 1)")
    other = session()
    other.run("BEGIN TRAN; UPDATE t SET a = 2")
    database.run("SET LOCK_TIMEOUT 100")
    assert "Lock request time out" in database.refused(ENABLE)
    assert database.run("SELECT COUNT(*) FROM cdc.change_tables") == [(0,)]
    other.run("ROLLBACK")
    database.run(ENABLE)
    assert other.run("SELECT COUNT(*) FROM cdc.captured_columns") == [(2,)]


def commit_once_waited_for(database: Database, other: Database, run: Callable[[], object]) -> None:
    """What `run` does in the database waits for the other session, which then commits."""
    waiting = threading.Thread(target=run)
    waiting.start()
    with closing(psycopg2.connect(**database.server.postgres.address | {"dbname": database.name})) as watching:
        watching.autocommit = True

        def waits() -> bool:
            with watching.cursor() as cursor:
                cursor.execute("SELECT FROM pg_locks WHERE NOT granted AND mode = 'ShareRowExclusiveLock'")
                return bool(cursor.fetchall())

        until(waits)
    other.run("COMMIT")
    waiting.join()


def test_a_table_that_is_altered_while_it_is_waited_for_is_captured_as_it_is_then(
    database: Database, session: Callable[..., Database]
) -> None:
    """The change table had the column's former type, and the capture job ended at each scan."""
    database.run("CREATE TABLE t (id int PRIMARY KEY, a decimal(9, 2))")
    other = session()
    other.run("BEGIN TRAN; ALTER TABLE t DROP COLUMN a; ALTER TABLE t ADD a varbinary(9)")
    commit_once_waited_for(database, other, lambda: database.run(ENABLE))
    database.run("INSERT INTO t VALUES (1, 0xFF)")
    assert database.changes("dbo_t", "id, a", 1) == [(INSERTED, 1, b"\xff")]


@pytest.mark.parametrize("enable", [ENABLE, "ALTER TABLE t ENABLE CHANGE_TRACKING"])
def test_a_table_whose_name_goes_to_another_while_it_is_waited_for_is_not_made_known_by_it(
    database: Database, session: Callable[..., Database], enable: str
) -> None:
    """A name means the table that has it once it is locked."""
    database.run("ALTER DATABASE CURRENT SET CHANGE_TRACKING = ON", "CREATE TABLE t (id int PRIMARY KEY)")
    other = session()
    other.run("BEGIN TRAN; DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, a int)")
    refused: list[str] = []
    commit_once_waited_for(database, other, lambda: refused.append(database.refused(enable)))
    assert "Invalid object name 'dbo.t'" in refused[0]
    database.run(enable)
    database.run("INSERT INTO t VALUES (1, 2)")
    if "CHANGE_TRACKING" in enable:
        assert database.run("SELECT id FROM CHANGETABLE(CHANGES t, 0) AS c") == [(1,)]
    else:
        assert database.changes("dbo_t", "id, a", 1) == [(INSERTED, 1, 2)]
