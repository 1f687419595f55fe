"""What the connection test knows of a server, asked once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.config import SqlServerConfig
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.dialect import quoted
from replicator.sources.sqlserver.edition import AZURE_DATABASE
from replicator.sources.sqlserver.names import names_of

_PROPERTIES = (
    "SELECT CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')), "
    "CONVERT(nvarchar(128), SERVERPROPERTY('Edition')), CONVERT(int, SERVERPROPERTY('EngineEdition'))"
)
_DATABASE = (
    "SELECT name, is_cdc_enabled, snapshot_isolation_state, is_read_committed_snapshot_on, "
    "CONVERT(nvarchar(40), DATABASEPROPERTYEX(name, 'Updateability')), collation_name "
    "FROM sys.databases WHERE database_id = DB_ID()"
)


class Server:
    """A connection with what the server and the database say of themselves."""

    def __init__(self, config: SqlServerConfig, connection: SqlServerSession) -> None:
        self.config, self.connection = config, connection
        ((self.version, self.edition, engine),) = self.rows(_PROPERTIES)
        self.engine = int(engine or 0)
        ((name, captured, snapshot, versioned, updateability, collation),) = self.rows(_DATABASE)
        self.database, self.captured, self.snapshot = str(name), bool(captured), bool(snapshot)
        self.versioned, self.read_only = bool(versioned), updateability == "READ_ONLY"
        self.collation = str(collation or "")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Raises the errors of `connection.translated`."""
        return self.connection.rows(sql, self.config.where)

    @property
    def major(self) -> int:
        """13 is 2016, 16 is 2022."""
        return int(str(self.version or "0").partition(".")[0] or 0)

    @property
    def azure(self) -> bool:
        """Is it Azure SQL Database, where a built-in scheduler takes the place of SQL Server Agent?"""
        return self.engine == AZURE_DATABASE

    @cached_property
    def user(self) -> str:
        """The database user, as an SQL identifier."""
        return quoted(str(self.rows("SELECT USER_NAME()")[0][0]))

    @cached_property
    def owner(self) -> bool:
        """May it make capture instances?"""
        return 1 in self.rows("SELECT IS_MEMBER(N'db_owner'), IS_SRVROLEMEMBER(N'sysadmin')")[0]

    def catalog(self, tables: TableSet | None = None) -> SqlServerCatalog:
        """Without the watermark's schema."""
        hidden = frozenset({self.config.watermark_schema})
        return SqlServerCatalog(self.connection, tables, hidden, self.config.capture)

    def selected(self, tables: TableSet) -> list[TableId]:
        """Tables that are there and that the selection takes."""
        wanted = names_of(self.connection).selection(tables)
        return [table for table in self.catalog().names() if table in wanted]
