"""V$LOGMNR_CONTENTS.  Utilities 19c, "Using LogMiner to Analyze Redo Log Files"; Database Reference 19c,
"V$LOGMNR_CONTENTS"; PL/SQL Packages and Types Reference 19c, "DBMS_LOGMNR".
"""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import Any

import pytest

from tests.integration.oracle.conftest import Schema


@pytest.fixture
def table(schema: Schema) -> Schema:
    schema.run("CREATE TABLE t (id NUMBER(9) PRIMARY KEY, v VARCHAR2(20), n NUMBER)")
    return schema


def _administer(schema: Schema, *statements: str) -> None:
    with closing(schema.server.connect()) as session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_a_transaction_begins_and_ends_and_its_rows_name_it(table: Schema) -> None:
    first = table.scn()
    table.run("INSERT INTO t VALUES (1, 'it''s', NULL)")
    table.run("UPDATE t SET n = -0.5")
    table.run("DELETE FROM t")
    table.connection.commit()
    rows = table.mined(first)
    assert [row["OPERATION_CODE"] for row in rows] == [6, 1, 3, 2, 7]
    assert len({row["XID"] for row in rows}) == len({row["COMMIT_SCN"] for row in rows}) == 1
    assert [row["SCN"] for row in rows] == sorted(row["SCN"] for row in rows)
    row_id, name = rows[1]["ROW_ID"], f'"{table.name}"."T"'
    assert [row["SQL_REDO"] for row in rows] == [
        "set transaction read write;",
        f"""insert into {name}("ID","V","N") values ('1','it''s',NULL);""",
        f"""update {name} set "N" = '-.5' where "N" IS NULL and ROWID = '{row_id}';""",
        f"""delete from {name} where "ID" = '1' and "V" = 'it''s' and "N" = '-.5' and ROWID = '{row_id}';""",
        "commit;",
    ]
    assert rows[3]["SQL_UNDO"] == f"""insert into {name}("ID","V","N") values ('1','it''s','-.5');"""


def test_supplemental_logging_decides_what_an_update_shows_of_the_old_row(table: Schema) -> None:
    table.run("INSERT INTO t VALUES (1, 'a', 5)")
    shown = {}
    for kind in ("PRIMARY KEY", "ALL"):
        table.run(f"ALTER TABLE t ADD SUPPLEMENTAL LOG DATA ({kind}) COLUMNS")
        first = table.scn()
        table.run("UPDATE t SET v = v || 'b'")
        table.connection.commit()
        shown[kind] = table.changes(first, extra=" + DBMS_LOGMNR.NO_ROWID_IN_STMT + DBMS_LOGMNR.NO_SQL_DELIMITER")
        table.run(f"ALTER TABLE t DROP SUPPLEMENTAL LOG DATA ({kind}) COLUMNS")
    assert shown == {
        "PRIMARY KEY": [f"""update "{table.name}"."T" set "V" = 'ab' where "ID" = '1' and "V" = 'a'"""],
        "ALL": [f"""update "{table.name}"."T" set "V" = 'abb' where "ID" = '1' and "V" = 'ab' and "N" = '5'"""],
    }


def test_values_are_written_as_strings_in_the_sessions_formats(schema: Schema) -> None:
    schema.run(
        "CREATE TABLE t (d DATE, s TIMESTAMP(6), z TIMESTAMP(3) WITH TIME ZONE, y INTERVAL YEAR TO MONTH,"
        " i INTERVAL DAY TO SECOND(2), r RAW(4), n NVARCHAR2(10), f BINARY_FLOAT, c CHAR(3), b NUMBER)"
    )
    schema.run(
        "ALTER SESSION SET NLS_DATE_FORMAT = 'SYYYY-MM-DD HH24:MI:SS' NLS_TIMESTAMP_FORMAT ="
        " 'SYYYY-MM-DD HH24:MI:SS.FF9' NLS_TIMESTAMP_TZ_FORMAT = 'SYYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM'"
    )
    first = schema.scn()
    schema.run(
        "INSERT INTO t VALUES (DATE '2024-01-02', TIMESTAMP '2024-01-02 03:04:05.6', TIMESTAMP '2024-01-02 03:04:05.6"
        " -03:30', INTERVAL '1-2' YEAR TO MONTH, INTERVAL '-1 02:03:04.5' DAY TO SECOND, HEXTORAW('0aff'), N'é\\',"
        " 1.5f, 'a', 1e50)"
    )
    schema.connection.commit()
    (redo,) = schema.changes(first)
    assert redo.partition(" values ")[2] == (
        "(TO_DATE(' 2024-01-02 00:00:00', 'SYYYY-MM-DD HH24:MI:SS'),TO_TIMESTAMP(' 2024-01-02 03:04:05.600000000'),"
        "TO_TIMESTAMP_TZ(' 2024-01-02 03:04:05.600000000 -03:30'),TO_YMINTERVAL('+01-02'),"
        "TO_DSINTERVAL('-01 02:03:04.50'),HEXTORAW('0aff'),UNISTR('\\00E9\\\\'),'1.5E+000','a  ',"
        "'1.0000000000000000000000000000000000E+50');"
    )


