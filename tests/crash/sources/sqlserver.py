"""SQL Server's emulator as a source under test."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg2

from testing.servers.sqlserver.availability_group import AvailabilityGroup
from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from tests.crash.faults.proxy import Proxy
from tests.crash.sources.base import SourceUnderTest, copied

TRACKING, SECONDARY = "tracking", "secondary"


class SqlServer(SourceUnderTest):
    """Each history has a separate database, because change data capture is set per database, and in it a schema of the
    same name, which is the default schema of the login that writes.

    `version` "tracking": Tidemark reads Change Tracking; "secondary": a readable secondary of an availability group.
    """

    dialect = "sqlserver"
    kind = "sqlserver"
    tls_off = "disabled"
    locks_python = True
    moves_are_updates = False
    PASSWORD = "Writer-1234"

    def __init__(self, folder: Path, version: str = "", *, caseless: bool = False) -> None:
        """The emulator, with all its habits."""
        from testing.workload.sqlserver import driver  # its library is an extra

        del caseless
        self.nets_changes = version == TRACKING
        server = EmbeddedSQLServer(folder, encrypt="off", durable=True)
        self.group = AvailabilityGroup(server) if version == SECONDARY else None
        self.server = self.group or server
        self._readers: dict[str, Proxy] = {}
        self._connection = driver.Connection
        self.errors = driver.SqlServerDriver.errors  # type: ignore[misc]

    def connect(self, name: str | None = None) -> Any:
        if name is None:
            return self._connection(self.server.connect())
        return self._connection(self.server.connect(name, UID=name, PWD=self.PASSWORD))

    def make(self, name: str) -> None:
        self.execute(f"CREATE DATABASE [{name}]", f"CREATE LOGIN [{name}] WITH PASSWORD = '{self.PASSWORD}'")
        with closing(self._connection(self.server.connect(name))) as connection, connection.cursor() as cursor:
            follow = ["EXEC sys.sp_cdc_enable_db"]
            if self.nets_changes:
                follow = ["ALTER DATABASE CURRENT SET CHANGE_TRACKING = ON (CHANGE_RETENTION = 2 DAYS)"]
            for statement in (
                f"CREATE USER [{name}] FOR LOGIN [{name}] WITH DEFAULT_SCHEMA = [{name}]",
                f"CREATE SCHEMA [{name}] AUTHORIZATION [{name}]", f"ALTER ROLE db_owner ADD MEMBER [{name}]",
                "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON", *follow,
                *(f"EXEC sp_emulator @name = 'habit', @value = '{habit}'" for habit in ("seqval_disorder",
                "unordered")),
            ):  # fmt: skip
                cursor.execute(statement)
        if self.group is not None:
            self.group.join()

    def drop(self, name: str) -> None:
        if (proxy := self._readers.pop(name, None)) is not None:
            proxy.close()
        self.execute(f"DROP DATABASE [{name}]", f"DROP LOGIN [{name}]")

    def tables(self, name: str) -> set[str]:
        """In lower case, which Tidemark's names are: the database compares them without."""
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT name FROM sys.tables WHERE schema_id = SCHEMA_ID('{name}')")
            return {row[0].lower() for row in cursor.fetchall()}

    def restore_data(self) -> None:
        """As RESTORE DATABASE does it."""
        self.server.stop()
        copied(self._copy, self._data)
        if self.group is not None:
            self.group.primary.begin_fork()
            self.group.primary.start()
            self.group.renew()
            return
        self.server.begin_fork()
        self.server.start()

    @property
    def _data(self) -> Path:
        server = self.group.primary if self.group is not None else self.server
        return Path(server.postgres.folder)

    @property
    def _copy(self) -> Path:
        return Path(self.server.folder) / "copy"

    def fail_over(self) -> None:
        """Fail over without data loss, and create a new secondary."""
        assert self.group is not None
        self.group.failover()
        self.group.renew()

    def hold_redo(self, seconds: float) -> None:
        """Cut off the secondary's readers, and pause its redo for `seconds`."""
        assert self.group is not None
        with suppress(psycopg2.Error), self.group.held():  # another history has it fail over
            for proxy in list(self._readers.values()):
                proxy.cut_now()
            time.sleep(seconds)

    def unfollowable(self, name: str) -> set[str]:
        """Without key, and with a column of which the log has no old values; for Change Tracking, without a primary
        one.
        """
        if self.nets_changes:
            primary = "SELECT 1 FROM sys.indexes i WHERE i.object_id = t.object_id AND i.is_primary_key = 1"
            return self._named(name, f"NOT EXISTS ({primary})")
        return self._named(name, "EXISTS (SELECT 1 FROM sys.columns c WHERE c.object_id = t.object_id AND"
            " TYPE_NAME(c.system_type_id) IN ('text', 'ntext', 'image')) AND NOT EXISTS (SELECT 1 FROM sys.indexes i"
            " WHERE i.object_id = t.object_id AND i.is_unique = 1)")  # fmt: skip

    def inexact(self, name: str) -> set[str]:
        """Change Tracking takes a key for the same where only the case of a text changes, or blanks at its end."""
        if not self.nets_changes:
            return set()
        return self._named(name, "EXISTS (SELECT 1 FROM sys.indexes i JOIN sys.index_columns k ON k.object_id ="
            " i.object_id AND k.index_id = i.index_id JOIN sys.columns c ON c.object_id = k.object_id AND c.column_id ="
            " k.column_id WHERE i.object_id = t.object_id AND i.is_primary_key = 1 AND c.collation_name IS NOT NULL)",
        )  # fmt: skip

    def made_keyless(self, create: str, table: str) -> tuple[str, ...]:
        del table
        return (create.replace("(", "(row_number BIGINT IDENTITY PRIMARY KEY, ", 1) if self.nets_changes else create,)

    def _named(self, name: str, condition: str) -> set[str]:
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT t.name FROM sys.tables t WHERE t.schema_id = SCHEMA_ID('{name}') AND {condition}")
            return {row[0].lower() for row in cursor.fetchall()}

    def one_of(self, verb: str, table: str, where: str) -> str:
        del table
        first, _, rest = verb.partition(" ")
        return f"{first} TOP (1) {rest} WHERE {where}"

    def address(self, name: str, port: int) -> dict[str, Any]:
        known = self.server.address
        reads: dict[str, Any] = {}
        if self.group is not None:
            proxy = self._readers.setdefault(name, Proxy(self.server.host, self.group.secondary.port))
            reads = {"read_from": "secondary", "secondary_host": proxy.host, "secondary_port": proxy.port}
        return reads | {
            "host": known["host"], "port": port, "user": known["user"], "password": known["password"], "database": name,
            "tls": self.tls_off, "capture": "change_tracking" if self.nets_changes else "cdc",
        }  # fmt: skip
