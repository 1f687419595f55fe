"""Rows of a table, and marks in the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replicator.errors import TableError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import Chunk, KeyRange, ReadOptions
from replicator.sources.shared.conditions import users_fault, watched
from replicator.sources.shared.snapshot_reader import SqlSnapshotReader
from tests.plugins.sqlite_log import change_log
from tests.plugins.sqlite_log.catalog import SqliteCatalog
from tests.plugins.sqlite_log.config import SqliteConfig
from tests.plugins.sqlite_log.database import connect, translated
from tests.plugins.sqlite_log.dialect import SQLITE, name_of
from tests.plugins.sqlite_log.key_ranges import SqliteKeyRanges, select_key
from tests.plugins.sqlite_log.types import array


@dataclass(frozen=True)
class Description:
    schema: TableSchema


class SqliteSnapshotReader(SqlSnapshotReader[Description, sqlite3.Connection]):
    """Every SELECT sees one moment of the file, for as long as it is read (WAL)."""

    def __init__(
        self, config: SqliteConfig, options: ReadOptions, replicator: str, tables: TableSet | None = None
    ) -> None:
        super().__init__(options, tables)
        self._config, self._replicator = config, replicator

    def mark(self, token: str) -> None:
        """Write a row of the log, in a separate transaction."""
        self._marking = self._marking or connect(self._config)
        with translated(change_log.LOG):
            self._marking.execute(
                f"INSERT INTO {change_log.LOG} (what, name, after) VALUES (?, ?, ?)",
                (change_log.MARK, self._replicator, token),
            )

    def read_chunk(self, table: TableId, bounds: KeyRange) -> Chunk:
        """One SELECT."""
        description = self._describe(table)
        where = SqliteKeyRanges(description.schema).selected(bounds)
        with users_fault(table, asked=bounds.asked):
            cursor = self._select(description.schema, where)
        batches = self._batches(description.schema, cursor)
        return Chunk(description.schema, watched(batches, table, asked=bounds.asked) if bounds.asked else batches)

    def read_table(self, table: TableId, opened: str) -> Chunk:
        """The cursor has the file as it is before the mark: SQLite fixes a statement's view at its first row."""
        description = self._describe(table)
        connection = self._connection()
        with translated(str(table)):
            connection.execute("BEGIN")
            connection.execute(f"SELECT 1 FROM {name_of(table.name)} LIMIT 1").fetchall()
        self.mark(opened)
        return Chunk(description.schema, self._batches(description.schema, self._select(description.schema, "TRUE")))

    def cancel(self) -> None:
        """Both connections'."""
        for connection in (self._reading, self._marking):
            if connection is not None:
                with suppress(sqlite3.ProgrammingError):  # closed meanwhile
                    connection.interrupt()

    def close(self) -> None:
        """Both connections."""
        for connection in (self._reading, self._marking):
            if connection is not None:
                connection.close()
        self._reading = self._marking = None

    def _connection(self) -> sqlite3.Connection:
        """Rows of a read that was left early, or to its end, are let go of."""
        if self._reading is not None:
            self._reading.close()
        self._reading = connect(self._config)
        return self._reading

    def _found(
        self, connection: sqlite3.Connection, tables: Sequence[TableId]
    ) -> Mapping[TableId, Description | TableError]:
        described = SqliteCatalog(connection, self._tables).describe(tables)
        return {table: one if isinstance(one, TableError) else Description(one) for table, one in described.items()}

    def _has_bounds(self, description: Description) -> bool:
        return bool(description.schema.key)

    def _first_key(
        self, description: Description, rows: KeyRange, order: str, passed: int = 0
    ) -> list[tuple[Any, ...]]:
        ranges, table = SqliteKeyRanges(description.schema), description.schema.table
        with users_fault(table, asked=rows.asked), translated(str(table)):
            return self._connection().execute(
                f"SELECT {select_key(ranges)} FROM {name_of(table.name)} WHERE {ranges.selected(rows)} "
                f"ORDER BY {ranges.order_by(order)} LIMIT 1 OFFSET {passed}"
            ).fetchall()  # fmt: skip

    def _read_key(self, description: Description, row: Sequence[Any]) -> tuple[str, ...]:
        del description
        return tuple(map(str, row))

    def _select(self, schema: TableSchema, where: str) -> sqlite3.Cursor:
        assert self._reading is not None  # opened by _describe
        names = ", ".join(map(SQLITE.quoted, schema.names))
        with translated(str(schema.table)):
            return self._reading.execute(f"SELECT {names} FROM {name_of(schema.table.name)} WHERE {where}")

    def _batches(self, schema: TableSchema, cursor: sqlite3.Cursor) -> Iterator[pa.RecordBatch]:
        while True:
            with translated(str(schema.table)):
                rows = cursor.fetchmany(self._options.batch_rows)
            if not rows:
                return
            arrays = [array(schema.table, c, v) for c, v in zip(schema.columns, zip(*rows, strict=True), strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema.row_arrow)
