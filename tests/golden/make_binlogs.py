"""Writes the small binary logs in tests/golden/binlog: `python -m tests.golden.make_binlogs`.

They are the corpus of the mutation tests, and golden files: what is read from them must stay what it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.golden.mysql_log import mysql_log
from webapp.embedded.mariadb import EmbeddedMariaDB

FOLDER = Path(__file__).parent / "binlog"

TYPES = """
CREATE TABLE types (id int PRIMARY KEY, t1 tinyint, t1u tinyint unsigned, t2 smallint, t3 mediumint,
 t3u mediumint unsigned,
 t4u int unsigned, t8 bigint, t8u bigint unsigned, d1 decimal(1,0), d2 decimal(10,2), d3 decimal(38,30),
 d4 decimal(65,30),
 d5 decimal(9,9), f float, do double, b1 bit(1), b5 bit(5), b64 bit(64), y year, da date, dt datetime, dt3 datetime(3),
 dt6 datetime(6), ts timestamp NULL, ts1 timestamp(1) NULL, ts6 timestamp(6) NULL, ti time, ti3 time(3), ti6 time(6),
 c char(10), c255 char(255), vc varchar(20), vc400 varchar(400), l1 varchar(30) CHARACTER SET latin1,
 u2 varchar(9) CHARACTER SET ucs2, u16 varchar(9) CHARACTER SET utf16, sj varchar(9) CHARACTER SET sjis, bn binary(7),
 vb varbinary(20), tb tinyblob, mb mediumblob, tx text, js json, e enum('a','b''c','é'), s set('a','b','é'), g geometry,
 uu uuid, i4 inet4, i6 inet6, vcc varchar(1000) COMPRESSED, blc mediumblob COMPRESSED, gen int AS (t1 + 1) VIRTUAL)
"""
INSERTED = """
INSERT INTO types (id, t1, t1u, t2, t3, t3u, t4u, t8, t8u, d1, d2, d3, d4, d5, f, do, b1, b5, b64, y, da, dt,
 dt3, dt6, ts, ts1,
 ts6, ti, ti3, ti6, c, c255, vc, vc400, l1, u2, u16, sj, bn, vb, tb, mb, tx, js, e, s, g, uu, i4, i6, vcc, blc) VALUES
 (1, -128, 255, -32768, -8388608, 16777215, 4294967295, -9223372036854775808, 18446744073709551615, -9, -12345678.91,
 12345678.123456789012345678901234567890, -12345678901234567890123456789012345.123456789012345678901234567890,
 0.123456789,
 1.5, -2.25e300, 1, 21, 18446744073709551615, 2155, '9999-12-31', '1000-01-01 00:00:00', '2024-02-29 23:59:59.999',
 '1970-01-01 00:00:00.000001', '1970-01-02 00:00:01', '2037-12-31 23:59:59.9', '2000-01-01 12:00:00.654321',
 '-838:59:59',
 '-00:00:00.250', '838:59:58.999999', 'char', 'é中😀', 'varchar', REPEAT('x', 300), 'é€ÿ', 'é中', '中😀', '表あ',
 X'0100',
 X'00FF00', X'00', X'0102', 'text', '{"b": 1, "a": [1.50, null]}', 'b''c', 'a,é', ST_GeomFromText('POINT(1 2)', 4326),
 '6ccd780c-baba-1026-9564-5b8c656024db', '10.0.0.1', '2001:db8::ff00:42:8329', REPEAT('compressed ', 20),
 REPEAT('z', 200)),
 (2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10.11, 1.2, 3.4, 0, 0, 0, 0, 0, 0, 0, '2024-01-01', '2024-01-01', '2024-01-01',
 '2024-01-01',
 '2024-01-01', '2024-01-01', '2024-01-01', '00:00:00', '00:00:00', '00:00:00', '', '', '', '', '', '', '', '',
 '', '', '', '', '',
 '[]', 'a', '', ST_GeomFromText('POINT(0 0)'), '00000000-0000-0000-0000-000000000000', '0.0.0.0', '::', '', '')
