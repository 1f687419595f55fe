"""psycopg2 as the player needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg2
from psycopg2 import errorcodes

from testing.workload.drivers import LOCK_SECONDS, Connect
from testing.workload.postgres.values.rng_literals import quoted
from testing.workload.schemas import Statements
from testing.workload.workload import AnySession, PostgresSession

LOST = frozenset(
    {errorcodes.ADMIN_SHUTDOWN, errorcodes.CRASH_SHUTDOWN, errorcodes.CANNOT_CONNECT_NOW, errorcodes.DATABASE_DROPPED}
)
ENDS = ("COMMIT PREPARED ", "ROLLBACK PREPARED ")
TWO_PHASES = ("BEGIN /* ", "PREPARE TRANSACTION ", *ENDS)


class PostgresDriver:
    """Of Postgres; `connect` gives a new psycopg2 connection to the database in which the player's schema is."""

    errors: tuple[type[Exception], ...] = (psycopg2.Error,)
    setup: AnySession = PostgresSession("UTC", "UTF8", ())

    def connected(self, connect: Connect, database: str, session: AnySession) -> Any:
        assert isinstance(session, PostgresSession)
        connection = connect()
        try:
            connection.autocommit = True
            connection.set_client_encoding(session.charset)
            with connection.cursor() as cursor:
                settings = (
                    *session.settings, ("TimeZone", session.time_zone), ("search_path", f"{quoted(database)}, public"),
                    ("lock_timeout", f"{LOCK_SECONDS}s"),
                )  # fmt: skip
                for name, value in settings:
                    cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
        except BaseException:
            connection.close()
            raise
        return connection

    def code(self, error: Exception) -> str:
        state = getattr(error, "pgcode", None) or ""
        lost = isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) and (not state or state in LOST)
        return "" if lost else state or type(error).__name__

    def identifiers(self, statements: Sequence[str]) -> set[str]:
        return {statement.split("'")[1] for statement in statements if statement.startswith(TWO_PHASES)}

    def ends(self, statement: str) -> bool:
        return statement.startswith(ENDS)

    def left(self, connection: Any, identifiers: set[str]) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid")
            return [gid for (gid,) in cursor.fetchall() if gid in identifiers]

    def undone(self, identifier: str) -> Statements:
        return ("ROLLBACK", f"ROLLBACK PREPARED '{identifier}'")
