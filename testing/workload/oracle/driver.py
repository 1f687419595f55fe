"""oracledb as the player needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import oracledb

from testing.workload.drivers import Connect
from testing.workload.schemas import Statements
from testing.workload.workload import AnySession, OracleSession

LOST = ("DPY-1001", "DPY-4011", "DPY-6000", "DPY-6001", "DPY-6005", "ORA-03113", "ORA-12541", "DPY-6003")
FORMATS = (
    ("NLS_DATE_FORMAT", "YYYY-MM-DD HH24:MI:SS"), ("NLS_TIMESTAMP_FORMAT", "YYYY-MM-DD HH24:MI:SS.FF"),
)  # fmt: skip


class _Cursor:
    """Of the client's, but for what OracleConnection sends itself."""

    def __init__(self, connection: OracleConnection) -> None:
        self._connection, self._cursor = connection, connection.connection.cursor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cursor.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def execute(self, statement: str) -> None:
        self._connection.execute(self._cursor, statement)

    def executemany(self, statement: str, rows: Sequence[Any]) -> None:
        self._connection.execute(self._cursor, statement, rows)


class OracleConnection:
    """In autocommit, until BEGIN, which Oracle has not, makes what follows one transaction."""

    def __init__(self, connection: oracledb.Connection) -> None:
        self.connection = connection

    def cursor(self) -> _Cursor:
        return _Cursor(self)

    def execute(self, cursor: Any, statement: str, rows: Sequence[Any] | None = None) -> None:
        if statement == "BEGIN":
            self.connection.autocommit = False
        elif statement in ("COMMIT", "ROLLBACK"):
            (self.connection.commit if statement == "COMMIT" else self.connection.rollback)()
            self.connection.autocommit = True
        elif rows is not None:
            cursor.executemany(statement, rows)
        else:
            cursor.execute(statement)

    def close(self) -> None:
        self.connection.close()


class OracleDriver:
    """Of Oracle; `connect` gives a new connection of an administrator, the client's or an OracleConnection."""

    errors: tuple[type[Exception], ...] = (oracledb.Error,)
    setup: AnySession = OracleSession("+00:00", "UTF8")

    def connected(self, connect: Connect, database: str, session: AnySession) -> Any:
        assert isinstance(session, OracleSession)
        made = connect()
        connection = made.connection if isinstance(made, OracleConnection) else made
        try:
            connection.autocommit = True
            settings = (*FORMATS, ("TIME_ZONE", session.time_zone))
            with connection.cursor() as cursor:
                for name, value in settings:
                    cursor.execute(f"ALTER SESSION SET {name} = '{value}'")
                cursor.execute(f'ALTER SESSION SET CURRENT_SCHEMA = "{database}"')
        except BaseException:
            connection.close()
            raise
        return OracleConnection(connection)

    def code(self, error: Exception) -> str:
        code = getattr(error.args[0], "full_code", "") if error.args else ""
        return "" if code in LOST else str(code or type(error).__name__)

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
