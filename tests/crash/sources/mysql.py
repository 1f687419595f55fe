"""MySQL and MariaDB as sources under test."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CR

from replicator.sources.mysql.connection import quoted
from testing.servers.mysql import EmbeddedMySQL
from tests.crash.sources.base import SourceUnderTest
from webapp.embedded.java_artifacts import MARIADB, MARIADB_SOURCE
from webapp.embedded.mariadb import EmbeddedMariaDB

_STARTED_SECONDS = 60.0
_STUCK_SECONDS = 120  # more than any lock timeout


class MySQLFamily(SourceUnderTest):
    """MySQL or MariaDB: each history has a separate database."""

    @staticmethod
    def options(*, caseless: bool) -> dict[str, str]:
        """What the server is made with: does it compare names without case?"""
        return {"lower-case-table-names": str(int(caseless))}

    def connect(self, name: str | None = None) -> Any:
        deadline = time.monotonic() + _STARTED_SECONDS
        while True:
            try:
                return self.server.connect(database=name)
            except pymysql.err.OperationalError as error:
                if error.args[0] != CR.CR_CONN_HOST_ERROR or time.monotonic() > deadline:
                    raise
                time.sleep(0.3)  # it has died of itself, and is started again

    def make(self, name: str) -> None:
        self.execute(f"CREATE DATABASE `{name}`")

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE `{name}`")

    def tables(self, name: str) -> set[str]:
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s "
                "AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')",
                (name,),
            )
            return {row[0] for row in cursor.fetchall()}

    def end_stuck_statements(self) -> int:
        """MySQL 8.0.12 lets two sessions wait for each other in a foreign key's check for ever: no deadlock, no
        timeout.
        """
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            stuck = "COMMAND = 'Query' AND TIME > %s AND DB IS NOT NULL"
            cursor.execute(f"SELECT ID FROM information_schema.PROCESSLIST WHERE {stuck}", (_STUCK_SECONDS,))
            sessions = [session for (session,) in cursor.fetchall()]
            for session in sessions:
                with suppress(pymysql.err.OperationalError):  # it has just ended
                    cursor.execute(f"KILL {session}")
            return len(sessions)

    def open_memory_tables(self, name: str) -> bool:
        """Open the MEMORY tables: after a restart the server logs their DELETE only then."""
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            wanted = "TABLE_SCHEMA = %s AND ENGINE = 'MEMORY'"
            cursor.execute(f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE {wanted}", (name,))
            found = [table for (table,) in cursor.fetchall()]
            for table in found:
                cursor.execute(f"SELECT 1 FROM {quoted(table)} LIMIT 0")
        return bool(found)

    def log_files(self) -> list[Path]:
        return sorted(self._data.glob("*bin*.[0-9]*"))

    def one_of(self, verb: str, table: str, where: str) -> str:
        del table
        return f"{verb} WHERE {where} LIMIT 1"


class MariaDB(MySQLFamily):
    """Its histories are the same for all versions."""

    dialect = "mariadb"

    def __init__(self, folder: Path, version: str = "", *, caseless: bool = False) -> None:
        """`version`: as in `MARIADB`, or its first two parts."""
        known = {name.rpartition(".")[0]: name for name in MARIADB}
        full = known.get(version, version) or MARIADB_SOURCE
        options = self.options(caseless=caseless)
        # From 11.2 on, an online ALTER of a partitioned table loses rows that a ROLLBACK beside it brings back.
        if not full.startswith("10."):
            options |= {"old-mode": "LOCK_ALTER_TABLE_COPY"}
        self.server = EmbeddedMariaDB(folder, version=full, options=options)


class MySQL(MySQLFamily):
    """Without a choice of versions."""

    dialect = "mysql"

    def __init__(self, folder: Path, version: str = "", *, caseless: bool = False) -> None:
        del version
        self.server = EmbeddedMySQL(folder, options=self.options(caseless=caseless))
