"""The file as a source, and its log as a whole."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from datetime import UTC, datetime

from replicator.errors import SourceMisconfigured
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.sources.base import WITHOUT_END, CheckResult, ReadOptions, SourceLog, SourceState, SourceWait
from replicator.sources.shared.source import ServerSource
from tests.plugins.sqlite_log.catalog import SqliteCatalog
from tests.plugins.sqlite_log.change_log import ABOUT, LOG, MARK
from tests.plugins.sqlite_log.check import run_checks
from tests.plugins.sqlite_log.config import SqliteConfig
from tests.plugins.sqlite_log.database import connect, translated
from tests.plugins.sqlite_log.log_reader import SqliteLogReader
from tests.plugins.sqlite_log.offset import RowOffset
from tests.plugins.sqlite_log.snapshot_reader import SqliteSnapshotReader


class SqliteLog(SourceLog):
    """All tables are in it; nothing is kept for a reader."""

    def __init__(self, connection: sqlite3.Connection, replicator: str) -> None:
        self._connection, self._replicator = connection, replicator

    def state(self) -> SourceState:
        """SourceMisconfigured where there is no log."""
        with translated(LOG):
            if not self._connection.execute(f"SELECT 1 FROM sqlite_master WHERE name = '{LOG}'").fetchone():
                raise SourceMisconfigured("The file has no log.")
            [(identity, row)] = self._connection.execute(
                f"SELECT identity, max(purged, COALESCE((SELECT max(row) FROM {LOG}), 0)) FROM {ABOUT}"
            ).fetchall()
        return SourceState(RowOffset(row), identity, datetime.now(UTC), f"SQLite {sqlite3.sqlite_version}")

    def prepare(self, tables: TableSet, *, first: bool, waiting: SourceWait = WITHOUT_END) -> SourceState:
        """Nothing is missing."""
        del tables, first, waiting
        return self.state()

    def remove(self) -> None:
        """The replicator's marks."""
        with translated(LOG):
            self._connection.execute(f"DELETE FROM {LOG} WHERE what = '{MARK}' AND name = ?", (self._replicator,))


class SqliteSource(ServerSource[SqliteConfig, sqlite3.Connection]):
    """One file."""

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        """The connection test."""
        return run_checks(self.config, tables)

    def _asked_names(self) -> NameRule:
        """As they are written: SQLite would take others for the same, and the toy does not."""
        return EXACT_NAMES

    def catalog(self) -> SqliteCatalog:
        """On the shared connection."""
        return SqliteCatalog(self._open(), self.tables)

    def log(self, replicator: str) -> SqliteLog:
        """On the shared connection."""
        return SqliteLog(self._open(), replicator)

    def log_reader(self, replicator: str, options: ReadOptions) -> SqliteLogReader:
        """With its own connection."""
        return SqliteLogReader(self.config, options, replicator)

    def snapshot_reader(self, replicator: str, options: ReadOptions) -> SqliteSnapshotReader:
        """With its own connections."""
        return SqliteSnapshotReader(self.config, options, replicator, self.tables)

    def _connect(self) -> sqlite3.Connection:
        return connect(self.config)

    def _answers(self, connection: sqlite3.Connection) -> bool:
        try:
            connection.execute("SELECT 1")
        except sqlite3.Error:
            return False
        return True

    def _cancel(self, connection: sqlite3.Connection | None) -> None:
        if connection is not None:
            with suppress(sqlite3.ProgrammingError):  # closed meanwhile
                connection.interrupt()
