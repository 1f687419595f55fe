"""A place on the test run's emulator of SQL Server, or on a real server (`live`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Self

import pytest

from replicator.sources import sqlserver
from replicator.sources.sqlserver.config import Capture, SqlServerConfig
from replicator.sources.sqlserver.connection import SqlServerSession, connect
from replicator.sources.sqlserver.dialect import literal, quoted
from testing.servers.sqlserver.availability_group import AvailabilityGroup
from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from tests.contract.place import Place

# What is not T-SQL in the contract's statements.
_SPELLING = (
    (r"\bdouble precision\b", "float"),
    (r"\bboolean\b", "bit"),
    (r"\btext\b", "nvarchar(max)"),
    (r"\bvarchar\((\d+)\)", r"nvarchar(\1)"),
    (r"\bchar\((\d+)\)", r"nchar(\1)"),
    (r"\bTRUE\b", "1"),
    (r"\bFALSE\b", "0"),
    (r"^SAVEPOINT (\w+)$", r"SAVE TRANSACTION \1"),
    (r"^ROLLBACK TO SAVEPOINT (\w+)$", r"ROLLBACK TRANSACTION \1"),
    (r"^(ALTER TABLE \S+ ADD) COLUMN ", r"\1 "),
)
_ALTERED = re.compile(r"^ALTER TABLE (\w+)\.(\w+) ADD ")
_ROWS = 1000  # of one INSERT … VALUES (learn.microsoft.com/sql/t-sql/queries/table-value-constructor-transact-sql)
_VALUES = re.compile(r"^(INSERT INTO .*? VALUES )(\(.*)$", re.DOTALL)


def captured_database(server: EmbeddedSQLServer, name: str) -> dict[str, Any]:
    """A connection's settings for this database, made where it is missing, with change data capture."""
    return _database(server, name, "EXEC sys.sp_cdc_enable_db")


def tracked_database(server: EmbeddedSQLServer, name: str) -> dict[str, Any]:
    """The same without change data capture, with Change Tracking."""
    settings = _database(server, name, "ALTER DATABASE CURRENT SET CHANGE_TRACKING = ON (CHANGE_RETENTION = 2 DAYS)")
    return settings | {"capture": Capture.TRACKING.value}


def _database(server: EmbeddedSQLServer, name: str, enabled: str) -> dict[str, Any]:
    with closing(server.connect()) as master:
        if not master.execute(f"SELECT 1 FROM sys.databases WHERE name = {literal(name)}").fetchall():
            master.execute(f"CREATE DATABASE {quoted(name)}")
            with closing(server.connect(name)) as own:
                own.execute("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
                own.execute(enabled)
    return server.address | {"database": name, "tls": "required"}


class SqlServerPlace(Place):
    kind = sqlserver.KIND
    wrong = ({"password": "s3cret!"}, {"port": 1})
    moves = False
    truncates = False

    session: SqlServerSession

    @classmethod
    def opened(cls, request: pytest.FixtureRequest) -> Self:
        return cls.live(captured_database(request.getfixturevalue("sqlserver"), "contract"))

    @classmethod
    def live(cls, settings: Mapping[str, Any]) -> Self:
        return cls(settings, connect(SqlServerConfig.parse(settings)))

    def drop(self) -> None:
        where = f"SCHEMA_NAME(schema_id) = {literal(self.name)}"
        for (table,) in self.session.rows(f"SELECT name FROM sys.tables WHERE {where}", self.name):
            self.session.run(f"DROP TABLE {self.name}.{table}", self.name)
        self.session.run(f"DROP SCHEMA IF EXISTS {self.name}", self.name)

    def abandon(self) -> None:
        self.session.run("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION", self.name)

    def run(self, *statements: str) -> None:
        self._play(statements, "COMMIT TRANSACTION")

    def rename(self, old: str, new: str) -> None:
        self.run(f"EXEC sp_rename '@.{old}', '{new}'")

    def rename_column(self, table: str, old: str, new: str) -> None:
        self.run(f"EXEC sp_rename '@.{table}.{old}', '{new}', 'COLUMN'")

    def undo(self, *statements: str) -> None:
        self._play(statements, "ROLLBACK TRANSACTION")

    def _play(self, statements: tuple[str, ...], end: str) -> None:
        self.session.run("BEGIN TRANSACTION", self.name)
        for statement in statements:
            for part in _parts(self._spelled(statement)):
                self.session.run(part, self.name)
        self.session.run(end, self.name)
        for statement in statements:
            if found := _ALTERED.match(statement.replace("@", self.name)):
                self._capture_again(found[1], found[2])

    def _spelled(self, statement: str) -> str:
        text = statement.replace("@", self.name)
        for pattern, written in _SPELLING:
            text = re.sub(pattern, written, text, flags=re.IGNORECASE)
        return text

    def _capture_again(self, schema: str, table: str) -> None:
        """As an administrator does it by hand: a second capture instance, begun before the next change
        (learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server, "Handling
        changes to source table").
        """
        self.session.run(
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{schema}', @source_name = N'{table}', @role_name = NULL, "
            f"@capture_instance = N'{schema}_{table}_more', @supports_net_changes = 0",
            self.name,
        )


class TrackedPlace(SqlServerPlace):
    """Read through Change Tracking, which tells the net changes of keys."""

    truncates = True

    @classmethod
    def opened(cls, request: pytest.FixtureRequest) -> Self:
        return cls.live(tracked_database(request.getfixturevalue("sqlserver"), "tracked"))

    def _capture_again(self, schema: str, table: str) -> None:
        """There is nothing to do."""


class SecondaryPlace(SqlServerPlace):
    """Change tables are read from a readable secondary."""

    @classmethod
    def opened(cls, request: pytest.FixtureRequest) -> Self:
        group = request.getfixturevalue("availability_group")
        return cls.live(captured_database(group.primary, "contract") | secondary_of(group))


def secondary_of(group: AvailabilityGroup) -> dict[str, Any]:
    """Settings with which change tables are read from there."""
    secondary = group.secondary
    return {"read_from": "secondary", "secondary_host": secondary.host, "secondary_port": secondary.port}


def _parts(statement: str) -> list[str]:
    """INSERT takes 1,000 rows at most."""
    found = _VALUES.match(statement)
    rows = re.split(r"(?<=\)), (?=\()", found[2]) if found else []
    if found is None or len(rows) <= _ROWS:
        return [statement]
    return [found[1] + ", ".join(rows[at : at + _ROWS]) for at in range(0, len(rows), _ROWS)]
