"""Reading tables: marks, key bounds, chunks.  DESIGN.md "Snapshots"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from replicator.errors import TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import Chunk, KeyRange, ReadOptions
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.catalog.key_range_sql import MySqlKeyRanges, read_key, select_key
from replicator.sources.mysql.catalog.storage_engines import TRANSACTIONAL, canonical
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import Connection, cancel, connect, quoted
from replicator.sources.mysql.snapshot.result_stream import ResultStream, read_rows
from replicator.sources.mysql.snapshot.text_values import RowConverter, select_expression
from replicator.sources.mysql.watermark import WatermarkTable
from replicator.sources.shared.conditions import users_fault
from replicator.sources.shared.date_policy import date_policy
from replicator.sources.shared.snapshot_reader import SqlSnapshotReader

_LOCK_SECONDS = 2  # a locked table is tried again, and must not keep the reader from the others


class MySqlSnapshotReader(SqlSnapshotReader[TableDescription, Connection]):
    """Of MySQL and MariaDB."""

    def __init__(
        self, config: MySqlConfig, options: ReadOptions, replicator: str, tables: TableSet | None = None
    ) -> None:
        """`tables`: its excluded columns are never selected."""
        super().__init__(options, tables)
        self._config = config
        self._watermarks = WatermarkTable(config.watermark_database, replicator)
        self._stream: ResultStream | None = None

    def mark(self, token: str) -> None:
        """Write a watermark into the log; returns when it is committed."""
        if self._marking is None or not self._marking.open:
            self._marking = connect(self._config)
        try:
            self._watermarks.write(self._marking, token)
        except TidemarkError:
            self._marking.close()
            raise

    def _found(
        self, connection: Connection, tables: Sequence[TableId]
    ) -> Mapping[TableId, TableDescription | TableError]:
        catalog = MySqlCatalog(connection, zero_dates=date_policy(self._options), left_out=self._tables)
        return catalog.details(tables)

    def _has_bounds(self, description: TableDescription) -> bool:
        return description.bounded

    def _read_key(self, description: TableDescription, row: Sequence[Any]) -> tuple[str, ...]:
        return read_key(description, row)

    def _first_key(
        self, description: TableDescription, rows: KeyRange, order: str, passed: int = 0
    ) -> list[tuple[Any, ...]]:
        """Return the key of one of these rows in this order, after skipping `passed` rows; empty if there is none.

        With a condition, the server chooses the index.
        """
        table = description.schema.table
        ranges = MySqlKeyRanges(description)
        place = f"ORDER BY {ranges.order_by(order)} LIMIT 1 OFFSET {passed}"
        source = _name(table) if rows.condition else _indexed(description)
        with users_fault(table, asked=rows.asked):
            return self._rows(
                table, f"SELECT {select_key(description)} FROM {source} WHERE {ranges.selected(rows)} {place}"
            )

    def read_chunk(self, table: TableId, bounds: KeyRange) -> Chunk:
        """One SELECT, streamed.  Raises TableDisappeared and other errors of the table."""
        description = self._describe(table)
        source = _indexed(description) if bounds.bounded else _name(table)
        where = "" if bounds == KeyRange() else f" WHERE {MySqlKeyRanges(description).selected(bounds)}"
        with users_fault(table, asked=bounds.asked):
            chunk = self._chunk(description, source + where)
        return self._as_asked(chunk, table, bounds)

    def read_table(self, table: TableId, opened: str) -> Chunk:
        """For a table without key: all its rows as of one moment; writes the mark `opened` right after that moment.

        An engine without transactions has no such moment: the mark comes after the last row, so the window is the read.
        """
        connection = self._connection()
        description = self._describe(table)
        if canonical(description.engine) not in TRANSACTIONAL:
            return self._chunk(description, _name(table), lambda: self.mark(opened))
        try:
            read_rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT", table)
            self.mark(opened)
            return self._chunk(description, _name(table), lambda: _commit(connection, table))
        except TidemarkError:
            _cut(connection)  # the next call must not see this transaction's moment
            raise

    def cancel(self) -> None:
        """Both connections'."""
        cancel(self._config, self._reading, self._marking)

    def close(self) -> None:
        """Ends a read that is under way, too."""
        self._abandon()
        for connection in (self._reading, self._marking):
            if connection is not None and connection.open:
                _cut(connection)

    def _connection(self) -> Connection:
        self._abandon()
        if self._reading is None or not self._reading.open:
            self._reading = connect(self._config)
            read_rows(self._reading, f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}", self._config.host)
        return self._reading

    def _abandon(self) -> None:
        """Rows of a read that was left early are still on their way."""
        stream, self._stream = self._stream, None
        if stream is not None and not stream.done and self._reading is not None and self._reading.open:
            with suppress(TidemarkError):
                cancel(self._config, self._reading)  # it may have no row to send for long, and so not notice
            _cut(self._reading)

    def _rows(self, table: TableId, sql: str) -> list[tuple[Any, ...]]:
        connection = self._connection()
        try:
            return read_rows(connection, sql, table)
        except TidemarkError:
            connection.close()
            raise

    def _chunk(self, description: TableDescription, source: str, finish: Callable[[], None] | None = None) -> Chunk:
        """`finish` is called when the last row has been read, before the last batch is given."""
        columns = ", ".join(select_expression(definition) for definition in description.definitions)
        stream = ResultStream(
            self._reading_connection(),
            f"SELECT {columns} FROM {source}",
            description.schema.table,
            batch_rows=self._options.batch_rows,
            batch_bytes=self._options.batch_bytes,
        )
        self._stream = stream
        converter = RowConverter(description, date_policy(self._options))
        return Chunk(description.schema, self._convert(stream, converter, finish), converter.zero_dates)

    def _reading_connection(self) -> Connection:
        assert self._reading is not None  # opened by _describe
        return self._reading

    def _convert(
        self, stream: ResultStream, converter: RowConverter, finish: Callable[[], None] | None
    ) -> Iterator[pa.RecordBatch]:
        try:
            for arrays in stream.batches():
                yield converter.batch(arrays)
            if finish is not None:
                finish()
        finally:
            self.replaced += converter.nulled


def _commit(connection: Connection, table: TableId) -> None:
    read_rows(connection, "COMMIT", table)


def _name(table: TableId) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"


def _indexed(description: TableDescription) -> str:
    """The table read through its key: the optimizer must not sort the table for each chunk."""
    key = description.key
    force = f" FORCE INDEX ({quoted(key.name)})" if key is not None and key.usable else ""
    return _name(description.schema.table) + force


def _cut(connection: Connection) -> None:
    """Close without reading what the server still sends."""
    connection._force_close()  # type: ignore[attr-defined]  # noqa: SLF001
