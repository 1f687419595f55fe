"""Oracle as a source: the plugin's front door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.sources.base import CheckResult, ReadOptions
from replicator.sources.oracle.catalog.catalog import OracleCatalog
from replicator.sources.oracle.check.checks import run_checks
from replicator.sources.oracle.config import OracleConfig
from replicator.sources.oracle.connection import answers, cancel, close, connect
from replicator.sources.oracle.stream.log_retention import OracleLog
from replicator.sources.shared.date_policy import date_policy
from replicator.sources.shared.source import ServerSource

if TYPE_CHECKING:
    from replicator.sources.oracle.snapshot.reader import OracleSnapshotReader
    from replicator.sources.oracle.stream.reader import LogMinerReader


class OracleSource(ServerSource[OracleConfig, Any]):
    """One database, or one pluggable database of it."""

    def __init__(self, config: OracleConfig, tables: TableSet | None = None) -> None:
        super().__init__(config, tables)
        self._root: Any = None

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        """The connection test; never raises for what it tests."""
        return run_checks(self.config, tables)

    def _asked_names(self) -> NameRule:
        """As the dictionary stores them: in capitals, unless they were quoted."""
        return EXACT_NAMES

    def catalog(self) -> OracleCatalog:
        """Discovery on the shared connection."""
        return OracleCatalog(
            self._open(), lobs=self.config.lobs, zero_dates=date_policy(self.options), left_out=self.tables
        )

    def log(self, replicator: str) -> OracleLog:
        """Return the log, on a separate connection to the root for a pluggable database; else on the shared one."""
        if not self.config.pdb:
            return OracleLog(self._open(), self.config, replicator)
        if self._root is None or not answers(self._root):
            close(self._root)
            self._root = connect(self.config, root=True)
        return OracleLog(self._root, self.config, replicator)

    def log_reader(self, replicator: str, options: ReadOptions) -> LogMinerReader:
        """The decoder is loaded here: processes that only test connections do without it."""
        from replicator.sources.oracle.stream.reader import LogMinerReader  # noqa: PLC0415

        return LogMinerReader(self.config, options, replicator)

    def snapshot_reader(self, replicator: str, options: ReadOptions) -> OracleSnapshotReader:
        """Return a reader with its own connections."""
        from replicator.sources.oracle.snapshot.reader import OracleSnapshotReader  # noqa: PLC0415

        return OracleSnapshotReader(self.config, options, replicator, self.tables)

    def close(self) -> None:
        """Both connections."""
        close(self._root)
        self._root = None
        if self._connection is not None:
            close(self._connection)
        self._connection = None

    def _connect(self) -> Any:
        return connect(self.config)

    def _answers(self, connection: Any) -> bool:
        return answers(connection)

    def _cancel(self, connection: Any) -> None:
        cancel(connection, self._root)


def open_source(settings: Mapping[str, Any]) -> OracleSource:
    """From the form's values; connects when first used."""
    return OracleSource(OracleConfig.parse(settings))