def test_a_rollback_to_a_savepoint_writes_compensations(table: Schema) -> None:
    """ROLLBACK is 1 on them, and they find their row by ROWID alone."""
    first = table.scn()
    table.run("INSERT INTO t VALUES (1, 'a', 1)")
    table.run("SAVEPOINT s")
    table.run("UPDATE t SET v = 'b'")
    table.run("INSERT INTO t VALUES (2, 'b', 2)")
    table.run("ROLLBACK TO s")
    table.connection.commit()
    rows = table.mined(first)
    name, ids = f'"{table.name}"."T"', [row["ROW_ID"] for row in rows]
    assert [(row["OPERATION"], row["ROLLBACK"]) for row in rows] == [
        ("START", 0), ("INSERT", 0), ("UPDATE", 0), ("INSERT", 0), ("DELETE", 1), ("UPDATE", 1), ("COMMIT", 0),
    ]  # fmt: skip
    assert rows[4]["SQL_REDO"] == f"delete from {name} where ROWID = '{ids[3]}';"
    assert rows[5]["SQL_REDO"] == f"""update {name} set "V" = 'a' where ROWID = '{ids[1]}';"""


def test_rolled_back_and_open_transactions_are_left_out_of_committed_data_alone(table: Schema) -> None:
    first = table.scn()
    table.run("INSERT INTO t VALUES (1, 'a', 1)")
    table.connection.rollback()
    table.run("INSERT INTO t VALUES (2, 'b', 2)")
    assert table.mined(first) == []
    assert [row["OPERATION"] for row in table.mined(first, committed=False)] == [
        "START", "INSERT", "DELETE", "ROLLBACK", "START", "INSERT",
    ]  # fmt: skip
    assert table.one("SELECT MIN(start_scn) FROM v$transaction") > first


def test_transactions_come_in_the_order_of_their_commits(table: Schema) -> None:
    other, first = Schema(table.server, table.name), table.scn()
    table.run("INSERT INTO t VALUES (1, 'a', 1)")
    other.run("INSERT INTO t VALUES (2, 'b', 2)")
    other.connection.commit()
    table.connection.commit()
    assert [redo.partition("values ")[2] for redo in table.changes(first)] == ["('2','b','2');", "('1','a','1');"]
    assert [redo.partition("values ")[2] for redo in table.changes(first, committed=False)] == [
        "('1','a','1');", "('2','b','2');",
    ]  # fmt: skip
    other.connection.close()


def test_a_row_from_before_a_definition_is_shown_in_hexadecimal(table: Schema) -> None:
    """The online catalog knows the newest columns alone; of a dropped table it knows nothing."""
    first = table.scn()
    table.run("INSERT INTO t VALUES (1, 'a', NULL)")
    table.run("ALTER TABLE t ADD (more NUMBER)")
    (before,) = [row for row in table.mined(first) if row["OPERATION"] == "INSERT"]
    values = """("COL 1","COL 2","COL 3") values (HEXTORAW('c102'),HEXTORAW('61'),NULL);"""
    assert before["SQL_REDO"] == f'insert into "{table.name}"."T"{values}'
    assert before["STATUS"] == 2
    table.run("DROP TABLE t PURGE")
    (gone,) = [row for row in table.mined(first) if row["OPERATION"] == "INSERT"]
    assert gone["SQL_REDO"] == f'insert into "UNKNOWN"."OBJ# {gone["DATA_OBJ#"]}"{values}'
    assert [row["SQL_REDO"] for row in table.mined(first) if row["OPERATION"] == "DDL"] == [
        "ALTER TABLE t ADD (more NUMBER);", "DROP TABLE t PURGE;",
    ]  # fmt: skip


