"""The redo log as a whole: where it ends, and what a replicator leaves on the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC

from replicator.errors import LogPurged, SourceMisconfigured, SourcePermissionDenied
from replicator.model.offset import Offset
from replicator.model.table_set import TableSet
from replicator.sources.base import WITHOUT_END, LogHeld, SourceLoad, SourceState, SourceWait
from replicator.sources.oracle.config import OracleConfig
from replicator.sources.oracle.connection import Connection, close, connect, read_rows
from replicator.sources.oracle.container import oldest_transaction
from replicator.sources.oracle.offset import ScnOffset
from replicator.sources.oracle.stream.log_files import kept_bytes
from replicator.sources.oracle.watermark import WatermarkTable

_STATE = (
    "SELECT dbid, resetlogs_change#, log_mode, supplemental_log_data_min, current_scn, SYS_EXTRACT_UTC(SYSTIMESTAMP)"
    " FROM v$database"
)
_BUSY = "SELECT COUNT(*) FROM v$session WHERE status = 'ACTIVE' AND type = 'USER'"
MINIMAL = "ALTER DATABASE ADD SUPPLEMENTAL LOG DATA;"
ARCHIVELOG = "SHUTDOWN IMMEDIATE; STARTUP MOUNT; ALTER DATABASE ARCHIVELOG; ALTER DATABASE OPEN;"


class OracleLog:
    """A MeasuredLog (replicator.sources.base).

    The server retains its log by its own rules, regardless of its readers.
    """

    def __init__(self, connection: Connection, config: OracleConfig, replicator: str) -> None:
        self._connection, self._config, self._replicator = connection, config, replicator

    def state(self) -> SourceState:
        """SourceMisconfigured where the log is not kept, lacks what LogMiner needs, or the account does not see which
        transactions are open.
        """
        before = int(read_rows(self._connection, "SELECT current_scn FROM v$database", self._config.where)[0][0])
        oldest = oldest_transaction(self._connection, self._config)
        found = read_rows(self._connection, _STATE, self._config.where)[0]
        dbid, incarnation, mode, minimal, scn, at = found
        if mode != "ARCHIVELOG":
            raise SourceMisconfigured("The database does not archive its redo log.", remedy=ARCHIVELOG)
        if minimal == "NO":
            raise SourceMisconfigured("Supplemental logging is off.", remedy=MINIMAL)
        restart = min(before, oldest) if oldest else before
        offset = ScnOffset(int(scn), restart, int(incarnation or 0))
        return SourceState(offset, f"oracle-{int(dbid)}", at.replace(tzinfo=UTC), str(self._connection.version))

    def prepare(self, tables: TableSet, *, first: bool, waiting: SourceWait = WITHOUT_END) -> SourceState:
        """The first place is written down at the source.  Supplemental logging of tables is the administrator's, and
        the connection test asks for it.

        LogPurged comes with the first reading.
        """
        del tables, waiting
        found = self.state()
        if first:
            assert isinstance(found.offset, ScnOffset)
            with self._marks() as (marks, own):
                marks.flush(own, found.offset.scn)
        return found

    def held(self, checkpoint: Offset | None) -> LogHeld | None:
        """The files from the checkpoint on.

        The server deletes them by its own rules, whether they were read or not.
        """
        if checkpoint is None:
            return None
        assert isinstance(checkpoint, ScnOffset)
        try:
            return LogHeld(kept_bytes(self._connection, checkpoint.low, self._config.where), "redo log")
        except LogPurged:
            return LogHeld(None, "purged", lost=True)
        except SourcePermissionDenied:
            return None

    def load(self) -> SourceLoad:
        """Sessions that are busy."""
        try:
            return SourceLoad(max(int(read_rows(self._connection, _BUSY, self._config.where)[0][0]) - 1, 0))
        except SourcePermissionDenied:
            return SourceLoad(0)

    def remove(self) -> None:
        """The replicator's rows of the watermark table; they stay, and do no harm, where the user may not delete."""
        with self._marks() as (marks, own):
            marks.forget(own)

    @contextmanager
    def _marks(self) -> Iterator[tuple[WatermarkTable, Connection]]:
        own = connect(self._config)
        try:
            yield WatermarkTable(self._config, self._replicator), own
        finally:
            close(own)
