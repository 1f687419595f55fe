"""The log as messages.  Every look at it sees whole transactions: where a look ends, one ends."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from replicator.errors import EventUndecodable, LogPurged, TableError
from replicator.model.change import (
    ChangeBatch,
    Commit,
    Ddl,
    Heartbeat,
    LogMessage,
    SchemaChange,
    TableFailed,
    Watermark,
)
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import LogReader, ReadOptions
from tests.plugins.sqlite_log.catalog import MAIN
from tests.plugins.sqlite_log.change_log import ABOUT, DELETE, INSERT, LOG, MARK, STATEMENT, value_of
from tests.plugins.sqlite_log.config import SqliteConfig
from tests.plugins.sqlite_log.database import connect, translated
from tests.plugins.sqlite_log.offset import RowOffset
from tests.plugins.sqlite_log.types import array, schema_of

POLL_SECONDS = 0.1
Image = dict[str, str | None]


class Change(NamedTuple):
    """A row of the log: values are as `change_log.value_of` reads them."""

    ordinal: int
    operation: str
    at: datetime
    before: Image
    after: Image
    row: int


class SqliteLogReader(LogReader):
    """One connection; one thread."""

    def __init__(self, config: SqliteConfig, options: ReadOptions, replicator: str) -> None:
        self._config, self._options, self._replicator = config, options, replicator
        self._connection: sqlite3.Connection | None = None
        self._tables, self._schemas = TableSet(), dict[TableId, TableSchema]()
        self._failed: set[TableId] = set()
        self._rows: dict[TableId, list[Change]] = {}
        self._ordinal = 0

    def read(self, start: Offset, tables: TableSet, schemas: Mapping[TableId, TableSchema]) -> Iterator[LogMessage]:
        """Without end."""
        assert isinstance(start, RowOffset)
        self._tables, self._schemas, at = tables.followed(), dict(schemas), start.row
        self._connection = connect(self._config)
        [(purged,)] = self._found(f"SELECT purged FROM {ABOUT}")
        if purged > at:
            raise LogPurged(f"The log of {self._config.file} begins after row {purged}.")
        while True:
            now = datetime.now(UTC)
            [(end,)] = self._found(f"SELECT COALESCE(MAX(row), 0) FROM {LOG}")
            if end > at:
                yield from self._look(at, end)
                at = end
            else:
                yield Heartbeat(RowOffset(at), now)
                time.sleep(POLL_SECONDS)

    def confirm(self, durable: Offset) -> None:
        """Nothing to do: the log is kept until a user purges it."""

    def close(self) -> None:
        """The connection."""
        if self._connection is not None:
            self._connection.close()

    def _found(self, sql: str) -> list[tuple[Any, ...]]:
        assert self._connection is not None
        with translated(LOG):
            return self._connection.execute(sql).fetchall()

    def _look(self, start: int, end: int) -> Iterator[LogMessage]:
        """Rows after `start`, of which `end` is the last of a transaction."""
        when = None
        for first in range(start, end, self._options.batch_rows):
            last = min(first + self._options.batch_rows, end)
            rows = self._found(
                f"SELECT row, what, name, at, before, after FROM {LOG} WHERE row > {first} AND row <= {last} ORDER"
                " BY row"
            )
            for row, what, name, at, before, after in rows:
                when = datetime.fromisoformat(at).replace(tzinfo=UTC)
                if what == MARK:  # a separate transaction
                    yield from self._flush(end)
                    yield Commit(RowOffset(row - 1), when)
                    if name == self._replicator:
                        yield Watermark(after, RowOffset(row))
                    yield Commit(RowOffset(row), when)
                elif what == STATEMENT:
                    yield from self._flush(end)
                    yield from self._statement(row, TableId(MAIN, name), json.loads(after), when)
                elif self._wants(table := TableId(MAIN, name)):
                    old, new = (json.loads(one) if one else {} for one in (before, after))
                    self._rows.setdefault(table, []).append(Change(self._ordinal, what, when, old, new, row))
                    self._ordinal += 1
            yield from self._flush(end)
        yield Commit(RowOffset(end), when)

    def _wants(self, table: TableId) -> bool:
        return table in self._tables and table not in self._failed

    def _flush(self, end: int) -> Iterator[LogMessage]:
        gathered, self._rows = self._rows, {}
        for table, rows in gathered.items():
            try:
                schema = self._schemas.get(table)
                if schema is None:
                    raise EventUndecodable(f"The log has rows of {table} before its definition.", table=str(table))
                yield ChangeBatch(table, schema, _batch(schema, rows, end))
            except TableError as error:
                yield self._fail(table, error, end)

    def _fail(self, table: TableId, error: TableError, row: int) -> TableFailed:
        self._failed.add(table)
        return TableFailed(table, error, RowOffset(row))

    def _statement(self, row: int, table: TableId, told: dict[str, Any], at: datetime) -> Iterator[LogMessage]:
        operation = Ddl(told["operation"])
        new = TableId(MAIN, told["new_name"]) if told["new_name"] else None
        if operation is Ddl.CREATE_TABLE:
            self._failed.discard(table)
        if not self._wants(table) and not (new and self._wants(new)):
            return
        if new:
            self._tables.carry(table, new)
        schema: TableSchema | None = None
        if operation not in {Ddl.DROP_TABLE, Ddl.TRUNCATE_TABLE}:
            present = new or table
            found = schema_of(present, told["columns"], self._tables.columns_left_out(present))
            if isinstance(found, TableError):
                yield self._fail(table, found, row)
                return
            schema = self._schemas[present] = found
        if operation is Ddl.DROP_TABLE or new:
            self._schemas.pop(table, None)
        number, self._ordinal = self._ordinal, self._ordinal + 1
        yield SchemaChange(
            number, operation, table, RowOffset(row), at, schema, new,
            told.get("renamed", {}), told.get("reload", False), told["statement"],
        )  # fmt: skip


def _batch(schema: TableSchema, rows: list[Change], end: int) -> pa.RecordBatch:
    """Changes under one schema."""
    stamps = [
        [one.ordinal for one in rows],
        [one.operation for one in rows],
        [one.at for one in rows],
        [str(end)] * len(rows),
        [str(one.row) for one in rows],
    ]
    fields = schema.change_arrow
    arrays = [pa.array(values, fields.field(place).type) for place, values in enumerate(stamps)]
    identifying = schema.key or schema.names
    after = [one.after or {name: one.before[name] for name in identifying} for one in rows]
    for images, without in ((after, DELETE), ([one.before for one in rows], INSERT)):
        absent = any(one.operation == without for one in rows)
        for column in schema.columns:
            values = [value_of(image.get(column.name)) for image in images]
            arrays.append(array(schema.table, column, values, absent=absent))
    return pa.RecordBatch.from_arrays(arrays, schema=fields)
