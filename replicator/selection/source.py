"""A source that yields only selected rows, masked and with computed columns: it wraps another source's ports
(`replicator.sources.base`).

Only here are rows filtered and values masked: the log's changes and the snapshot's rows, before the engine gets them.
Schemas that the source is given (present ones, and those that rows were read under) are converted back to its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from replicator.errors import SelectionDoesNotFit, TableError, TooManyDeadLetters, ValueDoesNotFit
from replicator.model.change import (
    Cascade,
    CascadesAdded,
    ChangeBatch,
    Commit,
    Ddl,
    Heartbeat,
    LogMessage,
    Notice,
    SchemaChange,
    Settled,
    TableFailed,
    UndecodableRows,
    Watermark,
)
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import NameRule, TableSet
from replicator.selection.computing import without_computed
from replicator.selection.masking import unmasked_schema
from replicator.selection.taken import Taken, TakenTables
from replicator.sources.base import (
    Catalog,
    CheckResult,
    Chunk,
    DatabaseInfo,
    KeyRange,
    LogReader,
    ReadOptions,
    SnapshotReader,
    Source,
    SourceLog,
    TableInfo,
    cascades_of,
)

TELLING = (ValueDoesNotFit, TooManyDeadLetters)  # errors whose texts have values
# Any other message about a table with filters or masks would pass unmasked.
KNOWN: tuple[type, ...] = (
    ChangeBatch,
    SchemaChange,
    TableFailed,
    UndecodableRows,
    CascadesAdded,
    Watermark,
    Settled,
    Commit,
    Heartbeat,
    Notice,
)


class SelectedSource:
    """`tables`, where set, has the row filters and masks.  `whole_rows`: see `SourceKind`."""

    def __init__(self, source: Source, whole_rows: str = "") -> None:
        self._source, self._whole_rows = source, whole_rows

    @property
    def tables(self) -> TableSet | None:
        return self._source.tables

    @tables.setter
    def tables(self, tables: TableSet | None) -> None:
        self._source.tables = tables

    @property
    def options(self) -> ReadOptions:
        return self._source.options

    @options.setter
    def options(self, options: ReadOptions) -> None:
        self._source.options = options

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        """As the source."""
        return self._source.check(tables)

    def names(self) -> NameRule:
        """As the source."""
        return self._source.names()

    def catalog(self) -> Catalog:
        """With masked schemas."""
        return _Catalog(self._source.catalog(), self._taken())

    def log(self, replicator: str) -> SourceLog:
        """As the source."""
        return self._source.log(replicator)

    def log_reader(self, replicator: str, options: ReadOptions) -> LogReader:
        """Of masked changes."""
        return _LogReader(self._source.log_reader(replicator, options), self._source.names, self._whole_rows)

    def snapshot_reader(self, replicator: str, options: ReadOptions) -> SnapshotReader:
        """Of masked rows."""
        return _SnapshotReader(self._source.snapshot_reader(replicator, options), self._taken())

    def _taken(self) -> TakenTables:
        """Under the names that the source gives."""
        found = TakenTables(self.tables, self._whole_rows)
        return (
            TakenTables(self._source.names().selection(self.tables), self._whole_rows)
            if self.tables and found
            else found
        )

    def cancel(self) -> None:
        """As the source."""
        self._source.cancel()

    def close(self) -> None:
        """The source, too."""
        self._source.close()


class _Catalog:
    def __init__(self, catalog: Catalog, taken: TakenTables) -> None:
        self._catalog, self._taken = catalog, taken

    def databases(self) -> list[DatabaseInfo]:
        return self._catalog.databases()

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        return self._catalog.tables(database=database, search=search, limit=limit, offset=offset)

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        return self._catalog.infos(tables)

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        return _taken_schemas(self._catalog.describe(tables), self._taken)

    def cascades(self, tables: Collection[TableId]) -> list[Cascade]:
        return cascades_of(self._catalog, tables)

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        self._catalog.try_rows(table, rows)


def _taken_schemas(
    found: Mapping[TableId, TableSchema | TableError], taken: TakenTables
) -> dict[TableId, TableSchema | TableError]:
    return {table: _taken_schema(one, taken.get(table)) for table, one in found.items()}


def _taken_schema(found: TableSchema | TableError, taken: Taken | None) -> TableSchema | TableError:
    if taken is None or isinstance(found, TableError):
        return found
    try:
        return taken.schema(found)
    except SelectionDoesNotFit as error:
        return error


class _SnapshotReader:
    def __init__(self, reader: SnapshotReader, taken: TakenTables) -> None:
        self._reader, self._taken = reader, taken

    def mark(self, token: str) -> None:
        self._reader.mark(token)

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        return _taken_schemas(self._reader.describe(tables), self._taken)

    def end_key(self, table: TableId, condition: str = "") -> tuple[str, ...] | None:
        return self._reader.end_key(table, condition)

    def next_bound(
        self, table: TableId, after: tuple[str, ...] | None, end: tuple[str, ...], rows: int, condition: str = ""
    ) -> tuple[str, ...]:
        return self._reader.next_bound(table, after, end, rows, condition)

    def read_chunk(self, table: TableId, bounds: KeyRange) -> Chunk:
        return self._chosen(table, self._reader.read_chunk(table, bounds))

    def read_table(self, table: TableId, opened: str) -> Chunk:
        return self._chosen(table, self._reader.read_table(table, opened))

    def cancel(self) -> None:
        self._reader.cancel()

    def close(self) -> None:
        self._reader.close()

    def _chosen(self, table: TableId, chunk: Chunk) -> Chunk:
        taken = self._taken.get(table)
        return chunk if taken is None else _TakenRows(chunk, taken).chunk()


class _TakenRows:
    """The rows of a chunk that are taken, masked, with computed columns; what became null is counted of these only."""

    def __init__(self, chunk: Chunk, taken: Taken) -> None:
        self._chunk, self._taken = chunk, taken
        self._schema, self._read_at = taken.schema(chunk.schema), datetime.now(UTC)
        self._places: pa.Array | None = None

    def chunk(self) -> Chunk:
        return replace(self._chunk, schema=self._schema, batches=self._batches(), replaced=self._replaced)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._chunk.batches:
                self._places = self._taken.places(batch, self._chunk.schema)
                chosen = batch if self._places is None else batch.filter(self._places)
                yield self._taken.rows(chosen, self._schema, self._read_at)
                del batch, chosen
        except ValueDoesNotFit as error:
            if not self._taken.hides:
                raise
            raise _unsaid(self._schema.table, error) from None

    def _replaced(self) -> pa.Array | None:
        counts = self._chunk.replaced()
        return counts if counts is None or self._places is None else counts.filter(self._places)


class _LogReader:
    """Filters and masks the log; a table's rules follow a rename, and stay for another table that gets the old name."""

    def __init__(self, reader: LogReader, names: Callable[[], NameRule], whole_rows: str) -> None:
        self._reader, self._names, self._whole_rows = reader, names, whole_rows
        self._taken = TakenTables()
        self._schemas: dict[TableId, tuple[TableSchema, TableSchema]] = {}
        self._failed: set[TableId] = set()
        self._behind: TableFailed | None = None
        self._at: Offset | None = None

    def read(self, start: Offset, tables: TableSet, schemas: Mapping[TableId, TableSchema]) -> Iterator[LogMessage]:
        tables = self._names().selection(tables)
        self._taken, self._at = TakenTables(tables, self._whole_rows), start
        plain = {table: _plain(schema) for table, schema in schemas.items()}
        for message in self._reader.read(start, tables, plain):
            taken = self._message(message)
            del message  # invariant 9: nothing holds a batch while the next is read
            if taken is not None:
                yield taken
            del taken
            if (behind := self._behind) is not None:
                self._behind = None
                yield behind

    def confirm(self, durable: Offset) -> None:
        self._reader.confirm(durable)

    def shows(self, evidence: str, transaction: str) -> bool:
        return self._reader.shows(evidence, transaction)

    def learned(self, shown: TableSchema, known: TableSchema) -> TableSchema | None:
        """Not of rows that were read under other masks, or with other computed columns."""
        masks = {column.name: column.masked.mask for column in shown.columns if column.masked}
        computed = {column.name: column.computed for column in shown.columns if column.computed}
        taken = self._taken.get(shown.table) or Taken()
        if (masks, computed) != (taken.masks, taken.computed):
            return None
        learned = self._reader.learned(_plain(shown), _plain(known))
        return learned and replace(known, identity=learned.identity)

    def close(self) -> None:
        self._reader.close()

    def _message(self, message: LogMessage) -> LogMessage | None:
        if not isinstance(message, KNOWN) and self._taken.get(getattr(message, "table", None)) is not None:
            return self._unknown(message)
        match message:
            case ChangeBatch():
                return self._batch(message)
            case SchemaChange():
                self._at = message.offset
                return self._change(message)
            case TableFailed() if self._taken.hides(message.table) and isinstance(message.error, TELLING):
                return replace(message, error=_unsaid(message.table, message.error))
            case UndecodableRows() if self._taken.hides(message.table):
                hidden = (
                    replace(row, error=_unsaid(message.table, row.error), data=b"", keys=()) for row in message.rows
                )
                return replace(message, rows=tuple(hidden))
            case Commit() | Heartbeat() if message.offset is not None:
                self._at = message.offset
        return message

    def _unknown(self, message: Any) -> TableFailed | None:
        """Fail the table: a message of a kind that is not known here may hold values, and cannot be masked."""
        if message.table in self._failed:
            return None
        text = f"The log has a message of {message.table} that cannot be masked or filtered ({type(message).__name__})."
        return self._fail(message.table, SelectionDoesNotFit(text, table=str(message.table)))

    def _batch(self, batch: ChangeBatch) -> LogMessage | None:
        taken = self._taken.get(batch.table)
        if taken is None:
            return batch
        if batch.table in self._failed:
            return None
        schema = self._schema(batch.schema, taken)
        if not isinstance(schema, TableSchema):
            return self._fail(batch.table, schema)
        changes = taken.changes(batch, schema)
        return changes if changes.data.num_rows or changes.hidden else None

    def _change(self, change: SchemaChange) -> LogMessage | None:
        table, moved = change.table, change.moved
        if moved is not None or change.operation in {Ddl.CREATE_TABLE, Ddl.DROP_TABLE}:
            self._failed -= {table, change.new_table}  # what has such a name now is another table
        elif table in self._failed:
            return None
        if moved is not None and self._taken.carry(*moved):
            change = replace(change, reload=True)  # what is there has other columns or rows: nothing would evolve it
        taken = None if change.schema is None else self._taken.get(change.schema.table)
        if change.schema is None or taken is None:
            return change
        schema = self._schema(change.schema, taken)
        if isinstance(schema, TableSchema):
            return replace(change, schema=schema)
        if moved is not None:  # it is called so all the same, and fails under that name
            self._behind = self._fail(moved[1], schema)
            return replace(change, schema=None, reload=False)
        return self._fail(table, schema)

    def _schema(self, plain: TableSchema, taken: Taken) -> TableSchema | SelectionDoesNotFit:
        known = self._schemas.get(plain.table)
        if known is None or known[0] != plain:
            try:
                known = plain, taken.schema(plain)
            except SelectionDoesNotFit as error:
                return error
            self._schemas[plain.table] = known
        return known[1]

    def _fail(self, table: TableId, error: SelectionDoesNotFit) -> TableFailed:
        self._failed.add(table)
        assert self._at is not None
        return TableFailed(table, error, self._at)


def _plain(schema: TableSchema) -> TableSchema:
    """What the source knows of the table itself."""
    return unmasked_schema(without_computed(schema))


def _unsaid(table: TableId, error: TableError) -> ValueDoesNotFit:
    """The same without the value."""
    message = (
        f"A value of {table} does not match its column's type. The table is masked or filtered, so the value is not"
        " shown."
    )
    return ValueDoesNotFit(message, remedy=error.remedy, table=str(table), column=error.column)
