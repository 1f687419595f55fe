"""The largest resident set of the process that captures (Linux: VmHWM), with Python, Arrow and all.

One transaction of a million rows of 1 KiB, and one row with a blob of 64 MiB; both are written before they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.data.orders_table import DATABASE
from benchmarks.data.sources import MariaDBSource, PostgresSource, Source
from benchmarks.logs import postgres_slots
from benchmarks.logs.capture_side import Log, begin, captured
from benchmarks.logs.log_reading import peak_bytes
from benchmarks.report import Row
from replicator.model.identifiers import TableId

GOAL = 600 * 2**20  # issue D's table
BLOB = 64 * 2**20
TABLE = "wide"

# {n}: rows or bytes.
MARIADB = {
    "table": ("CREATE DATABASE IF NOT EXISTS {database}", "DROP TABLE IF EXISTS {table}",
              "CREATE TABLE {table} (id BIGINT NOT NULL PRIMARY KEY, content LONGBLOB NOT NULL)"),
    "rows": "INSERT INTO {table} SELECT seq, REPEAT(MD5(seq), 32) FROM seq_1_to_{n}",
    "blob": "INSERT INTO {table} VALUES (1, REPEAT(RANDOM_BYTES(1024), {n} DIV 1024))",
}  # fmt: skip
POSTGRES = {
    "table": ("CREATE SCHEMA IF NOT EXISTS {database}", "DROP TABLE IF EXISTS {table}",
              "CREATE TABLE {table} (id bigint PRIMARY KEY, content bytea NOT NULL)"),
    "rows": "INSERT INTO {table} SELECT i, repeat(md5(i::text), 32)::bytea FROM generate_series(1, {n}) AS i",
    "blob": "INSERT INTO {table} VALUES (1, decode(repeat(md5(random()::text), {n} / 16), 'hex'))",
}  # fmt: skip


def of_rows(source: Source, rows: int, folder: Path) -> list[Row]:
    return measure(source, "rows", rows, rows, f"one transaction of {rows:,} rows of 1 KiB", folder)


def of_blob(source: Source, folder: Path) -> list[Row]:
    return measure(source, "blob", BLOB, 1, "one blob of 64 MiB", folder)


def measure(source: Source, what: str, n: int, rows: int, words: str, folder: Path) -> list[Row]:
    begun: Callable[..., Any] = mariadb if isinstance(source, MariaDBSource) else postgres
    with begun(source, what, n, folder) as log, captured(log, rows) as reader:
        reader.stamps(rows)
        peak = peak_bytes(reader.pid)
    name = f"memory of capture, {source.kind}: {words}"
    return [Row(name, peak / 2**20, None, f"≤ {GOAL / 2**20:.0f} MiB", peak <= GOAL, "MiB")]


@contextmanager
def mariadb(source: MariaDBSource, what: str, n: int, folder: Path) -> Iterator[Log]:
    with closing(source.connect("mysql")) as connection, connection.cursor() as cursor:
        connection.autocommit(value=True)
        make(cursor, MARIADB)
        cursor.execute("FLUSH BINARY LOGS")
        log = begin(source.kind, source.config, TableId(DATABASE, TABLE), folder)
        cursor.execute(MARIADB[what].format(table=f"{DATABASE}.{TABLE}", n=n))
        yield log


@contextmanager
def postgres(source: PostgresSource, what: str, n: int, folder: Path) -> Iterator[Log]:
    with postgres_slots.connected(source, folder) as server:
        make(server.cursor, POSTGRES)
        postgres_slots.publish(server, f"{DATABASE}.{TABLE}")
        log = begin(source.kind, server.config, TableId(DATABASE, TABLE), folder)
        server.cursor.execute(POSTGRES[what].format(table=f"{DATABASE}.{TABLE}", n=n))
        yield log


def make(cursor: Any, texts: dict[str, Any]) -> None:
    """The empty table."""
    for statement in texts["table"]:
        cursor.execute(statement.format(database=DATABASE, table=f"{DATABASE}.{TABLE}"))