def test_a_long_statement_takes_several_rows(schema: Schema) -> None:
    """CSF is 1 on all but the last; SCN, RS_ID and SSN are equal."""
    schema.run("CREATE TABLE t (a VARCHAR2(4000), b VARCHAR2(4000))")
    first = schema.scn()
    schema.run("INSERT INTO t VALUES (:1, :2)", "é" * 2000, "x" * 4000)
    schema.connection.commit()
    rows = [row for row in schema.mined(first) if row["OPERATION"] == "INSERT"]
    assert [row["CSF"] for row in rows] == [1, 1, 0]
    assert len({(row["SCN"], row["RS_ID"], row["SSN"]) for row in rows}) == 1
    whole = "".join(row["SQL_REDO"] for row in rows)
    assert whole == f"""insert into "{schema.name}"."T"("A","B") values ('{"é" * 2000}','{"x" * 4000}');"""


def test_a_large_object_is_logged_beside_its_row_in_the_form_of_that_row(schema: Schema) -> None:
    schema.run("CREATE TABLE t (id NUMBER, c CLOB)")
    first = schema.scn()
    schema.run("INSERT INTO t SELECT LEVEL, 'it''s' FROM dual CONNECT BY LEVEL <= 4")
    schema.connection.commit()
    rows = schema.mined(first)[1:-1]
    by_form = {
        tuple(row["OPERATION_CODE"] for row in some): [row["SQL_REDO"] for row in some] for some in _by_row(rows)
    }
    assert set(by_form) == {(1, 9, 10), (10, 1), (1,), (1, 10)}
    assert by_form[1, 9, 10][0].endswith("EMPTY_CLOB());")
    assert ' into loc_c from "' in by_form[1, 9, 10][1]
    assert "buf_c := 'it''s'" in by_form[1, 9, 10][2]
    assert by_form[10, 1][1].endswith("NULL);")
    assert by_form[1,][0].endswith("'it''s');")
    assert ' into loc_c from "' in by_form[1, 10][1]


def _by_row(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [list(some) for _, some in itertools.groupby(rows, key=lambda row: row["ROW_ID"])]


def test_logs_are_switched_archived_and_missed(table: Schema) -> None:
    first = table.scn()
    table.run("INSERT INTO t VALUES (1, 'a', 1)")
    table.connection.commit()
    _administer(table, *["ALTER SYSTEM SWITCH LOGFILE"] * 4)
    name, status, low, high = table.run(
        "SELECT name, status, first_change#, next_change# FROM v$archived_log"
        f" WHERE first_change# <= {first} AND next_change# > {first}"
    )[0]  # fmt: skip
    assert (status, low <= first < high) == ("A", True)
    assert len(table.run("SELECT * FROM v$log")) == 3
    begin = f"BEGIN DBMS_LOGMNR.ADD_LOGFILE('{name}', DBMS_LOGMNR.NEW); END;"
    start = f"BEGIN DBMS_LOGMNR.START_LOGMNR(STARTSCN => {first}, ENDSCN => {{}}, OPTIONS => 16); END;"
    table.run(begin)
    assert table.refused("SELECT * FROM v$logmnr_contents") == "ORA-01306"
    assert table.refused(start.format(high + 100)) == "ORA-01291"
    table.run(start.format(high - 1))
    assert table.run("SELECT sql_redo FROM v$logmnr_contents WHERE operation = 'INSERT' AND username = :1", table.name)
    table.server.delete_archived(recorded=False)
    assert table.refused("SELECT * FROM v$logmnr_contents") == "ORA-00308"
    assert table.refused(begin) == "ORA-01284"
    assert table.refused("BEGIN DBMS_LOGMNR.END_LOGMNR; END;") == "ORA-01307"
    assert table.refused(start.format(0)) == "ORA-01292"
    assert table.refused("BEGIN DBMS_LOGMNR.START_LOGMNR(OPTIONS => 1024); END;") == "ORA-44609"
