"""What is known of a table beside its schema."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from replicator.errors import TableError, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.sources.sqlserver.types import OLD_LARGE, ColumnDefinition, column_of

UNESTABLISHED = b"\xff" * 10  # the start of an instance that the capture job has not come to yet


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """A change table (cdc.change_tables).  `number`: its object_id.  `start`: the log has the table's changes after it.

    columns: (column_id, name) of those that it captures, in its own order; `switches`: partitions may be switched in
    and out of its table without a trace.
    """

    name: str
    number: int
    source: int
    start: bytes
    columns: tuple[tuple[int, str], ...]
    switches: bool = False

    def place(self, definition: ColumnDefinition) -> int | None:
        """Of the column in `columns`, which is its bit in the update mask; None where it is not captured."""
        numbers = [number for number, _ in self.columns]
        return numbers.index(definition.number) if definition.number in numbers else None


@dataclass(frozen=True, slots=True)
class TableDescription:
    """`columns`: definitions of all that can be captured and are not left out; `definitions`: of those in `schema`.

    `keys`: column numbers of each key, the best first.  `instances`: by start, oldest first.
    `tracked`: by Change Tracking, and not by change data capture, since the version `since` (None: not yet).
    """

    schema: TableSchema
    definitions: tuple[ColumnDefinition, ...]
    columns: tuple[ColumnDefinition, ...]
    keys: tuple[tuple[int, ...], ...]
    number: int
    created: str
    instances: tuple[CaptureInstance, ...] = ()
    partitioned: bool = False
    tracked: bool = False
    since: int | None = None

    def definition(self, name: str) -> ColumnDefinition:
        """KeyError for an unknown name."""
        for one in self.definitions:
            if one.name == name:
                return one
        raise KeyError(name)

    @property
    def newest(self) -> CaptureInstance | None:
        """That which tells the table's columns."""
        return self.instances[-1] if self.instances else None

    @property
    def missing(self) -> tuple[str, ...]:
        """Columns that the newest instance does not capture, added after it was made."""
        newest = self.newest
        return tuple(one.name for one in self.columns if newest is not None and newest.place(one) is None)

    def under(self, instance: CaptureInstance | None) -> TableDescription:
        """As the log tells it through this instance; None: as it will once there is one.  Raises UnsupportedType."""
        taken = tuple(one for one in self.columns if instance is None or instance.place(one) is not None)
        told_by = (self.since or 0) if self.tracked else instance.number if instance else 0
        identity = TableIdentity(self.number, self.created, told_by)
        schema = schema_of(self.schema.table, taken, self.keys, identity, partial=self.tracked)
        return replace(self, schema=replace(schema, comment=self.schema.comment), definitions=taken)


Described = TableDescription | TableError


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """`TableSchema.identity`: the table by number and age, and the change table that is read, or the version since
    which the table is tracked.
    """

    number: int
    created: str
    instance: int

    def __str__(self) -> str:
        return f"{self.number} {self.created}/{self.instance}"

    @classmethod
    def parse(cls, text: str) -> TableIdentity | None:
        """Inverse of `str`; None for what is none."""
        table, _, instance = text.partition("/")
        number, _, created = table.partition(" ")
        return cls(int(number), created, int(instance or 0)) if number.isdigit() else None


def schema_of(
    table: TableId,
    definitions: Collection[ColumnDefinition],
    keys: Collection[tuple[int, ...]],
    identity: TableIdentity,
    *,
    partial: bool,
) -> TableSchema:
    """`partial`: old rows have their key alone.

    Raises UnsupportedType, also for a table without key whose old rows the log does not have in full.
    """
    names = {one.number: one.name for one in definitions}
    key = next((tuple(names[column] for column in one) for one in keys if set(one) <= names.keys()), ())
    if not key and (large := [one.name for one in definitions if one.base in OLD_LARGE]):
        message = f"{table} has no key, and a text, ntext or image column, of which the log has no old values."
        remedy = "Add a primary key, or exclude the column."
        raise UnsupportedType(message, table=str(table), column=large[0], remedy=remedy)
    columns = tuple(column_of(one, table, key=one.name in key) for one in definitions)
    return TableSchema(table, columns, key, partial, str(identity))
