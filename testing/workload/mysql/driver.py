"""PyMySQL as the player needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymysql
from pymysql.constants import CR, ER

from testing.workload.drivers import LOCK_SECONDS, Connect
from testing.workload.schemas import Statements
from testing.workload.workload import AnySession, Session

LOST = frozenset(
    {
        CR.CR_SERVER_GONE_ERROR,
        CR.CR_SERVER_LOST,
        CR.CR_CONN_HOST_ERROR,
        CR.CR_CONNECTION_ERROR,
        ER.SERVER_SHUTDOWN,
        0,
        1927,
    }
)


class MySQLDriver:
    """Of MySQL and MariaDB; `connect` gives a new PyMySQL connection."""

    errors: tuple[type[Exception], ...] = (pymysql.MySQLError,)
    setup: AnySession = Session("+00:00", "utf8mb4", "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION")

    def connected(self, connect: Connect, database: str, session: AnySession) -> Any:
        assert isinstance(session, Session)
        connection = connect()
        try:
            connection.select_db(database)
            connection.autocommit(True)  # noqa: FBT003
            connection.set_character_set(session.charset)
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION sql_mode = %s, time_zone = %s", (session.sql_mode, session.time_zone))
                cursor.execute(
                    f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}, lock_wait_timeout = {LOCK_SECONDS}"
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def code(self, error: Exception) -> str:
        number = error.args[0] if error.args else 0
        lost = number in LOST or isinstance(error, pymysql.err.InterfaceError)
        return "" if lost else str(number)

    def identifiers(self, statements: Sequence[str]) -> set[str]:
        return {statement.split("'")[1] for statement in statements if statement.startswith("XA ")}

    def ends(self, statement: str) -> bool:
        return statement.startswith(("XA COMMIT", "XA ROLLBACK"))

    def left(self, connection: Any, identifiers: set[str]) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("XA RECOVER")
            found = {row[3].decode() if isinstance(row[3], bytes) else str(row[3]) for row in cursor.fetchall()}
            return sorted(found & identifiers)

    def undone(self, identifier: str) -> Statements:
        return (f"XA END '{identifier}'", f"XA ROLLBACK '{identifier}'")
