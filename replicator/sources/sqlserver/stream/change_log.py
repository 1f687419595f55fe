"""The log as a whole, for one replicator: change data capture, and what has to be there for it to be read."""

from __future__ import annotations

import time
from contextlib import suppress

from replicator.errors import (
    SourceBusy,
    SourcePermissionDenied,
    TableBusy,
    TableDisappeared,
    TableError,
    TidemarkError,
)
from replicator.model.offset import Offset
from replicator.model.table_set import TableSet
from replicator.sources.base import WITHOUT_END, LogHeld, SourceLoad, SourceState, SourceWait
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.catalog.table_description import UNESTABLISHED, TableDescription
from replicator.sources.sqlserver.config import SqlServerConfig
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.dialect import literal
from replicator.sources.sqlserver.offset import LsnOffset
from replicator.sources.sqlserver.stream import capture_instances, log_status
from replicator.sources.sqlserver.watermark import create_statements, forget, watermark_table

ESTABLISH_SECONDS = 60.0  # until the capture job has come to a new instance; it looks every 5 s
_POLL_SECONDS = 0.2
_MINUTES = 4320  # the default: three days
_THREATENED = 0.8
_HELD = """
SELECT SUM(p.used_page_count) * 8192 FROM sys.dm_db_partition_stats p
JOIN cdc.change_tables t ON t.object_id = p.object_id
"""


class ChangeLog:
    """A MeasuredLog (replicator.sources.base), on a connection that is the source's."""

    def __init__(self, connection: SqlServerSession, config: SqlServerConfig, replicator: str) -> None:
        self._connection, self._config, self._replicator = connection, config, replicator

    def state(self) -> SourceState:
        """Where the log ends now.  SourceMisconfigured where change data capture is off."""
        log_status.require_cdc(self._connection)
        rows = self._connection.rows("SELECT @@VERSION", self._connection.where)
        version = str(rows[0][0]).splitlines()[0]
        end = log_status.log_end(self._connection)
        at = log_status.server_time(self._connection)
        return SourceState(LsnOffset(end), log_status.identity(self._connection), at, version, has_gaps=True)

    def prepare(self, tables: TableSet, *, first: bool, waiting: SourceWait = WITHOUT_END) -> SourceState:
        """The watermark table and a capture instance for each table, begun by the capture job.

        A table that is locked, or refused, is left to the log's reader, which tells of it (invariant 13).
        SourcePermissionDenied where no table can be captured; SourceBusy where the capture job does not begin.
        """
        log_status.require_cdc(self._connection)
        self._make_watermark()
        catalog = SqlServerCatalog(self._connection, tables)
        wanted = sorted(table for table in catalog.names() if table in tables)
        refused: list[TableError] = []
        captured = 0
        for found in catalog.details(wanted).values():
            if isinstance(found, TableDescription):
                try:
                    if not found.instances:
                        capture_instances.enable(self._connection, found)
                    captured += 1
                except (TableBusy, TableDisappeared):
                    captured += 1
                except TableError as error:
                    refused.append(error)
        if refused and not captured:
            raise SourcePermissionDenied(refused[0].message, remedy="\n".join(one.remedy for one in refused[:20]))
        self._await_instances(waiting)
        del first
        return self.state()

    def held(self, checkpoint: Offset | None) -> LogHeld | None:
        """The change tables' size, where the account may see it.  The cleanup job empties them by age, read or not."""
        if checkpoint is None:
            return None
        assert isinstance(checkpoint, LsnOffset)
        connection = self._connection
        size = None
        with suppress(SourcePermissionDenied):
            size = int(connection.rows(_HELD, connection.where)[0][0] or 0)
        rows = connection.rows(
            "SELECT TOP (1) start_lsn FROM cdc.change_tables WHERE source_object_id = OBJECT_ID("
            f"{literal(str(watermark_table(self._config.watermark_schema)))}) ORDER BY start_lsn DESC",
            connection.where,
        )
        oldest = rows[0][0] if rows else None
        lost = oldest is not None and bytes(oldest) > checkpoint.lsn
        kept = self._retention_minutes()
        age = self._age_minutes(checkpoint)
        status = f"change tables, cleaned up after {kept / 60:.0f} h"
        return LogHeld(size, status, lost=lost, threatened=age > kept * _THREATENED)

    def load(self) -> SourceLoad:
        """Statements of all sessions that the account may see."""
        return log_status.load(self._connection)

    def remove(self) -> None:
        """The replicator's row of the watermark table; behind the last of them, the capture instances that Tidemark
        made, and the table.
        """
        connection, schema = self._connection, self._config.watermark_schema
        marks = watermark_table(schema)
        forget(connection, schema, self._replicator)
        exists = f"OBJECT_ID({literal(str(marks))}, N'U') IS NOT NULL"
        if not connection.rows(f"SELECT 1 WHERE {exists}", connection.where):
            return
        if connection.rows(f"SELECT TOP (1) 1 FROM [{schema}].[{marks.name}]", connection.where):
            return
        catalog = SqlServerCatalog(connection)
        names = catalog.numbered()
        for number, instances in catalog.instances().items():
            for one in instances:
                if capture_instances.is_ours(one) and number in names:
                    capture_instances.disable(connection, names[number], one.name)
        with suppress(TidemarkError):
            connection.run(f"DROP TABLE [{schema}].[{marks.name}]", marks)

    def _make_watermark(self) -> None:
        connection, table = self._connection, watermark_table(self._config.watermark_schema)
        for statement in create_statements(table.database):
            connection.run(statement, connection.where)
        found = SqlServerCatalog(connection).details([table]).get(table)
        if not isinstance(found, TableDescription):
            remedy = ";\n".join(create_statements(table.database)) + ";"
            raise SourcePermissionDenied(f"{connection.where}: the watermark table {table} is missing.", remedy=remedy)
        if not found.instances:
            try:
                capture_instances.enable(connection, found)
            except TableBusy as error:
                raise SourceBusy(error.message) from None
            except TableError as error:
                raise SourcePermissionDenied(error.message, remedy=error.remedy) from None

    def _await_instances(self, waiting: SourceWait) -> None:
        """The log is whole from an instance's start on, and the capture job says where that is."""
        connection, until, told = self._connection, time.monotonic() + ESTABLISH_SECONDS, False
        started = time.monotonic()
        while True:
            open_ones = [
                one.name
                for some in SqlServerCatalog(connection).instances().values()
                for one in some
                if one.start == UNESTABLISHED and capture_instances.is_ours(one)
            ]
            if not open_ones or waiting.stopped():
                return
            waited = time.monotonic() - started
            error = SourceBusy(log_status.stalled(connection, waited))
            if time.monotonic() > until:
                raise error
            if waited > ESTABLISH_SECONDS / 4 and not told:
                told = True
                waiting.on_busy(error)
            time.sleep(_POLL_SECONDS)

    def _retention_minutes(self) -> int:
        with suppress(TidemarkError):
            kept = log_status.retention_minutes(self._connection)
            return _MINUTES if kept is None else kept
        return _MINUTES

    def _age_minutes(self, checkpoint: LsnOffset) -> float:
        if checkpoint.commit is None:
            return 0.0
        (ended,) = log_status.ServerZone(self._connection).utc([checkpoint.commit.ended])
        return max(0.0, (log_status.server_time(self._connection) - ended).total_seconds() / 60)
