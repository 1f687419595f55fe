"""The one table that Tidemark writes on the source, in its account's schema: a row for each replicator, whose changes
are marks in the log, and one whose changes make the log writer write.
"""

from __future__ import annotations

from contextlib import suppress

from replicator.errors import ConfigurationError, SourcePermissionDenied, TableDisappeared
from replicator.model.identifiers import TableId
from replicator.sources.oracle.config import WATERMARK, OracleConfig
from replicator.sources.oracle.connection import Connection, commit, execute, read_rows
from replicator.sources.oracle.dialect import literal, quoted

MAX_REPLICATOR, MAX_TOKEN = 64, 255
_FLUSH = "flush:"  # before the replicator's name


def watermark_table(config: OracleConfig) -> TableId:
    """Where marks are written."""
    return TableId(config.watermark_owner, WATERMARK)


def create_statements(table: TableId) -> tuple[str, ...]:
    """SQL that makes the table; also the remedy that the user can paste."""
    name = quoted(table.database, table.name)
    return (
        f'CREATE TABLE {name} ("REPLICATOR" VARCHAR2(128) PRIMARY KEY, "TOKEN" VARCHAR2({MAX_TOKEN}) NOT NULL)',
        f"ALTER TABLE {name} ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS",
    )


class WatermarkTable:
    """Writes marks; makes the table at the first mark where it is missing."""

    def __init__(self, config: OracleConfig, replicator: str) -> None:
        if len(replicator) > MAX_REPLICATOR:
            message = f"The replicator's name has more than {MAX_REPLICATOR} characters."
            raise ConfigurationError(message)
        self.table, self._replicator = watermark_table(config), replicator
        self._name = quoted(self.table.database, self.table.name)

    def write(self, connection: Connection, token: str) -> None:
        """Returns when the mark is committed."""
        if len(token) > MAX_TOKEN:
            message = f"A mark has at most {MAX_TOKEN} characters."
            raise ValueError(message)
        self._written(connection, self._replicator, token)

    def flush(self, connection: Connection, scn: int) -> None:
        """A commit of ours: what was committed before it is in the log's files when it returns, for the log writer
        writes in order.  It says that up to this SCN will be read.
        """
        self._written(connection, _FLUSH + self._replicator, f"{scn:020}")

    def flushed(self, connection: Connection) -> int | None:
        """Return the highest SCN that `flush` has written; None if there is no such row or it holds no SCN."""
        name = literal(_FLUSH + self._replicator)
        with suppress(TableDisappeared, ValueError):
            found = read_rows(connection, f'SELECT "TOKEN" FROM {self._name} WHERE "REPLICATOR" = {name}', self.table)
            return int(found[0][0]) if found else None
        return None

    def token_of(self, replicator: str, token: str) -> str | None:
        """Of a row of the table in the log: our mark; None: another's."""
        return token if replicator == self._replicator else None

    def forget(self, connection: Connection) -> None:
        """Delete the replicator's rows; no error where there are none."""
        names = ", ".join(literal(prefix + self._replicator) for prefix in ("", _FLUSH))
        with suppress(TableDisappeared, SourcePermissionDenied):
            execute(connection, f'DELETE FROM {self._name} WHERE "REPLICATOR" IN ({names})', self.table)
            commit(connection, self.table)

    def _written(self, connection: Connection, replicator: str, token: str) -> None:
        value = literal(token)
        if replicator.startswith(_FLUSH):  # of several workers, the one that is behind takes nothing back
            value = f'GREATEST("TOKEN", {value})'
        update = f'UPDATE {self._name} SET "TOKEN" = {value} WHERE "REPLICATOR" = {literal(replicator)}'
        insert = f"INSERT INTO {self._name} VALUES ({literal(replicator)}, {literal(token)})"
        try:
            changed = execute(connection, update, self.table)
        except TableDisappeared:
            for statement in create_statements(self.table):
                execute(connection, statement, self.table)
            changed = 0
        if not changed:
            execute(connection, insert, self.table)
        commit(connection, self.table)
