"""The binary log as a whole: where it ends, and what a replicator leaves on the server."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from replicator.errors import LogPurged, SourcePermissionDenied, SourceReplaced, TableDisappeared
from replicator.model.offset import Offset
from replicator.model.table_set import TableSet
from replicator.sources.base import WITHOUT_END, LogHeld, SourceLoad, SourceState, SourceWait
from replicator.sources.mysql.check.log_continuity import file_begun
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import Connection, literal, server_is_mariadb
from replicator.sources.mysql.offset import BinlogOffset
from replicator.sources.mysql.snapshot.result_stream import read_rows
from replicator.sources.mysql.stream.log_status import log_end
from replicator.sources.mysql.stream.resume_point import unread
from replicator.sources.mysql.watermark import WatermarkTable


class MySqlLog:
    """A MeasuredLog (replicator.sources.base).

    The server retains its log by its own settings, regardless of its readers.
    """

    def __init__(self, connection: Connection, config: MySqlConfig, replicator: str) -> None:
        self._connection, self._config, self._replicator = connection, config, replicator

    def state(self) -> SourceState:
        """Where the log ends now.  SourceMisconfigured where the server writes none."""
        connection, where = self._connection, f"{self._config.host}:{self._config.port}"
        mariadb = server_is_mariadb(connection)
        file, position, executed = log_end(connection, where)
        if mariadb:
            rows = read_rows(connection, f"SELECT BINLOG_GTID_POS({literal(file)}, {position})", where)
            executed = str(rows[0][0] or "")
        identity = "@@server_id" if mariadb else "@@server_uuid"
        row = read_rows(connection, f"SELECT {identity}, UTC_TIMESTAMP(6), VERSION()", where)[0]
        name = f"mariadb-{row[0]}" if mariadb else str(row[0])
        at = row[1] if isinstance(row[1], datetime) else datetime.now()  # noqa: DTZ005 - UTC is set below
        return SourceState(BinlogOffset(file, position, executed), name, at.replace(tzinfo=UTC), str(row[2]))

    def prepare(self, tables: TableSet, *, first: bool, waiting: SourceWait = WITHOUT_END) -> SourceState:
        """Nothing is missing: the log has all tables, and marks make their table themselves."""
        del tables, waiting
        state = self.state()
        if not first:
            return state
        assert isinstance(state.offset, BinlogOffset)
        past = file_begun(self._config, self._config.server_id_for(self._replicator), state.offset.file)
        return replace(state, offset=replace(state.offset, past=past))

    def held(self, checkpoint: Offset | None) -> LogHeld | None:
        """The files from the checkpoint on.

        The server deletes them by its own settings, whether they were read or not.
        """
        if checkpoint is None:
            return None
        assert isinstance(checkpoint, BinlogOffset)
        try:
            return LogHeld(unread(self._connection, checkpoint), "binary log")
        except LogPurged:
            return LogHeld(None, "purged", lost=True)
        except (SourceReplaced, SourcePermissionDenied):  # capture says the first
            return None

    def load(self) -> SourceLoad:
        """A primary does not know how far its replicas are behind."""
        rows = read_rows(self._connection, "SHOW GLOBAL STATUS LIKE 'Threads_running'", self._config.host)
        return SourceLoad(int(rows[0][1]) - 1 if rows else 0)  # this very question is one

    def remove(self) -> None:
        """The replicator's row of the watermark table; it stays, and does no harm, where the user may not delete it."""
        with suppress(TableDisappeared, SourcePermissionDenied):
            WatermarkTable(self._config.watermark_database, self._replicator).forget(self._connection)
