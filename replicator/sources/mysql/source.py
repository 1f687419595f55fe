"""MySQL and MariaDB as a source: the plugin's front door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicator.model.table_set import NameRule, TableSet
from replicator.sources.base import CheckResult, ReadOptions
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.check.checks import run_checks
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import Connection, cancel, connect
from replicator.sources.mysql.names import names_of
from replicator.sources.mysql.snapshot.reader import MySqlSnapshotReader
from replicator.sources.mysql.stream.log_retention import MySqlLog
from replicator.sources.mysql.watermark import watermark_table
from replicator.sources.shared.date_policy import date_policy
from replicator.sources.shared.source import ServerSource

if TYPE_CHECKING:
    from replicator.sources.mysql.stream.reader import BinlogReader


class MySqlSource(ServerSource[MySqlConfig, Connection]):
    """MySQL or MariaDB."""

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        """The connection test; never raises for what it tests."""
        return run_checks(self.config, tables)

    def _asked_names(self) -> NameRule:
        """As the server's lower_case_table_names says."""
        return names_of(self._open())

    def catalog(self) -> MySqlCatalog:
        """Discovery on the shared connection."""
        hidden = frozenset({self.config.watermark_database})
        return MySqlCatalog(self._open(), left_out=self.tables, hidden=hidden, zero_dates=date_policy(self.options))

    def log(self, replicator: str) -> MySqlLog:
        """On the shared connection."""
        return MySqlLog(self._open(), self.config, replicator)

    def log_reader(self, replicator: str, options: ReadOptions) -> BinlogReader:
        """The decoder is loaded here: processes that only test connections do without it."""
        from replicator.sources.mysql.stream.reader import BinlogReader  # noqa: PLC0415

        return BinlogReader(self.config, options, replicator, watermark_table(self.config.watermark_database))

    def snapshot_reader(self, replicator: str, options: ReadOptions) -> MySqlSnapshotReader:
        """Return a reader with its own connections."""
        return MySqlSnapshotReader(self.config, options, replicator, self.tables)

    def _connect(self) -> Connection:
        return connect(self.config)

    def _answers(self, connection: Connection) -> bool:
        try:
            connection.ping(reconnect=False)
        except Exception:  # noqa: BLE001 - any error: the connection is replaced
            return False
        return True

    def _cancel(self, connection: Connection | None) -> None:
        cancel(self.config, connection)

    def close(self) -> None:
        """Closes the shared connection, unless the server has."""
        if self._connection is not None and not self._connection.open:
            self._connection = None
        super().close()


def open_source(settings: Mapping[str, Any]) -> MySqlSource:
    """From the form's values; connects when first used."""
    return MySqlSource(MySqlConfig.parse(settings))
