"""What a log reader yields, in log order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import pyarrow as pa

from replicator.errors import TableError
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema


class Operation(StrEnum):
    """Row operations; READ is a snapshot row."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    READ = "READ"


class Ddl(StrEnum):
    """Schema operations."""

    CREATE_DATABASE = "CREATE_DATABASE"
    DROP_DATABASE = "DROP_DATABASE"
    CREATE_TABLE = "CREATE_TABLE"
    DROP_TABLE = "DROP_TABLE"
    TRUNCATE_TABLE = "TRUNCATE_TABLE"
    ALTER_TABLE = "ALTER_TABLE"
    RENAME_TABLE = "RENAME_TABLE"


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Rows of one table under one schema, in log order.

    `data` has the Arrow schema `schema.change_arrow`.  Its `_sequence_num` is the change's ordinal since `read` began
    (0, 1, 2 … over all tables and DDL together); capture shifts it to the sequence number. INSERT fills the row
    columns; UPDATE both; DELETE the before image and, of the row columns, the key (all where there is none), as in
    CDAP's example.  `replaced`: how many values could not be kept, and became null.
    `hidden`: operations of changes that a row filter left out or made into others; then there may be no row at all.
    """

    table: TableId
    schema: TableSchema
    data: pa.RecordBatch
    replaced: int = 0
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UndecodableRow:
    """A change with a value that cannot be decoded, left out of its batch; it has used its ordinal up.

    `ordinal`, `commit_ts`, `txn_id`, `offset`: as the batch's row would have had them.
    data: the row as the source sent it (MySQL: its images, the one before first; Postgres: the message), cut after some
    length; size: bytes of the whole.
    keys: its key before and after the change, texts by column; none where one of them is not known.
    """

    ordinal: int
    operation: Operation
    commit_ts: datetime | None
    txn_id: str
    offset: str
    error: TableError
    data: bytes
    size: int
    keys: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class UndecodableRows:
    """Rows of one table that cannot be decoded, in log order; by option (`ReadOptions.keep_undecodable`) its other rows
    go on without them.

    `offset`: they lie before it.
    """

    table: TableId
    rows: tuple[UndecodableRow, ...]
    offset: Offset


EVERY = "*"


@dataclass(frozen=True, slots=True)
class Settled:
    """Where commits become visible in another order than the log's (Postgres): what may be invisible yet.

    Of all transactions (`_txn_id`) up to this place of the log, all but `unsettled` are visible to every snapshot whose
    low mark comes after it.  EVERY among them: there are too many to name.  A reader that gives none of these orders
    its log by visibility.
    """

    unsettled: frozenset[str]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A DDL statement on a selected table or database; it takes one ordinal.

    `schema` is the table's schema afterwards (None for drops, databases and truncate).  `renamed_columns` maps old to
    new.  `reload` is True where existing rows may have other values now (a default filled in, a conversion, a table
    swapped in from outside the selection): the table must then be resnapshotted.  An ALTER_TABLE without a statement
    and without `reload` reports only a new `TableSchema.identity`.

    was: the table's former name, where its rows must be resnapshotted under this name and the operation is not
    RENAME_TABLE.  What protects rows under the former name then also protects them under this one (invariant 12).
    """

    ordinal: int
    operation: Ddl
    table: TableId
    offset: Offset
    commit_ts: datetime | None
    schema: TableSchema | None = None
    new_table: TableId | None = None
    renamed_columns: Mapping[str, str] = field(default_factory=dict)
    reload: bool = False
    statement: str = ""
    was: TableId | None = None

    @property
    def moved(self) -> tuple[TableId, TableId] | None:
        """The names that the table had and has, where it has another one now."""
        if self.new_table is not None:
            return self.table, self.new_table
        return None if self.was is None else (self.was, self.table)


@dataclass(frozen=True, slots=True)
class TableFailed:
    """The reader cannot go on with this table; it skips it from here, and goes on with the others (invariant 7)."""

    table: TableId
    error: TableError
    offset: Offset


HEARTBEAT = "heartbeat"  # the token of a mark that belongs to no chunk: it lets the end of a quiet log advance


@dataclass(frozen=True, slots=True)
class Watermark:
    """A mark written by a snapshot reader, met in the log."""

    token: str
    offset: Offset


@dataclass(frozen=True, slots=True)
class Commit:
    """All that was yielded so far ends at a transaction's end; reading may resume at `offset`."""

    offset: Offset
    commit_ts: datetime | None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Nothing to read at the moment; yielded at least every half second while the source is quiet.

    `offset` may be resumed from; None in the middle of a transaction.  `source_ts`: the source is known to have had
    nothing newer at that time (None where the source did not say).
    """

    offset: Offset | None
    source_ts: datetime | None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something in the log that a person should know of; it changes nothing."""

    text: str


@dataclass(frozen=True, slots=True)
class Cascade:
    """A foreign key whose action changes rows of `child` without the log showing it.

    `columns` are those of `parent` that it refers to; the action follows a DELETE, or an UPDATE of these columns.
    """

    parent: TableId
    child: TableId
    columns: tuple[str, ...]
    on_delete: bool
    on_update: bool


@dataclass(frozen=True, slots=True)
class CascadesAdded:
    """A statement gave a table such foreign keys."""

    rules: tuple[Cascade, ...]


LogMessage = (
    ChangeBatch | UndecodableRows | SchemaChange | TableFailed | CascadesAdded | Watermark | Settled | Commit
    | Heartbeat | Notice
)  # fmt: skip
