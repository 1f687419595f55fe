"""The table that is copied: ten columns of types that a shop has, some 120 bytes a row, filled by the server itself."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from benchmarks.data.sources import Source
from benchmarks.data.writer import Transactions

DATABASE, TABLE = "bench_snapshot", "purchases"

_MARIADB = (
    f"CREATE OR REPLACE DATABASE {DATABASE}",
    f"USE {DATABASE}",
    f"""
    CREATE TABLE {TABLE} (
      id BIGINT NOT NULL PRIMARY KEY, customer INT NOT NULL, status VARCHAR(10) NOT NULL, quantity SMALLINT,
      amount DECIMAL(12, 2) NOT NULL, weight DOUBLE, ordered DATETIME(6) NOT NULL, due DATE,
      email VARCHAR(80) NOT NULL, note VARCHAR(200))
    """,
    # Not as a SELECT of the whole: the log would have a transaction of gigabytes.
    "SET SESSION sql_log_bin = 0",
)
_MARIADB_FILL = f"""
    INSERT INTO {TABLE}
    SELECT seq, seq % 100003, ELT(1 + seq % 3, 'new', 'paid', 'shipped'), IF(seq % 7 = 0, NULL, seq % 50),
      seq % 1000000 / 100,
      seq / 3, '2026-01-01' + INTERVAL seq SECOND + INTERVAL seq % 1000000 MICROSECOND,
        '2026-01-01' + INTERVAL seq % 365 DAY,
      CONCAT('customer.', seq, '@example.org'),
      IF(seq % 9 = 0, NULL, CONCAT('Left at the neighbour\\'s, Straße ', seq % 1000, ', ', LEFT(MD5(seq), 8)))
    FROM seq_1_to_{{rows}}
"""
_POSTGRES = (
    f"DROP SCHEMA IF EXISTS {DATABASE} CASCADE",
    f"CREATE SCHEMA {DATABASE}",
    f"SET search_path = {DATABASE}",
    f"""
    CREATE TABLE {TABLE} (
      id bigint PRIMARY KEY, customer int NOT NULL, status varchar(10) NOT NULL, quantity smallint,
      amount numeric(12, 2) NOT NULL, weight double precision, ordered timestamp NOT NULL, due date,
      email varchar(80) NOT NULL, note varchar(200))
    """,
)
_POSTGRES_FILL = f"""
    INSERT INTO {TABLE}
    SELECT i, i % 100003, (ARRAY['new', 'paid', 'shipped'])[1 + i % 3], nullif(i % 50, 0),
      (i % 1000000)::numeric / 100, i / 3.0,
      '2026-01-01'::timestamp + i * interval '1.000001 s', '2026-01-01'::date + (i % 365)::int,
        'customer.' || i || '@example.org',
      CASE WHEN i % 9 > 0 THEN 'Left at the neighbour''s, Straße ' || i % 1000 || ', ' || left(md5(i::text), 8) END
    FROM generate_series(1, {{rows}}) AS i
"""


def make(source: Source, rows: int) -> None:
    """In place of that of an earlier run; keys from 1 to `rows`."""
    statements, fill = (_MARIADB, _MARIADB_FILL) if source.kind == "mysql" else (_POSTGRES, _POSTGRES_FILL)
    with closing(source.connect("mysql" if source.kind == "mysql" else "public")) as connection:
        with connection.cursor() as cursor:
            for statement in (*statements, fill.format(rows=rows)):
                cursor.execute(statement)
        connection.commit()
        if source.kind == "postgres":
            _vacuum(connection)


def _vacuum(connection: Any) -> None:
    """What autovacuum would do at some time or other: neither side reads with hint bits to be written."""
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM (ANALYZE, FREEZE) {DATABASE}.{TABLE}")


def updates(rows: int) -> Transactions:
    """One or two rows anywhere; none comes or goes, so that each side reads exactly `rows` rows.

    Postgres takes no larger products.
    """
    one, other = (
        f"UPDATE {TABLE} SET amount = amount + 1 WHERE id = 1 + ({{r}} * {factor} + {{n}}) % {rows}"
        for factor in (2003, 1999)
    )
    return ((one,), (one, other))
