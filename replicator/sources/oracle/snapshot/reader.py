"""Reading tables: marks, key bounds, chunks.  DESIGN.md "Snapshots".

A chunk is one query AS OF SCN: the SCN is taken behind the low mark and before the table is described, and Oracle
refuses the query where the definition changed after it (ORA-01466): so the description held.  What a query shows goes
by the SCN, as the order of commits in the log does: marks and log need no more than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from replicator.errors import TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import Chunk, KeyRange, ReadOptions
from replicator.sources.oracle.catalog.catalog import OracleCatalog
from replicator.sources.oracle.catalog.key_range_sql import OracleKeyRanges, read_key, select_key
from replicator.sources.oracle.catalog.selected_columns import SelectedColumns, longest_lob, require_fit
from replicator.sources.oracle.catalog.table_description import TableDescription
from replicator.sources.oracle.config import OracleConfig
from replicator.sources.oracle.connection import Connection, cancel, close, connect, read_rows, translated
from replicator.sources.oracle.dialect import quoted
from replicator.sources.oracle.watermark import WatermarkTable
from replicator.sources.shared.conditions import users_fault
from replicator.sources.shared.date_policy import date_policy
from replicator.sources.shared.snapshot_reader import SqlSnapshotReader

_NOW = "SELECT current_scn FROM v$database"


class OracleSnapshotReader(SqlSnapshotReader[TableDescription, Any]):
    """Of one database."""

    def __init__(
        self, config: OracleConfig, options: ReadOptions, replicator: str, tables: TableSet | None = None
    ) -> None:
        """`tables`: its excluded columns are never selected."""
        super().__init__(options, tables)
        self._config = config
        self._watermarks = WatermarkTable(config, replicator)
        self._under_way = False

    def mark(self, token: str) -> None:
        """Write a watermark into the log; returns when it is committed."""
        if self._marking is None:
            self._marking = connect(self._config)
        try:
            self._watermarks.write(self._marking, token)
        except TidemarkError:
            self._marking = self._closed(self._marking)
            raise

    def _found(
        self, connection: Connection, tables: Sequence[TableId]
    ) -> Mapping[TableId, TableDescription | TableError]:
        dates = date_policy(self._options)
        catalog = OracleCatalog(connection, lobs=self._config.lobs, zero_dates=dates, left_out=self._tables)
        return catalog.details(tables)

    def _details(self, tables: Sequence[TableId]) -> Mapping[TableId, TableDescription | TableError]:
        try:
            return super()._details(tables)
        except TidemarkError:
            self._reading = None  # closed there
            raise

    def _has_bounds(self, description: TableDescription) -> bool:
        return description.bounded

    def _read_key(self, description: TableDescription, row: Sequence[Any]) -> tuple[str, ...]:
        return read_key(description, row)

    def _first_key(
        self, description: TableDescription, rows: KeyRange, order: str, passed: int = 0
    ) -> list[tuple[Any, ...]]:
        table, ranges = description.schema.table, OracleKeyRanges(description)
        sql = (
            f"SELECT {select_key(description)} FROM {_name(table)} WHERE {ranges.selected(rows)}"
            f" ORDER BY {ranges.order_by(order)} OFFSET {passed} ROWS FETCH NEXT 1 ROWS ONLY"
        )
        with users_fault(table, asked=rows.asked):
            return self._rows(table, sql)

    def read_chunk(self, table: TableId, bounds: KeyRange) -> Chunk:
        """One SELECT, streamed.  Raises TableDisappeared and other errors of the table; one that is retried where the
        server has the rows of that SCN no more (ORA-01555), or another definition since (ORA-01466).
        """
        scn, description = self._open(table)
        with users_fault(table, asked=bounds.asked):
            chunk = self._chunk(description, scn, OracleKeyRanges(description).selected(bounds))
        return self._as_asked(chunk, table, bounds)

    def read_table(self, table: TableId, opened: str) -> Chunk:
        """For a table without key: all its rows as of one moment; writes the mark `opened` right after that moment."""
        scn, description = self._open(table, opened)
        return self._chunk(description, scn, "")

    def cancel(self) -> None:
        """Both connections'."""
        cancel(self._reading, self._marking)

    def close(self) -> None:
        """Ends a read that is under way, too."""
        self._abandon()
        self._reading, self._marking = self._closed(self._reading), self._closed(self._marking)

    @staticmethod
    def _closed(connection: Connection | None) -> None:
        close(connection)

    def _connection(self) -> Connection:
        self._abandon()
        if self._reading is None:
            self._reading = connect(self._config)
        return self._reading

    def _abandon(self) -> None:
        """Rows of a read that was left early are still on their way."""
        if self._under_way:
            self._under_way = False
            self._reading = self._closed(self._reading)

    def _rows(self, where: TableId, sql: str) -> list[tuple[Any, ...]]:
        connection = self._connection()
        try:
            return read_rows(connection, sql, where)
        except TidemarkError as error:
            if not error.answered:
                self._reading = self._closed(connection)
            raise

    def _open(self, table: TableId, opened: str = "") -> tuple[int, TableDescription]:
        """An SCN, and the table as it was then or is now, which a query of that SCN tells.  The mark `opened` follows
        the SCN.
        """
        connection = self._connection()
        with suppress(KeyError):
            del self._known[table]
        try:
            scn = int(read_rows(connection, _NOW, self._config.where)[0][0])
        except TidemarkError:
            self._reading = self._closed(connection)
            raise
        if opened:
            self.mark(opened)
        return scn, self._describe(table)

    def _chunk(self, description: TableDescription, scn: int, condition: str) -> Chunk:
        schema = description.schema
        columns = SelectedColumns(description, date_policy(self._options))
        rows = f"{_name(schema.table)} AS OF SCN {scn}{f' WHERE {condition}' if condition else ''}"
        size = self._batch_rows(description, rows)
        assert self._reading is not None
        with translated(schema.table):
            sql = f"SELECT {columns.sql} FROM {rows}"
            batches = iter(self._reading.fetch_df_batches(sql, size=size, fetch_decimals=True))
        self._under_way = True
        first = self._next(batches, schema.table)  # what the server has against it is said here
        return Chunk(schema, self._convert(schema.table, first, batches, columns), columns.replaced)

    def _batch_rows(self, description: TableDescription, rows: str) -> int:
        """Return the rows of a batch that fit in `batch_bytes` if all values have their greatest possible length.

        For large objects, the longest one counts.  The least is 100 rows; 1 with large objects.
        """
        width = sum(one.size * 4 if one.size else 32 for one in description.definitions)
        least = 100
        if longest := longest_lob(description):
            least, found = 1, self._rows(description.schema.table, f"SELECT {longest} FROM {rows}")
            require_fit(description.schema.table, int(found[0][0] or 0))
            width += int(found[0][0] or 0)
        return max(min(self._options.batch_rows, self._options.batch_bytes // max(width, 1)), least)

    def _next(self, batches: Iterator[Any], table: TableId) -> Any:
        try:
            with translated(table):
                return next(batches, None)
        except TidemarkError:
            self._abandon()
            raise

    def _convert(
        self, table: TableId, first: Any, batches: Iterator[Any], columns: SelectedColumns
    ) -> Iterator[pa.RecordBatch]:
        one = first
        while one is not None:
            rows = pa.table(one)
            del one
            converted = columns.convert(rows)
            self.replaced += columns.total
            if rows.num_rows:
                yield converted
            one = self._next(batches, table)
        self._under_way = False


def _name(table: TableId) -> str:
    return quoted(table.database, table.name)
