"""What a stand and a trial need of each kind of source."""

from __future__ import annotations

import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar

import psycopg2
import pymysql
from pymysql.constants import CR

from replicator.sources.mysql.connection import quoted
from testing.servers.mysql import EmbeddedMySQL
from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from testing.workload.workload import Dialect
from webapp.embedded.java_artifacts import MARIADB, MARIADB_SOURCE, POSTGRES
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres_source import VERSION, EmbeddedPostgresSource

# Transactions of some hundred rows are large ones to the server: streamed before their end (from 14), or spilled.
SMALL_MEMORY = {"logical_decoding_work_mem": "64kB"}
_STARTED_SECONDS = 60.0
_STUCK_SECONDS = 120  # more than any lock timeout


def copied(folder: Path, to: Path) -> None:
    """In the place of what is there, with owners and modes, which a server looks at."""
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", folder, to], check=True)


class SourceUnderTest(ABC):
    """A server, and a history's part of it, by the history's name: its tables lie in `TableId.database` of that name.

    dialect   of its histories; `version` is the server's major version where that matters to them
    moves_are_updates   the log tells an UPDATE of a key as one event, not as DELETE and INSERT
    kind      of the connection in Tidemark
    errors    what its client library raises
    tls_off   how a connection is told to use no TLS
    """

    moves_are_updates: ClassVar[bool] = True
    dialect: ClassVar[Dialect]
    kind: ClassVar[str] = "mysql"
    errors: ClassVar[tuple[type[Exception], ...]] = (pymysql.MySQLError,)
    tls_off: ClassVar[str] = "disabled"
    version: int | None = None
    server: Any

    @abstractmethod
    def connect(self, name: str | None = None) -> Any:
        """An administrator's connection, autocommit; `name`: a history's, whose tables need no database then."""

    @abstractmethod
    def make(self, name: str) -> None:
        """Room for a history's tables."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """All that `make` made and what is in it."""

    @abstractmethod
    def tables(self, name: str) -> set[str]:
        """Names of the history's tables; partitions are none."""

    @abstractmethod
    def one_of(self, verb: str, table: str, where: str) -> str:
        """A statement that changes one row alone of equal ones; `verb`: "DELETE FROM" or "UPDATE … SET …"."""

    def unfollowable(self, name: str) -> set[str]:
        """Tables whose changes the log does not tell apart, as they stand now: a history's statements may leave one
        so.
        """
        del name
        return set()

    def made_keyless(self, create: str, table: str) -> tuple[str, ...]:
        """Statements that make a table without key so that all changes of it can be followed."""
        del table
        return (create,)

    def address(self, name: str, port: int) -> dict[str, Any]:
        """Of the history's part, by way of a proxy at this port, as a connection's config has it."""
        del name
        return {**self.server.address, "port": port, "tls": self.tls_off}

    def copy_data(self) -> None:
        """The data folder, aside; the server is stopped for it, and goes on."""
        self.server.stop()
        copied(self._data, self._copy)
        self.server.start()

    def restore_data(self) -> None:
        """The copy in the place of what there is; the server goes on from it."""
        self.server.stop()
        copied(self._copy, self._data)
        self.server.start()

    @property
    def _data(self) -> Path:
        folder: Path = self.server.folder
        return folder / "data"

    @property
    def _copy(self) -> Path:
        return self._data.with_name("copy")

    def open_memory_tables(self, name: str) -> bool:
        """Open the tables that a restart of the server empties, so that its log tells of it; True where there are
        any.
        """
        del name
        return False

    def end_stuck_statements(self) -> int:
        """Of the workload, which no lock timeout ends; returns how many."""
        return 0

    def log_files(self) -> list[Path]:
        """Of the source's log, as far as it tells somebody who looks at a finding later what was done."""
        return []

    def execute(self, *statements: str, name: str | None = None) -> None:
        """One after another."""
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


class MySQLFamily(SourceUnderTest):
    """MySQL or MariaDB: a history has a database of its own."""

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
        """A MEMORY table's DELETE is logged when somebody opens it."""
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


