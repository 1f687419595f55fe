"""The connection test."""

from __future__ import annotations

import sqlite3
from functools import partial

from replicator.errors import TableError
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult
from replicator.sources.shared.check_runner import CheckFinding, Checks, failed, ok, without_tables
from tests.plugins.sqlite_log.catalog import SqliteCatalog
from tests.plugins.sqlite_log.change_log import LOG
from tests.plugins.sqlite_log.config import SqliteConfig
from tests.plugins.sqlite_log.database import connect, translated

_REMEDY = "Call change_log.install(connection) on the file."


def _wal(connection: sqlite3.Connection) -> CheckFinding:
    with translated(LOG):
        [(mode,)] = connection.execute("PRAGMA journal_mode").fetchall()
    return ok("WAL.") if mode == "wal" else failed(f"The journal mode is {mode}.", "PRAGMA journal_mode = WAL;")


def _log(connection: sqlite3.Connection) -> CheckFinding:
    with translated(LOG):
        there = connection.execute(f"SELECT 1 FROM sqlite_master WHERE name = '{LOG}'").fetchone()
    return ok("The file has a log.") if there else failed("The file has no log.", _REMEDY)


def _definitions(connection: sqlite3.Connection, tables: TableSet | None) -> CheckFinding:
    if tables is None:
        return without_tables()
    described = SqliteCatalog(connection, tables).describe(sorted(tables.tables))
    if missing := sorted(tables.tables - described.keys()):
        return failed(f"{missing[0]} does not exist.", "Remove it from the selection.")
    wrong = [one for one in described.values() if isinstance(one, TableError)]
    return failed(wrong[0].message, wrong[0].remedy) if wrong else ok("All types are known.")


_CHECKS = Checks[sqlite3.Connection](
    of_server=(("wal", "Journal mode", _wal), ("log", "Log", _log)),
    of_tables=(("definitions", "Tables and column types", _definitions),),
)


def run_checks(config: SqliteConfig, tables: TableSet | None) -> list[CheckResult]:
    """`Checks.run` of this file."""
    return _CHECKS.run(
        partial(connect, config), lambda one: one, lambda _: f"{config.file} is a SQLite database.", tables
    )
