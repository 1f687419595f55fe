"""MySQL and MariaDB as a source: the plugin's front door."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from replicator.model.identifiers import TableSet
from replicator.sources.base import CheckResult, ReadOptions, SourceState
from replicator.sources.mysql.catalog import MySqlCatalog
from replicator.sources.mysql.check import run_checks
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import Connection, connect, literal, server_is_mariadb
from replicator.sources.mysql.log_status import log_end
from replicator.sources.mysql.offset import BinlogOffset
from replicator.sources.mysql.result_stream import read_rows
from replicator.sources.mysql.snapshot import MySqlSnapshotReader
from replicator.sources.mysql.watermark import watermark_table

if TYPE_CHECKING:
    from replicator.sources.mysql.log import BinlogReader


class MySqlSource:
    """One server.  Catalog and state share one connection, opened when first used; readers have their own.

    `tables`, where set, tells the columns that snapshots and schemas leave out; `options` how values are read, on which
    their types depend.
    """

    def __init__(self, config: MySqlConfig, tables: TableSet | None = None) -> None:
        self.config = config
        self.tables = tables
        self.options = ReadOptions()
        self._connection: Connection | None = None

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        """The connection test; never raises for what it tests."""
        return run_checks(self.config, tables)

    def catalog(self) -> MySqlCatalog:
        """Discovery on the shared connection."""
        hidden = frozenset({self.config.watermark_database})
        return MySqlCatalog(self._open(), left_out=self.tables, hidden=hidden, zero_dates=self.options.zero_dates)

    def state(self) -> SourceState:
        """Where the log ends now.  SourceMisconfigured where the server writes none."""
        connection = self._open()
        mariadb = server_is_mariadb(connection)
        where = f"{self.config.host}:{self.config.port}"
        file, position, executed = log_end(connection, where)
        if mariadb:
            rows = read_rows(connection, f"SELECT BINLOG_GTID_POS({literal(file)}, {position})", where)
            executed = str(rows[0][0] or "")
        identity = "@@server_id" if mariadb else "@@server_uuid"
        row = read_rows(connection, f"SELECT {identity}, UTC_TIMESTAMP(6), VERSION()", where)[0]
        name = f"mariadb-{row[0]}" if mariadb else str(row[0])
        at = row[1] if isinstance(row[1], datetime) else datetime.now()  # noqa: DTZ005 - UTC is set below
        return SourceState(BinlogOffset(file, position, executed), name, at.replace(tzinfo=UTC), str(row[2]))

    def log_reader(self, replicator: str, options: ReadOptions) -> BinlogReader:
        """The decoder is loaded here: processes that only test connections do without it."""
        from replicator.sources.mysql.log import BinlogReader  # noqa: PLC0415

        return BinlogReader(self.config, options, replicator, watermark_table(self.config.watermark_database))

    def snapshot_reader(self, replicator: str, options: ReadOptions) -> MySqlSnapshotReader:
        """A reader with connections of its own."""
        return MySqlSnapshotReader(self.config, options, replicator, self.tables)

    def close(self) -> None:
        """Closes the shared connection."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _open(self) -> Connection:
        if self._connection is not None:
            try:
                self._connection.ping(reconnect=False)
            except Exception:  # noqa: BLE001 - whatever is wrong with it, a new one is made
                self.close()
        if self._connection is None:
            self._connection = connect(self.config)
        return self._connection


def open_source(settings: Mapping[str, Any]) -> MySqlSource:
    """From the form's values; connects when first used."""
    return MySqlSource(MySqlConfig.parse(settings))
