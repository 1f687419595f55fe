"""Postgres as a source: the plugin's front door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicator.errors import TidemarkError
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.sources.base import CheckResult, ReadOptions
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.check.checks import run_checks
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, cancel, connect, read_rows
from replicator.sources.postgres.stream.slot import ReplicationSlot
from replicator.sources.shared.date_policy import date_policy
from replicator.sources.shared.source import ServerSource

if TYPE_CHECKING:
    from replicator.sources.postgres.snapshot.reader import PostgresSnapshotReader
    from replicator.sources.postgres.stream.reader import PgOutputReader


class PostgresSource(ServerSource[PostgresConfig, Connection]):
    """One database of one server."""

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        """The connection test; never raises for what it tests."""
        return run_checks(self.config, tables)

    def _asked_names(self) -> NameRule:
        """As they are; the server is not asked."""
        return EXACT_NAMES

    def catalog(self) -> PostgresCatalog:
        """Discovery on the shared connection."""
        return PostgresCatalog(self._open(), zero_dates=date_policy(self.options), left_out=self.tables)

    def log(self, replicator: str) -> ReplicationSlot:
        """On the shared connection."""
        return ReplicationSlot(self._open(), self.config, replicator)

    def log_reader(self, replicator: str, options: ReadOptions) -> PgOutputReader:
        """The decoder is loaded here: processes that only test connections do without it."""
        from replicator.sources.postgres.stream.reader import PgOutputReader  # noqa: PLC0415

        return PgOutputReader(self.config, options, replicator)

    def snapshot_reader(self, replicator: str, options: ReadOptions) -> PostgresSnapshotReader:
        """Return a reader with its own connections."""
        from replicator.sources.postgres.snapshot.reader import PostgresSnapshotReader  # noqa: PLC0415

        return PostgresSnapshotReader(self.config, options, replicator, self.tables)

    def _connect(self) -> Connection:
        return connect(self.config)

    def _answers(self, connection: Connection) -> bool:
        try:
            read_rows(connection, "SELECT 1", self.config.where)
        except TidemarkError:  # any error: the connection is replaced
            return False
        return True

    def _cancel(self, connection: Connection | None) -> None:
        cancel(self.config, connection)


def open_source(settings: Mapping[str, Any]) -> PostgresSource:
    """From the form's values; connects when first used."""
    return PostgresSource(PostgresConfig.parse(settings))