class Postgres(SourceUnderTest):
    """A history has a database of its own, because a publication and a slot are a database's, and in it a schema of
    that name.
    """

    dialect = "postgres"
    kind = "postgres"
    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg2.Error,)
    tls_off = "disable"

    def __init__(self, folder: Path, version: str = "", *, caseless: bool = False) -> None:
        """`version`: as in `POSTGRES`, or its major part."""
        del caseless
        known = {name.partition(".")[0]: name for name in POSTGRES}
        full = known.get(version, version) or VERSION
        self.version = int(full.partition(".")[0])
        self.server = EmbeddedPostgresSource(folder, version=full, options=SMALL_MEMORY)

    def connect(self, name: str | None = None) -> Any:
        if name is None:
            return self.server.connect()
        return self.server.connect(dbname=name, options=f"-csearch_path={name}")

    def make(self, name: str) -> None:
        self.execute(f'CREATE DATABASE "{name}"')
        self.execute(f'CREATE SCHEMA "{name}"', name=name)

    def drop(self, name: str) -> None:
        """Slots that nobody reads go with their database."""
        self.execute(f'DROP DATABASE "{name}" (FORCE)')

    def tables(self, name: str) -> set[str]:
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
                "AND relkind IN ('r', 'p') AND NOT relispartition"
            )
            return {row[0] for row in cursor.fetchall()}

    def unfollowable(self, name: str) -> set[str]:
        """As where a transaction that made or renamed it was refused, and a later one changes the identity of the old
        one.

        A partitioned table's partitions have identities of their own.
        """
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND"
                " (relreplident = 'n' OR relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid ="
                " pg_class.oid AND indisprimary)) UNION SELECT p.relname FROM pg_class p CROSS JOIN"
                " pg_partition_tree(p.oid) t JOIN pg_class l ON l.oid = t.relid WHERE p.relnamespace ="
                " current_schema()::regnamespace AND p.relkind = 'p' AND t.isleaf AND l.relreplident <> 'f' AND"
                " (p.relreplident = 'f' OR l.relreplident = 'n' OR l.relreplident = 'd' AND NOT EXISTS (SELECT FROM"
                " pg_index WHERE indrelid = l.oid AND indisprimary))"
            )
            return {row[0] for row in cursor.fetchall()}

    def one_of(self, verb: str, table: str, where: str) -> str:
        return f"{verb} WHERE ctid = (SELECT ctid FROM {table} WHERE {where} LIMIT 1)"

    def made_keyless(self, create: str, table: str) -> tuple[str, ...]:
        return (create, f"ALTER TABLE {table} REPLICA IDENTITY FULL")

    def address(self, name: str, port: int) -> dict[str, Any]:
        known = self.server.address
        return {
            "host": known["host"], "port": port, "user": known["user"], "password": known["password"], "database": name,
            "tls": self.tls_off,
        }  # fmt: skip


class SqlServer(SourceUnderTest):
    """A history has a database of its own, because change data capture is a database's, and in it a schema of that
    name, which is the default one of the login that writes.
    """

    moves_are_updates = False
    dialect = "sqlserver"
    kind = "sqlserver"
    tls_off = "disabled"
    PASSWORD = "Writer-1234"

    def __init__(self, folder: Path, version: str = "", *, caseless: bool = False) -> None:
        """The emulator, with all its habits; it has one version."""
        from testing.workload.sqlserver import driver  # its library is an extra

        del version, caseless
        self.server = EmbeddedSQLServer(folder, encrypt="off", durable=True)
        self._connection = driver.Connection
        self.errors = driver.SqlServerDriver.errors  # type: ignore[misc]

    def connect(self, name: str | None = None) -> Any:
        if name is None:
            return self._connection(self.server.connect())
        return self._connection(self.server.connect(name, UID=name, PWD=self.PASSWORD))

    def make(self, name: str) -> None:
        self.execute(f"CREATE DATABASE [{name}]", f"CREATE LOGIN [{name}] WITH PASSWORD = '{self.PASSWORD}'")
        with closing(self._connection(self.server.connect(name))) as connection, connection.cursor() as cursor:
            for statement in (
                f"CREATE USER [{name}] FOR LOGIN [{name}] WITH DEFAULT_SCHEMA = [{name}]",
                f"CREATE SCHEMA [{name}] AUTHORIZATION [{name}]", f"ALTER ROLE db_owner ADD MEMBER [{name}]",
                "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON", "EXEC sys.sp_cdc_enable_db",
                *(f"EXEC sp_emulator @name = 'habit', @value = '{habit}'" for habit in ("seqval_disorder",
                "unordered")),
            ):  # fmt: skip
                cursor.execute(statement)

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE [{name}]", f"DROP LOGIN [{name}]")

    def tables(self, name: str) -> set[str]:
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT name FROM sys.tables WHERE schema_id = SCHEMA_ID('{name}')")
            return {row[0] for row in cursor.fetchall()}

    def restore_data(self) -> None:
        """As RESTORE DATABASE does it."""
        self.server.stop()
        copied(self._copy, self._data)
        self.server.begin_fork()
        self.server.start()

    def unfollowable(self, name: str) -> set[str]:
        """Without key, and with a column of which the log has no old values."""
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"SELECT t.name FROM sys.tables t WHERE t.schema_id = SCHEMA_ID('{name}') AND EXISTS (SELECT 1 FROM"
                " sys.columns c WHERE c.object_id = t.object_id AND TYPE_NAME(c.system_type_id) IN ('text', 'ntext',"
                " 'image')) AND NOT EXISTS (SELECT 1 FROM sys.indexes i WHERE i.object_id = t.object_id AND"
                " i.is_unique = 1)"
            )
            return {row[0] for row in cursor.fetchall()}

    def one_of(self, verb: str, table: str, where: str) -> str:
        del table
        first, _, rest = verb.partition(" ")
        return f"{first} TOP (1) {rest} WHERE {where}"

    def address(self, name: str, port: int) -> dict[str, Any]:
        known = self.server.address
        return {
            "host": known["host"], "port": port, "user": known["user"], "password": known["password"], "database": name,
            "tls": self.tls_off,
        }  # fmt: skip


SOURCES: Mapping[str, type[MariaDB | MySQL | Postgres | SqlServer]] = {
    "mariadb": MariaDB, "mysql": MySQL, "postgres": Postgres, "sqlserver": SqlServer,
}  # fmt: skip
