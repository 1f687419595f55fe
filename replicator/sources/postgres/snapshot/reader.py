"""Reading tables: marks, key bounds, chunks.  DESIGN.md "Snapshots".

A chunk is one COPY in a REPEATABLE READ transaction whose pg_current_snapshot() is the chunk's evidence: which
transactions its rows show.  The table is locked (ACCESS SHARE) before the snapshot is taken: no DDL comes between
description and rows, and none that was committed before is missed by the snapshot (TRUNCATE and rewrites are not
MVCC-safe the other way round).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg2
import pyarrow as pa

from replicator.errors import TableBusy, TableError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import Chunk, KeyRange, ReadOptions
from replicator.sources.postgres.blocking_transactions import lock_holders, locked_by
from replicator.sources.postgres.catalog.attributes import TableDescription, as_published
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.catalog.key_range_sql import (
    PostgresKeyRanges,
    order_question,
    read_key,
    select_key,
    text_of,
)
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, cancel, connect, quoted, read_rows, translated
from replicator.sources.postgres.rows.columns import RowConverter, binary_exact
from replicator.sources.postgres.rows.tuples import BINARY, TEXT
from replicator.sources.postgres.snapshot.copy_rows import CopyRows
from replicator.sources.postgres.stream.slot import check_published
from replicator.sources.postgres.watermark import write_mark
from replicator.sources.shared.conditions import users_fault
from replicator.sources.shared.date_policy import date_policy
from replicator.sources.shared.snapshot_reader import SqlSnapshotReader

# Read by the index instead of sorting the table for each chunk, regardless of statistics; one process for one reader.
_BY_INDEX = "enable_seqscan = off"
_LOCK_TIMEOUT = "2s"  # a locked table is tried again, and must not keep the reader from the others
_SINGLE = "max_parallel_workers_per_gather = 0"
_MARKS_FLUSH = "SET synchronous_commit = local"  # overrides the role's default: an absent standby blocks no snapshot


class PostgresSnapshotReader(SqlSnapshotReader[TableDescription, Connection]):
    """Of one database."""

    def __init__(
        self, config: PostgresConfig, options: ReadOptions, replicator: str, tables: TableSet | None = None
    ) -> None:
        """`tables`: its excluded columns are never selected."""
        super().__init__(options, tables)
        self._config, self._replicator = config, replicator
        self._rows_under_way: CopyRows | None = None
        self._ordered: dict[tuple[int, str], bool] = {}

    def mark(self, token: str) -> None:
        """Write a watermark into the log; returns when it is flushed, and so on its way to the log's reader."""
        if self._marking is None or self._marking.closed:
            self._marking = connect(self._config)
            read_nothing(self._marking, _MARKS_FLUSH, self._config.where)
        try:
            write_mark(self._marking, self._replicator, token, self._config.where)
        except TidemarkError:
            self._marking.close()
            raise

    def _found(
        self, connection: Connection, tables: Sequence[TableId]
    ) -> Mapping[TableId, TableDescription | TableError]:
        catalog = PostgresCatalog(connection, zero_dates=date_policy(self._options), left_out=self._tables)
        return catalog.details(tables)

    def _read_key(self, description: TableDescription, row: Sequence[Any]) -> tuple[str, ...]:
        return read_key(description, row)

    def _first_key(
        self, description: TableDescription, rows: KeyRange, order: str, passed: int = 0
    ) -> list[tuple[Any, ...]]:
        """Return the key of one of these rows in this order, after skipping `passed` rows; empty if there is none.

        With a condition, the server chooses the index.
        """
        table = description.schema.table
        names, ranges = ", ".join(quoted(name) for name in description.schema.key), PostgresKeyRanges(description)
        one = (  # a subquery: beside the OFFSET, the key's text would be computed for every skipped row
            f"SELECT {names} FROM {_name(description)} WHERE {ranges.selected(rows)} "
            f"ORDER BY {ranges.order_by(order)} LIMIT 1 OFFSET {passed}"
        )
        sql = f"SELECT {select_key(description)} FROM ({one}) AS bound"
        with users_fault(table, asked=rows.asked):
            return self._select(table, sql, by_index=not rows.condition)

    def read_chunk(self, table: TableId, bounds: KeyRange) -> Chunk:
        """One COPY, streamed.  Raises TableDisappeared and other errors of the table, TableBusy among them."""
        evidence, description = self._open(table, bounded=bounds.bounded)
        with users_fault(table, asked=bounds.asked):
            chunk = self._chunk(description, evidence, PostgresKeyRanges(description).selected(bounds))
        return self._as_asked(chunk, table, bounds)

    def read_table(self, table: TableId, opened: str) -> Chunk:
        """For a table without key: all its rows as of one moment; writes the mark `opened` right after that moment."""
        evidence, description = self._open(table, bounded=False, opened=opened)
        return self._chunk(description, evidence, "TRUE")

    def cancel(self) -> None:
        """Both connections'."""
        cancel(self._config, self._reading, self._marking)

    def close(self) -> None:
        """Ends a read that is under way, too."""
        self._abandon()
        for connection in (self._reading, self._marking):
            if connection is not None and not connection.closed:
                connection.close()

    def _settled(self, cursor: Any, description: TableDescription, evidence: str) -> TableDescription:
        """With how it is published.

        What wrote the table before the log had its changes must have ended.  Raises TableBusy.
        """
        publication = self._config.publication_for(self._replicator)
        table, ours = description.schema.table, not self._config.publication
        return as_published(
            description, check_published(cursor, publication, table, description.oid, evidence, ours=ours)
        )

    def _connection(self) -> Connection:
        self._abandon()
        if self._reading is None or self._reading.closed:
            self._reading = connect(self._config)
            read_nothing(self._reading, f"SET {_SINGLE}; SET lock_timeout = '{_LOCK_TIMEOUT}'", self._config.where)
        return self._reading

    def _abandon(self) -> None:
        """Rows of a read that was left early are still on their way, and its transaction is open."""
        stream, self._rows_under_way = self._rows_under_way, None
        if stream is not None and not stream.done:
            with suppress(TidemarkError):
                cancel(self._config, self._reading)  # it may have no row to send for long, and so not notice
            stream.cut()

    def _has_bounds(self, description: TableDescription) -> bool:
        key = (description.oid, description.key_index)
        if key not in self._ordered:
            rows = self._select(description.schema.table, order_question(description))
            self._ordered[key] = bool(rows and rows[0][0]) and tuple(rows[0][1]) == description.schema.key
        return self._ordered[key]

    def _select(self, table: TableId, sql: str, *, by_index: bool = True) -> list[tuple[Any, ...]]:
        """Rows of a query that goes by an index."""
        connection = self._connection()
        try:
            read_nothing(connection, f"BEGIN READ ONLY{f'; SET LOCAL {_BY_INDEX}' if by_index else ''}", table)
            rows = read_rows(connection, sql, table)
            read_nothing(connection, "COMMIT", table)
        except TidemarkError as error:
            if isinstance(error, TableBusy):
                error = self._locked(connection, table)
            connection.close()
            raise error from None
        return rows

    def _locked(self, connection: Connection, table: TableId) -> TidemarkError:
        """Whose lock it was that was waited for."""
        try:
            read_nothing(connection, "ROLLBACK", table)
            return locked_by(table, lock_holders(connection, self._config.where).get(table, ()))
        except TidemarkError as error:
            return error

    def _open(self, table: TableId, *, bounded: bool, opened: str = "") -> tuple[str, TableDescription]:
        """A transaction with its snapshot, as text, and the table as it is in it.

        The mark `opened` follows the snapshot.
        """
        connection = self._connection()
        locked = f"LOCK TABLE {quoted(table.database)}.{quoted(table.name)} IN ACCESS SHARE MODE"
        begin = (
            f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {f'SET LOCAL {_BY_INDEX};' if bounded else ''} {locked}"
        )
        try:
            with translated(table), connection.cursor() as cursor:
                self._lock(cursor, begin, table)
                cursor.execute("SELECT pg_catalog.pg_current_snapshot()::text")
                evidence = str(cursor.fetchall()[0][0])
                if opened:
                    self.mark(opened)
                description = self._settled(cursor, self._describe(table), evidence)
        except TidemarkError:
            connection.close()  # the next call must not see this transaction's moment
            raise
        return evidence, description

    def _lock(self, cursor: Any, begin: str, table: TableId) -> None:
        """Lock the table.  What cannot be locked is not a table; describing it raises the reason."""
        try:
            cursor.execute(begin)
        except psycopg2.errors.WrongObjectType:
            cursor.execute("ROLLBACK")
            self._describe(table)
            raise
        except psycopg2.errors.LockNotAvailable:
            raise self._locked(cursor.connection, table) from None

    def _chunk(self, description: TableDescription, evidence: str, condition: str) -> Chunk:
        schema = description.schema
        exact = [
            binary_exact(*attribute.plain, column.type)
            for column, attribute in zip(schema.columns, description.attributes, strict=True)
        ]
        columns = ", ".join(
            quoted(attribute.name) if binary else text_of(attribute)
            for attribute, binary in zip(description.attributes, exact, strict=True)
        )
        assert self._reading is not None  # opened by _open
        stream = CopyRows(
            self._reading,
            f"COPY (SELECT {columns} FROM {_name(description)} WHERE {condition}) TO STDOUT (FORMAT binary)",
            [BINARY if binary else TEXT for binary in exact],
            schema.table,
            batch_rows=self._options.batch_rows,
            batch_bytes=self._options.batch_bytes,
        )
        self._rows_under_way = stream
        converter = RowConverter(description, date_policy(self._options))
        return Chunk(
            schema, self._convert(schema.table, stream, self._reading, converter), converter.zero_dates, evidence
        )

    def _convert(
        self, table: TableId, stream: CopyRows, connection: Connection, converter: RowConverter
    ) -> Iterator[pa.RecordBatch]:
        try:
            for cells in stream.batches():
                yield converter.batch(cells)
            read_nothing(connection, "COMMIT", table)
        except TidemarkError:
            connection.close()
            raise
        finally:
            self.replaced += converter.nulled


def read_nothing(connection: Connection, sql: str, where: str | TableId) -> None:
    """Run statements that have no rows."""
    with translated(where), connection.cursor() as cursor:
        cursor.execute(sql)


def _name(description: TableDescription) -> str:
    """A partitioned table has its rows in its partitions; another's are its own only."""
    table = description.schema.table
    only = "" if description.kind == "p" else "ONLY "
    return f"{only}{quoted(table.database)}.{quoted(table.name)}"
