"""The table whose log is read, and the procedure that writes it: types that a shop has, some 150 bytes a row.

Of ten statements six insert, three update what the one before inserted, and one deletes; each changes `per` rows, and
`together` of them are a transaction.  So `statements` of them are `statements * per` rows in the log.
"""

from __future__ import annotations

from typing import Any

DATABASE, TABLE = "bench_log", "orders"
STATEMENTS = 10  # whole rounds only
MOST = 1000  # rows of a statement

MARIADB = (
    f"CREATE DATABASE IF NOT EXISTS {DATABASE}",
    f"USE {DATABASE}",
    f"DROP TABLE IF EXISTS {TABLE}",
    f"""
    CREATE TABLE {TABLE} (
      id BIGINT UNSIGNED NOT NULL PRIMARY KEY, customer INT NOT NULL, status ENUM('new', 'paid', 'shipped',
        'closed') NOT NULL,
      quantity SMALLINT, amount DECIMAL(12, 2) NOT NULL, weight DOUBLE, gift TINYINT(1) NOT NULL,
        ordered DATETIME(6) NOT NULL,
      updated TIMESTAMP NULL, due DATE, email VARCHAR(80) NOT NULL, note VARCHAR(200), token BINARY(16))
    """,
    "DROP PROCEDURE IF EXISTS fill",
    f"""
    CREATE PROCEDURE fill(statements INT, per INT, together INT)
    BEGIN
      DECLARE s BIGINT DEFAULT 0;
      WHILE s < statements DO
        IF s % together = 0 THEN START TRANSACTION; END IF;
        CASE
          WHEN s % 10 IN (3, 6, 9) THEN
            UPDATE {TABLE} SET status = 'paid', amount = amount + 1.25, updated = '2026-11-21 12:00:00'
            WHERE id BETWEEN (s - 1) * per AND s * per - 1;
          WHEN s % 10 = 7 THEN DELETE FROM {TABLE} WHERE id BETWEEN (s - 3) * per AND (s - 2) * per - 1;
          ELSE
            INSERT INTO {TABLE}
            SELECT i, i % 100003, 'new', IF(i % 7 = 0, NULL, i % 50), i % 1000000 / 100, i / 3, i % 2,
              '2026-01-01' + INTERVAL i SECOND + INTERVAL i % 1000000 MICROSECOND, IF(i % 5 = 0, NULL,
                '2026-11-21 11:00:00'),
              '2026-01-01' + INTERVAL i % 365 DAY, CONCAT('customer.', i, '@example.org'),
              IF(i % 9 = 0, NULL, CONCAT('Left at the neighbour\\'s, Straße ', i % 1000, ',
                ', MD5(i))), UNHEX(MD5(i + 1))
            FROM (SELECT s * per + seq AS i FROM seq_0_to_{MOST - 1} LIMIT per) numbers;
        END CASE;
        SET s = s + 1;
        IF s % together = 0 THEN COMMIT; END IF;
      END WHILE;
      COMMIT;
    END
    """,
)

POSTGRES = (
    f"CREATE SCHEMA IF NOT EXISTS {DATABASE}",
    f"SET search_path = {DATABASE}",
    f"DROP TABLE IF EXISTS {TABLE}",
    f"""
    CREATE TABLE {TABLE} (
      id bigint PRIMARY KEY, customer int NOT NULL, status text NOT NULL, quantity smallint, amount numeric(12,
        2) NOT NULL,
      weight double precision, gift boolean NOT NULL, ordered timestamp NOT NULL, updated timestamptz, due date,
      email varchar(80) NOT NULL, note varchar(200), token bytea)
    """,
    f"""
    CREATE OR REPLACE PROCEDURE fill(statements bigint, per bigint, together bigint) LANGUAGE plpgsql AS $$
    BEGIN
      FOR s IN 0 .. statements - 1 LOOP
        IF s % 10 IN (3, 6, 9) THEN
          UPDATE {TABLE} SET status = 'paid', amount = amount + 1.25, updated = '2026-11-21 12:00:00+00'
          WHERE id BETWEEN (s - 1) * per AND s * per - 1;
        ELSIF s % 10 = 7 THEN
          DELETE FROM {TABLE} WHERE id BETWEEN (s - 3) * per AND (s - 2) * per - 1;
        ELSE
          INSERT INTO {TABLE}
          SELECT i, i % 100003, 'new', nullif(i % 50, 0), (i % 1000000)::numeric / 100, i / 3.0, i % 2 = 0,
            '2026-01-01'::timestamp + i * interval '1.000001 s',
              CASE WHEN i % 5 > 0 THEN '2026-11-21 11:00:00+00'::timestamptz END,
            '2026-01-01'::date + (i % 365)::int, 'customer.' || i || '@example.org',
            CASE WHEN i % 9 > 0 THEN 'Left at the neighbour''s, Straße ' || i % 1000 || ', ' || md5(i::text) END,
            decode(md5((i + 1)::text), 'hex')
          FROM generate_series(s * per, s * per + per - 1) AS i;
        END IF;
        IF (s + 1) % together = 0 THEN COMMIT; END IF;
      END LOOP;
    END $$
    """,
)


def make(cursor: Any, statements: tuple[str, ...]) -> None:
    """The empty table and the procedure, in place of those of an earlier run.  The session is in the database then."""
    for statement in statements:
        cursor.execute(statement)


def fill(cursor: Any, rows: int, per: int, together: int) -> None:
    """Write `rows` rows into the log; the connection is in autocommit mode."""
    if rows % (STATEMENTS * per):
        raise SystemExit(f"--rows is no multiple of {STATEMENTS * per}.")
    cursor.execute("CALL fill(%s, %s, %s)", (rows // per, per, together))
