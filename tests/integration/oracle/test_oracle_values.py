"""Values as Oracle keeps them.  SQL Language Reference 19c: "Data Types", "Nulls", "Data Type Comparison Rules"."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import oracledb

from tests.integration.oracle.conftest import Schema


def test_numbers_are_rounded_to_their_scale_and_refused_beyond_their_precision(schema: Schema) -> None:
    schema.run("CREATE TABLE t (a NUMBER(5, 2), b NUMBER(3, -1), c NUMBER, d FLOAT(10), e INTEGER)")
    with schema.connection.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (123.455, 1234, 123456789012345678901234567890.5, 1234.5678, 2.5)")
        cursor.execute("SELECT a, b, c, d, e FROM t", fetch_decimals=True)
        assert cursor.fetchall() == [
            (Decimal("123.46"), 1230, Decimal("123456789012345678901234567890.5"), Decimal(1235), 3)
        ]
    assert schema.refused("INSERT INTO t (a) VALUES (999.995)") == "ORA-01438"
    assert schema.refused("INSERT INTO t (a) VALUES ('x')") == "ORA-01722"
    assert schema.one("SELECT TO_CHAR(0.5) || TO_CHAR(-0.25) || TO_CHAR(100) FROM dual") == ".5-.25100"


def test_rows_that_were_there_get_the_default_of_a_new_column_in_its_form(schema: Schema) -> None:
    schema.run("CREATE TABLE t (id NUMBER)")
    schema.run("INSERT INTO t VALUES (1)")
    schema.run("ALTER TABLE t ADD (a TIMESTAMP(3) DEFAULT TIMESTAMP '2024-01-01 00:00:00.123456789')")
    schema.run("ALTER TABLE t ADD (b NUMBER(9, 2) DEFAULT 1.239, c CHAR(3) DEFAULT 'a')")
    schema.run("INSERT INTO t (id) VALUES (2)")
    told = "SELECT DISTINCT TO_CHAR(a, 'SS.FF9'), TO_CHAR(b), c || '.' FROM t"
    assert schema.run(told) == [("00.123000000", "1.24", "a  .")]


def test_an_empty_text_is_null_and_null_concatenated_is_nothing(schema: Schema) -> None:
    schema.run("CREATE TABLE t (v VARCHAR2(10), n VARCHAR2(10) NOT NULL)")
    schema.run("INSERT INTO t VALUES ('', 'x')")
    schema.run("INSERT INTO t VALUES (:1, 'y')", "")
    assert schema.one("SELECT COUNT(*) FROM t WHERE v IS NULL") == 2
    assert schema.refused("INSERT INTO t VALUES ('x', '')") == "ORA-01400"
    assert schema.run("SELECT v || '-' || n FROM t ORDER BY n") == [("-x",), ("-y",)]


def test_char_is_padded_and_compared_without_its_blanks_with_literals_alone(schema: Schema) -> None:
    schema.run("CREATE TABLE t (c CHAR(5), v VARCHAR2(5))")
    schema.run("INSERT INTO t VALUES ('ab', 'ab')")
    assert schema.run("SELECT c, LENGTH(c) FROM t WHERE c = 'ab'") == [("ab   ", 5)]
    assert schema.run("SELECT c FROM t WHERE c = v") == []


def test_lengths_are_counted_in_bytes_or_characters(schema: Schema) -> None:
    schema.run("CREATE TABLE t (b VARCHAR2(3 BYTE), c VARCHAR2(3 CHAR), r RAW(2))")
    assert schema.run("INSERT INTO t (c) VALUES ('ééé')") == 1
    assert schema.refused("INSERT INTO t (b) VALUES ('éé')") == "ORA-12899"
    assert schema.refused("INSERT INTO t (r) VALUES (HEXTORAW('010203'))") == "ORA-12899"


def test_datetimes_keep_nanoseconds_and_zones(schema: Schema) -> None:
    schema.run(
        "CREATE TABLE t (d DATE, s TIMESTAMP(9), m TIMESTAMP(3), z TIMESTAMP(9) WITH TIME ZONE,"
        " l TIMESTAMP WITH LOCAL TIME ZONE)"
    )
    schema.run("ALTER SESSION SET TIME_ZONE = '+02:00'")
    schema.run(
        "INSERT INTO t VALUES (DATE '2024-02-29', TIMESTAMP '2024-01-02 03:04:05.123456789',"
        " TIMESTAMP '2024-12-31 23:59:59.9996', TIMESTAMP '2024-01-02 03:04:05.5 +05:30',"
        " TIMESTAMP '2024-01-02 03:04:05')"
    )
    text = "TO_CHAR({}, 'YYYY-MM-DD HH24:MI:SS.FF9{}')"
    shown = schema.one(f"SELECT {text.format('s', '')}, {text.format('m', '')}, {text.format('z', ' TZH:TZM')} FROM t")
    assert shown == (
        "2024-01-02 03:04:05.123456789", "2025-01-01 00:00:00.000000000", "2024-01-02 03:04:05.500000000 +05:30",
    )  # fmt: skip
    schema.run("ALTER SESSION SET TIME_ZONE = '-01:00'")
    assert schema.one("SELECT l FROM t").isoformat() == "2024-01-02T00:04:05"
    assert schema.one("SELECT COUNT(*) FROM t WHERE z = TIMESTAMP '2024-01-01 21:34:05.5 +00:00'") == 1
    assert schema.one("SELECT d + 1 FROM t").isoformat() == "2024-03-01T00:00:00"


def test_intervals_raws_floats_and_rowids(schema: Schema) -> None:
    schema.run("CREATE TABLE t (y INTERVAL YEAR(3) TO MONTH, d INTERVAL DAY TO SECOND(3), r RAW(4), b BINARY_DOUBLE)")
    schema.run(
        "INSERT INTO t VALUES (INTERVAL '-100-2' YEAR(3) TO MONTH, INTERVAL '-1 02:03:04.5678' DAY TO SECOND,"
        " HEXTORAW('00ff'), 1e300d)"
    )
    assert schema.one("SELECT y, d, r, b FROM t") == (
        oracledb.IntervalYM(-100, -2), -timedelta(days=1, hours=2, minutes=3, seconds=4.568), b"\0\xff", 1e300,
    )  # fmt: skip
    assert schema.one("SELECT TO_CHAR(y), TO_CHAR(d) FROM t") == ("-100-02", "-01 02:03:04.568")
    row_id = schema.one("SELECT ROWID FROM t")
    assert len(row_id) == 18
    assert schema.run(f"SELECT b FROM t WHERE ROWID = '{row_id}'") == [(1e300,)]
    assert schema.refused("UPDATE t SET d = INTERVAL '100' DAY(3)") == "ORA-01873"
