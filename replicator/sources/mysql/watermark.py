"""The one table that Tidemark writes on the source: a row for each replicator, whose changes are marks in the log."""

from __future__ import annotations

import pymysql
from pymysql.constants import ER

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.sources.mysql.connection import Connection, literal, quoted, translated

TABLE = "watermark"
MAX_REPLICATOR, MAX_TOKEN = 64, 255


def watermark_table(database: str) -> TableId:
    """Where marks are written."""
    return TableId(database, TABLE)


def create_statements(database: str) -> tuple[str, str]:
    """SQL that makes database and table where they are missing; also the remedy that the user can paste."""
    return (
        f"CREATE DATABASE IF NOT EXISTS {quoted(database)}",
        (
            f"CREATE TABLE IF NOT EXISTS {quoted(database)}.{quoted(TABLE)} ("
            f"replicator VARCHAR({MAX_REPLICATOR}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, "
            f"token VARCHAR({MAX_TOKEN}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, "
            # Text, not TIMESTAMP(6): with mysql56_temporal_format=OFF the log does not describe that, and no mark could
            # be read.
            "at VARCHAR(32) CHARACTER SET ascii NOT NULL DEFAULT '') ENGINE=InnoDB"
        ),
    )


class WatermarkTable:
    """Writes marks; makes the table at the first mark where it is missing."""

    def __init__(self, database: str, replicator: str) -> None:
        if len(replicator) > MAX_REPLICATOR:
            message = f"The replicator's name has more than {MAX_REPLICATOR} characters."
            raise ConfigurationError(message)
        self._database = database
        self._name = f"{quoted(database)}.{quoted(TABLE)}"
        self._replicator = replicator

    def write(self, connection: Connection, token: str) -> None:
        """Returns when the mark is committed.  `connection` is in autocommit."""
        if len(token) > MAX_TOKEN:
            message = f"A mark has at most {MAX_TOKEN} characters."
            raise ValueError(message)
        with translated(self._name):
            try:
                self._write(connection, token)
            except pymysql.err.MySQLError as error:
                if not error.args or error.args[0] not in (ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR):
                    raise
                with connection.cursor() as cursor:
                    for statement in create_statements(self._database):
                        cursor.execute(statement)
                self._write(connection, token)

    def forget(self, connection: Connection) -> None:
        """Delete the replicator's row; TableDisappeared if the table or its database does not exist."""
        with translated(watermark_table(self._database)), connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {self._name} WHERE replicator = {literal(self._replicator)}")

    def _write(self, connection: Connection, token: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {self._name} (replicator, token, at) "
                f"VALUES ({literal(self._replicator)}, {literal(token)}, UTC_TIMESTAMP(6)) "
                "ON DUPLICATE KEY UPDATE token = VALUES(token), at = VALUES(at)"
            )
