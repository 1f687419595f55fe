"""What the connection test knows of a server, asked once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from replicator.errors import TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.oracle.catalog.catalog import OracleCatalog
from replicator.sources.oracle.catalog.table_description import TableDescription
from replicator.sources.oracle.config import OracleConfig
from replicator.sources.oracle.connection import Connection, close, connect, execute, read_rows
from replicator.sources.oracle.dialect import quoted

_NO_SESSION, _NO_CONTAINER = 1307, 65011


class Server:
    """Two connections: to the root, where the log is read, and to the database that has the tables (`tables`)."""

    def __init__(self, config: OracleConfig, connection: Connection) -> None:
        self.config, self.connection = config, connection
        self.version = tuple(int(part) for part in str(connection.version).split(".")[:2])
        self.mode, self.minimal, self.all_columns, self.forced, self.container, self.open_mode, self.role = map(
            str,
            self.rows(
                "SELECT log_mode, supplemental_log_data_min, supplemental_log_data_all, force_logging, cdb, open_mode,"
                " database_role FROM v$database"
            )[0],
        )

    @property
    def account(self) -> str:
        """As a GRANT names it."""
        return quoted(self.config.watermark_owner)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Of the root.  Raises the errors of `connection.translated`."""
        return read_rows(self.connection, sql, self.config.where)

    def tables(self, sql: str) -> list[tuple[Any, ...]]:
        """Of the database that has the tables."""
        if not self.config.pdb:
            return self.rows(sql)
        own = connect(self.config)
        try:
            return read_rows(own, sql, self.config.where)
        finally:
            close(own)

    @cached_property
    def privileges(self) -> set[str]:
        """System privileges of the session that reads the tables."""
        return {str(row[0]) for row in self.tables("SELECT privilege FROM session_privs")}

    def has_container(self) -> bool:
        """Does the container database have the pluggable database of the connection, whether it is seen or not?"""
        try:
            close(connect(self.config))
        except TidemarkError as error:
            return f"(error {_NO_CONTAINER})" not in error.message
        return True

    def allows(self, sql: str) -> TidemarkError | None:
        """What the root has against a query."""
        try:
            self.rows(sql)
        except TidemarkError as error:
            return error
        return None

    def mining_refused(self) -> str | None:
        """What the server says to the end of a LogMiner session that was not begun, unless that there is none."""
        if "LOGMINING" not in {str(row[0]) for row in self.rows("SELECT privilege FROM session_privs")}:
            return "it lacks the privilege LOGMINING."
        try:
            execute(self.connection, "BEGIN DBMS_LOGMNR.END_LOGMNR; END;", self.config.where)
        except TidemarkError as error:
            return None if f"(error {_NO_SESSION})" in error.message else error.message
        return None

    def described(self, tables: TableSet) -> dict[TableId, TableDescription | TableError]:
        """Tables that the selection names."""
        own = connect(self.config) if self.config.pdb else self.connection
        try:
            return OracleCatalog(own, lobs=self.config.lobs, left_out=tables).details(sorted(tables.tables))
        finally:
            if self.config.pdb:
                close(own)
