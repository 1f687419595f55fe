"""mssql-python as the player needs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import mssql_python

from testing.workload.drivers import LOCK_SECONDS, Connect
from testing.workload.schemas import Statements
from testing.workload.workload import AnySession, PostgresSession

_LOST = re.compile(r"Communication link failure|TCP Provider|Login timeout|Connection (?:is|was) (?:closed|broken)|not"
    r" connected|"
    r"Session Provider|forcibly closed|link failure|network", re.IGNORECASE)  # fmt: skip
_WORDS = re.compile(r"\[SQL Server\]\s*(.{1,60})")
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")
# What the generator says as SQL has it, and T-SQL its own way.
_SAID = (
    (re.compile(r"^BEGIN$"), "BEGIN TRANSACTION"),
    (re.compile(r"^ROLLBACK$"), "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION"),
    (re.compile(r"^COMMIT$"), "COMMIT TRANSACTION"),
    (re.compile(r"^SAVEPOINT (\w+)$"), r"SAVE TRANSACTION \1"),
    (re.compile(r"^ROLLBACK TO SAVEPOINT (\w+)$"), r"ROLLBACK TRANSACTION \1"),
    (re.compile(r"^RELEASE SAVEPOINT (\w+)$"), ""),
)


def said(statement: str) -> str:
    """In T-SQL; empty for what it has no need of."""
    for pattern, instead in _SAID:
        if pattern.match(statement):
            return pattern.sub(instead, statement)
    return statement


class Cursor:
    """Runs a statement to its end, and skips all results of one that returns no rows first."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, statement: str) -> None:
        if sql := said(statement):
            self._cursor.execute(sql)
            if self._cursor.description is None:
                while self._cursor.nextset():
                    pass

    def executemany(self, statement: str, rows: Iterable[Sequence[int]]) -> None:
        """Of numbers."""
        for row in rows:
            self.execute(statement % tuple(row))

    def fetchone(self) -> tuple[Any, ...] | None:
        row = self._cursor.fetchone()
        return None if row is None else tuple(row)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._cursor.fetchall()]

    def close(self) -> None:
        self._cursor.close()


class Connection:
    """A connection of mssql-python whose cursors are ours."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def cursor(self) -> Cursor:
        return Cursor(self._raw.cursor())

    def close(self) -> None:
        self._raw.close()


class SqlServerDriver:
    """Of SQL Server; `connect` gives a new `SqlServerSession` of a user whose default schema is the player's."""

    errors: tuple[type[Exception], ...] = (mssql_python.exceptions.Exception, RuntimeError)
    setup: AnySession = PostgresSession("UTC", "UTF8", ())

    def connected(self, connect: Connect, database: str, session: AnySession) -> Any:
        del database
        assert isinstance(session, PostgresSession)
        connection = connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCK_TIMEOUT {LOCK_SECONDS * 1000}")
                for name, value in session.settings:
                    cursor.execute(f"SET {name} {value}")
        except BaseException:
            connection.close()
            raise
        return connection

    def code(self, error: Exception) -> str:
        text = str(getattr(error, "ddbc_error", "") or error)
        if _LOST.search(text) or isinstance(error, mssql_python.InterfaceError):
            return ""
        found = _WORDS.search(text)
        return _NAMES.sub("…", found[1] if found else text[:60])

    def identifiers(self, statements: Sequence[str]) -> set[str]:
        del statements
        return set()

    def ends(self, statement: str) -> bool:
        del statement
        return False

    def left(self, connection: Any, identifiers: set[str]) -> list[str]:
        del connection, identifiers
        return []

    def undone(self, identifier: str) -> Statements:
        del identifier
        return ()