"""


def _types() -> Iterable[str]:
    """Every type: insert, update, delete, NULLs."""
    yield TYPES
    yield INSERTED
    yield "INSERT INTO types (id) VALUES (3)"
    yield "UPDATE types SET t1 = NULL, vc = 'changed' WHERE id < 3"
    yield "DELETE FROM types WHERE id = 2"


def _life() -> Iterable[str]:
    """Transactions, savepoints, DDL in the middle, a table without key, several rows in an event."""
    yield "CREATE TABLE a (id int PRIMARY KEY, name varchar(50) NOT NULL DEFAULT '')"
    yield "CREATE TABLE b (x int, y varchar(20))"
    yield "INSERT INTO a VALUES (1, 'one'), (2, 'two'), (3, 'three')"
    yield "BEGIN"
    yield "INSERT INTO b VALUES (1, 'x'), (1, 'x')"
    yield "UPDATE a SET id = id + 10"
    yield "SAVEPOINT s"
    yield "DELETE FROM b LIMIT 1"
    yield "ROLLBACK TO s"
    yield "COMMIT"
    yield "ALTER TABLE a ADD COLUMN more decimal(20,5), RENAME COLUMN name TO title"
    yield "INSERT INTO a VALUES (4, 'four', 4.5)"
    yield "RENAME TABLE b TO c, a TO b, c TO a"
    yield "INSERT INTO a VALUES (7, NULL)"
    yield "TRUNCATE TABLE a"
    yield "DROP TABLE b"
    yield "XA START 'one'"
    yield "INSERT INTO a VALUES (8, 'xa')"
    yield "XA END 'one'"
    yield "XA PREPARE 'one'"
    yield "XA COMMIT 'one'"


def _few() -> Iterable[str]:
    yield "CREATE TABLE a (id int PRIMARY KEY, name varchar(500), d datetime(3))"
    yield f"INSERT INTO a VALUES (1, '{'one ' * 100}', '2024-02-29 12:34:56.789'), (2, '{'two ' * 100}', NULL)"
    yield "UPDATE a SET name = REVERSE(name)"
    yield "DELETE FROM a WHERE id = 1"


# name → server settings, statements
LOGS: dict[str, tuple[dict[str, Any], Callable[[], Iterable[str]]]] = {
    "mariadb-types": ({}, _types),
    "mariadb-life": ({}, _life),
    "mariadb-compressed": ({"log_bin_compress": 1, "log_bin_compress_min_len": 10}, _few),
    "mariadb-no-checksum": ({"binlog_checksum": "NONE"}, _few),
    "mariadb-no-metadata": ({"binlog_row_metadata": "NO_LOG"}, _few),
}


def main() -> None:
    """Each log is one file of a fresh server."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "mysql-made").write_bytes(mysql_log())
    (FOLDER / "mysql-made-no-checksum").write_bytes(mysql_log(checksum=False))
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedMariaDB(Path(folder) / "mariadb")
        server.start()
        try:
            for name, (settings, statements) in LOGS.items():
                _write(server, name, settings, statements())
        finally:
            server.stop()


def _write(server: EmbeddedMariaDB, name: str, settings: dict[str, Any], statements: Iterable[str]) -> None:
    with server.connect() as control, control.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS shop")
        for setting, value in settings.items():
            cursor.execute(f"SET GLOBAL {setting} = {value!r}")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        file = str((cursor.fetchone() or ("",))[0])
    with server.connect(database="shop") as session, session.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("DROP DATABASE shop")
        for setting in settings:
            cursor.execute(f"SET GLOBAL {setting} = DEFAULT")
        cursor.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    (FOLDER / name).write_bytes((server.folder / "data" / file).read_bytes())


if __name__ == "__main__":
    main()
