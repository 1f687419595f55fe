"""Reading tables: marks, key bounds, chunks (ADR 52)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from replicator.errors import TableBusy, TableError, TableNotRead, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import Chunk, KeyRange, ReadOptions
from replicator.sources.shared.conditions import users_fault
from replicator.sources.shared.snapshot_reader import SqlSnapshotReader
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.catalog.key_range_sql import SqlServerKeyRanges, read_key, select_key
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.config import Capture, ChunkReads, SqlServerConfig
from replicator.sources.sqlserver.connection import SqlServerSession, connect
from replicator.sources.sqlserver.dialect import quoted, table_name
from replicator.sources.sqlserver.rows.values import converted, select_list
from replicator.sources.sqlserver.tracking import change_tracking
from replicator.sources.sqlserver.watermark import write_mark

_SNAPSHOT, _COMMITTED = (f"SET TRANSACTION ISOLATION LEVEL {level}" for level in ("SNAPSHOT", "READ COMMITTED"))
# Row locks regardless of READ_COMMITTED_SNAPSHOT: what a commit before the low mark wrote is seen, or waited for.
_LOCKING = " WITH (READCOMMITTEDLOCK)"
_ALLOWED = "SELECT snapshot_isolation_state FROM sys.databases WHERE database_id = DB_ID()"


class SqlServerSnapshotReader(SqlSnapshotReader[TableDescription, SqlServerSession]):
    """Of one database."""

    def __init__(
        self, config: SqlServerConfig, options: ReadOptions, replicator: str, tables: TableSet | None = None
    ) -> None:
        """`tables`: its excluded columns are never selected."""
        super().__init__(options, tables)
        self._config, self._replicator = config, replicator
        self._under_way = False
        self._tracking = config.capture is Capture.TRACKING
        self._write_mark = change_tracking.write_mark if self._tracking else write_mark
        self._hint = _LOCKING if config.chunk_reads is ChunkReads.LOCKING else ""

    def mark(self, token: str) -> None:
        """Write a mark to the watermark table, which the log reader follows; return when it is committed."""
        connection = self._marker()
        try:
            self._write_mark(connection, self._config.watermark_schema, self._replicator, token)
        except TidemarkError:
            connection.close()
            raise

    def read_chunk(self, table: TableId, bounds: KeyRange) -> Chunk:
        """One SELECT, streamed.  Raises TableDisappeared and other errors of the table, TableBusy among them."""
        description = self._describe(table)
        self._require_captured(description)
        with users_fault(table, asked=bounds.asked):
            where = SqlServerKeyRanges(description).selected(bounds)
        chunk = self._chunk(description, f"{table_name(table)}{self._hint} WHERE {where}")
        return self._as_asked(chunk, table, bounds)

    def read_table(self, table: TableId, opened: str) -> Chunk:
        """Read a table without key.

        Where SNAPSHOT isolation is allowed, all its rows are as of a moment at which no transaction was writing it.  A
        shared lock on the table is held while the view is opened and the mark is written; the mark's commit releases
        it.  Elsewhere the mark comes after the last row, so the window is the read.
        """
        connection, description = self._connection(), self._describe(table)
        self._require_captured(description)
        if not connection.rows(_ALLOWED, connection.where)[0][0]:
            return self._chunk(description, f"{table_name(table)}{_LOCKING}", lambda: self.mark(opened))
        try:
            self._open_view(connection, table, opened)
        except TidemarkError:
            connection.close()
            raise
        return self._chunk(description, table_name(table), lambda: self._close_view(connection, table))

    def cancel(self) -> None:
        """Both connections'."""
        for connection in (self._reading, self._marking):
            if connection is not None:
                connection.cancel()

    def close(self) -> None:
        """Ends a read that is under way, too."""
        for connection in (self._reading, self._marking):
            if connection is not None:
                connection.close()
        self._reading = self._marking = None

    def _open_view(self, connection: SqlServerSession, table: TableId, opened: str) -> None:
        name, marker = table_name(table), self._marker()
        try:
            marker.run("BEGIN TRANSACTION", table)
            marker.rows(f"SELECT TOP (0) 1 FROM {name} WITH (TABLOCK, HOLDLOCK)", table)
            connection.run(f"{_SNAPSHOT}; BEGIN TRANSACTION", table)
            connection.rows(f"SELECT TOP (1) 1 FROM {name}", table)  # the view is that of the first access to data
            self._write_mark(marker, self._config.watermark_schema, self._replicator, opened)
            marker.run("COMMIT TRANSACTION", table)
        except TidemarkError:
            marker.close()  # with its lock
            raise

    def _close_view(self, connection: SqlServerSession, table: TableId) -> None:
        connection.run(f"COMMIT TRANSACTION; {_COMMITTED}", table)

    def _require_captured(self, description: TableDescription) -> None:
        """TableBusy: rows that are read before would lack what changes meanwhile."""
        table = description.schema.table
        if self._tracking and description.since is None:
            raise TableBusy(f"{table} is not tracked yet.", table=str(table))
        if not self._tracking and description.newest is None:
            raise TableBusy(f"{table} has no capture instance yet.", table=str(table))

    def _marker(self) -> SqlServerSession:
        if self._marking is None or not self._marking.open:
            self._marking = connect(self._config)
        return self._marking

    def _connection(self) -> SqlServerSession:
        if self._under_way and self._reading is not None:  # rows of a read that was left early
            self._reading.close()
        self._under_way = False
        if self._reading is None or not self._reading.open:
            self._reading = connect(self._config)
            if self._config.chunk_reads is ChunkReads.SNAPSHOT:
                self._reading.run(_SNAPSHOT, self._reading.where)
        return self._reading

    def _found(
        self, connection: SqlServerSession, tables: Sequence[TableId]
    ) -> Mapping[TableId, TableDescription | TableError]:
        return SqlServerCatalog(connection, self._tables, capture=self._config.capture).details(tables)

    def _has_bounds(self, description: TableDescription) -> bool:
        return bool(description.schema.key)

    def _read_key(self, description: TableDescription, row: Sequence[Any]) -> tuple[str, ...]:
        return read_key(description, row)

    def _first_key(
        self, description: TableDescription, rows: KeyRange, order: str, passed: int = 0
    ) -> list[tuple[Any, ...]]:
        table, ranges = description.schema.table, SqlServerKeyRanges(description)
        with users_fault(table, asked=rows.asked):
            connection = self._connection()
            return connection.rows(
                f"SELECT {select_key(description)} FROM {table_name(table)}{self._hint} WHERE {ranges.selected(rows)} "
                f"ORDER BY {ranges.order_by(order)} OFFSET {passed} ROWS FETCH NEXT 1 ROWS ONLY",
                table,
            )

    def _chunk(self, description: TableDescription, source: str, finish: Callable[[], None] = lambda: None) -> Chunk:
        """`finish` is called when the last row has been read."""
        assert self._reading is not None  # opened by _describe
        names = [quoted(one.name) for one in description.definitions]
        sql = f"SELECT {select_list(description.definitions, names)} FROM {source}"
        self._under_way = True
        return Chunk(description.schema, self._batches(self._reading, description, sql, finish))

    def _batches(
        self, connection: SqlServerSession, description: TableDescription, sql: str, finish: Callable[[], None]
    ) -> Iterator[pa.RecordBatch]:
        schema, table = description.schema, description.schema.table
        for batch in connection.batches(sql, table, self._options.batch_rows, self._options.batch_bytes):
            if batch.num_rows:
                columns = zip(batch.columns, schema.columns, strict=True)
                arrays = [converted(array, column, str(table)) for array, column in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema.row_arrow)
        finish()
        self._require_unchanged(connection, description)
        self._under_way = False

    def _require_unchanged(self, connection: SqlServerSession, description: TableDescription) -> None:
        """A statement between the description and the SELECT may have widened a column beyond what was selected."""
        table = description.schema.table
        now = self._found(connection, [table]).get(table)
        if not isinstance(now, TableDescription) or (now.number, now.columns) != (
            description.number,
            description.columns,
        ):
            raise TableNotRead(f"The definition of {table} changed while it was read.", table=str(table))
