"""The log as a whole, for one replicator: Change Tracking, and what has to be there for it to be read."""

from __future__ import annotations

from contextlib import suppress

from replicator.errors import SourceBusy, SourcePermissionDenied, TableBusy, TableDisappeared, TableError, TidemarkError
from replicator.model.table_set import TableSet
from replicator.sources.base import WITHOUT_END, SourceLoad, SourceLog, SourceState, SourceWait
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.config import Capture, SqlServerConfig
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.dialect import literal, table_name
from replicator.sources.sqlserver.offset import VersionOffset
from replicator.sources.sqlserver.stream import log_status
from replicator.sources.sqlserver.tracking import change_tracking


class TrackingLog(SourceLog):
    """On a connection that is the source's."""

    def __init__(self, connection: SqlServerSession, config: SqlServerConfig, replicator: str) -> None:
        self._connection, self._config, self._replicator = connection, config, replicator

    def state(self) -> SourceState:
        """The newest version.  SourceMisconfigured where Change Tracking is off, or SNAPSHOT isolation is not allowed.

        The identity is another one than that of change data capture: neither knows the other's offsets.
        """
        change_tracking.require_tracking(self._connection)
        version, at = change_tracking.newest_version(self._connection)
        rows = self._connection.rows("SELECT @@VERSION", self._connection.where)
        identity = f"{log_status.identity(self._connection)}-tracking"
        return SourceState(VersionOffset(version), identity, at, str(rows[0][0]).splitlines()[0], has_gaps=True)

    def prepare(self, tables: TableSet, *, first: bool, waiting: SourceWait = WITHOUT_END) -> SourceState:
        """The table for marks, with a row of the replicator's that stays, and Change Tracking of each table.

        A table that is locked, or refused, is left to the log's reader, which tells of it (invariant 13).
        SourcePermissionDenied where no table can be tracked.
        """
        del first, waiting
        change_tracking.require_tracking(self._connection)
        self._make_marks()
        change_tracking.write_mark(self._connection, self._config.watermark_schema, self._replicator, "")
        catalog = SqlServerCatalog(self._connection, tables, capture=Capture.TRACKING)
        wanted = sorted(table for table in catalog.names() if table in tables)
        refused: list[TableError] = []
        tracked = 0
        for found in catalog.details(wanted).values():
            if isinstance(found, TableDescription):
                try:
                    change_tracking.enabled(self._connection, found)
                    tracked += 1
                except (TableBusy, TableDisappeared):
                    tracked += 1
                except TableError as error:
                    refused.append(error)
        if refused and not tracked:
            raise SourcePermissionDenied(refused[0].message, remedy="\n".join(one.remedy for one in refused[:20]))
        return self.state()

    def load(self) -> SourceLoad:
        """Statements of all sessions that the account may see."""
        return log_status.load(self._connection)

    def remove(self) -> None:
        """The replicator's marks; behind the last of them all, their table.  Tables stay tracked: others may rely on
        that.
        """
        connection, marks = self._connection, change_tracking.marks_table(self._config.watermark_schema)
        name = table_name(marks)
        if not connection.rows(f"SELECT 1 WHERE OBJECT_ID({literal(name)}, N'U') IS NOT NULL", connection.where):
            return
        connection.run(f"DELETE FROM {name} WHERE replicator = {literal(self._replicator)}", connection.where)
        if not connection.rows(f"SELECT TOP (1) 1 FROM {name}", connection.where):
            with suppress(TidemarkError):
                connection.run(f"DROP TABLE {name}", marks)

    def _make_marks(self) -> None:
        connection, schema = self._connection, self._config.watermark_schema
        table, statements = change_tracking.marks_table(schema), change_tracking.marks_statements(schema)
        for statement in statements:
            connection.run(statement, connection.where)
        found = SqlServerCatalog(connection, capture=Capture.TRACKING).details([table]).get(table)
        remedy = ";\n".join((*statements, change_tracking.enable_statement(table))) + ";"
        if not isinstance(found, TableDescription):
            raise SourcePermissionDenied(f"{connection.where}: the watermark table {table} is missing.", remedy=remedy)
        try:
            change_tracking.enabled(connection, found)
        except TableBusy as error:
            raise SourceBusy(error.message) from None
        except TableError as error:
            raise SourcePermissionDenied(error.message, remedy=error.remedy) from None
