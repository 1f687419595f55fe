"""SQL Server as a source: the plugin's front door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicator.errors import TidemarkError
from replicator.model.table_set import NameRule, TableSet
from replicator.sources.base import CheckResult, ReadOptions
from replicator.sources.shared.source import ServerSource
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.check.checks import run_checks
from replicator.sources.sqlserver.config import Capture, SqlServerConfig
from replicator.sources.sqlserver.connection import SqlServerSession, connect
from replicator.sources.sqlserver.names import names_of
from replicator.sources.sqlserver.snapshot.reader import SqlServerSnapshotReader
from replicator.sources.sqlserver.stream.change_log import ChangeLog
from replicator.sources.sqlserver.tracking.tracking_log import TrackingLog

if TYPE_CHECKING:
    from replicator.sources.sqlserver.stream.reader import ChangeTableReader
    from replicator.sources.sqlserver.tracking.reader import ChangeTrackingReader


class SqlServerSource(ServerSource[SqlServerConfig, SqlServerSession]):
    """One database."""

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        """The connection test; never raises for what it tests."""
        return run_checks(self.config, tables)

    def _asked_names(self) -> NameRule:
        """As the database's collation says."""
        return names_of(self._open())

    def catalog(self) -> SqlServerCatalog:
        """Discovery on the shared connection."""
        hidden = frozenset({self.config.watermark_schema})
        return SqlServerCatalog(self._open(), self.tables, hidden, self.config.capture)

    def log(self, replicator: str) -> ChangeLog | TrackingLog:
        """On the shared connection."""
        if self.config.capture is Capture.TRACKING:
            return TrackingLog(self._open(), self.config, replicator)
        return ChangeLog(self._open(), self.config, replicator)

    def log_reader(self, replicator: str, options: ReadOptions) -> ChangeTableReader | ChangeTrackingReader:
        """Return a log reader with its own connections."""
        if self.config.capture is Capture.TRACKING:
            from replicator.sources.sqlserver.tracking.reader import ChangeTrackingReader  # noqa: PLC0415

            return ChangeTrackingReader(self.config, options, replicator)
        from replicator.sources.sqlserver.stream.reader import ChangeTableReader  # noqa: PLC0415

        return ChangeTableReader(self.config, options, replicator)

    def snapshot_reader(self, replicator: str, options: ReadOptions) -> SqlServerSnapshotReader:
        """Return a snapshot reader with its own connections."""
        return SqlServerSnapshotReader(self.config, options, replicator, self.tables)

    def _connect(self) -> SqlServerSession:
        return connect(self.config)

    def _answers(self, connection: SqlServerSession) -> bool:
        try:
            return connection.open and bool(connection.rows("SELECT 1", connection.where))
        except TidemarkError:
            return False

    def _cancel(self, connection: SqlServerSession | None) -> None:
        if connection is not None:
            connection.cancel()


def open_source(settings: Mapping[str, Any]) -> SqlServerSource:
    """From the form's values; connects when first used."""
    return SqlServerSource(SqlServerConfig.parse(settings))
