"""How far a table is: a row of a table of ours in its namespace, in the transaction with the rows (invariant 3)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from replicator.errors import TargetConflict, TargetError, UnsupportedDdl
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE
from replicator.model.types import BIGINT, STRING, DataType
from replicator.targets.base import FOREIGN_TABLE, NO_TABLE, Position, TargetTable
from replicator.targets.warehouse.dialect import Definitions, Session

# kept: a JSON list of columns that the source no longer has.
FIELDS: Sequence[tuple[str, DataType]] = (
    ("table_name", STRING), ("owner", STRING), ("applied", BIGINT), ("loaded", BIGINT), ("schema_version", BIGINT),
    ("load", STRING), ("mode", STRING), ("item", STRING), ("kept", STRING),
)  # fmt: skip
DROP_COLUMN = "Drop the column in the target, then retry the table."
_NAMES = tuple(name for name, _ in FIELDS)


@dataclass(frozen=True)
class OpenTable:
    """A table of this replicator, as it was looked at.  fields: all of its columns."""

    name: TargetTable
    position: Position
    fields: Sequence[tuple[str, DataType]]
    kept: frozenset[str] = field(default_factory=frozenset)

    @property
    def columns(self) -> list[tuple[str, DataType]]:
        """Without those of Tidemark's own."""
        own = {SEQUENCE, *self.mode.columns}
        return [(name, kind) for name, kind in self.fields if name not in own]

    @property
    def mode(self) -> Mode:
        return self.position.mode

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(name, kind.arrow) for name, kind in self.fields])


class Positions:
    """Position rows of one replicator."""

    _unmarked: Mapping[str, str] = MappingProxyType({})  # what more a row must have to be moved

    def __init__(self, dialect: Definitions, replicator: str) -> None:
        """`replicator`: the id that marks its tables."""
        self._dialect, self._replicator = dialect, replicator

    def look(self, session: Session, table: TargetTable) -> OpenTable | None:
        """TargetConflict for a table that this replicator did not make; UnsupportedDdl for one that was changed."""
        fields = self._dialect.columns(session, table)
        if fields is None:
            return None
        row = self._row(session, table)
        if row is None or row[0] != self._replicator:
            raise not_ours(table)
        return self._opened(table, fields, row)

    def _opened(
        self, table: TargetTable, fields: Sequence[tuple[str, DataType | None]], row: Sequence[Any]
    ) -> OpenTable:
        """row: as `_row` gives it."""
        known = [(name, kind) for name, kind in fields if kind is not None]
        if strange := [name for name, kind in fields if kind is None]:
            message = f"The target column {strange[0]} of {table} has a type that Tidemark did not create."
            raise UnsupportedDdl(message, table=str(table), remedy=DROP_COLUMN)
        _, applied, loaded, version, load, mode, item, kept = row[:8]
        at = Position(int(applied), int(loaded), int(version), load, Mode(mode), item)
        return OpenTable(table, at, known, frozenset(json.loads(kept)))

    def position(self, session: Session, table: TargetTable) -> Position | None:
        """See `Target`."""
        found = self.look(session, table)
        return None if found is None else found.position

    def seen(self, session: Session, table: TargetTable, seen: str | None) -> OpenTable | None:
        """TargetConflict where it is not the table that the caller has seen (`Target.apply`)."""
        found = self.look(session, table)
        if seen is None or (NO_TABLE if found is None else found.position.load) == seen:
            return found
        raise TargetConflict(f"{table} was recreated or dropped by another worker.", table=str(table))

    def required(self, session: Session, table: TargetTable, seen: str | None) -> OpenTable:
        """TargetError where there is none."""
        if (found := self.seen(session, table, seen)) is None:
            raise TargetError(f"{table} does not exist in the target.", table=str(table))
        return found

    def begin(self, session: Session, table: TargetTable, at: Position) -> None:
        """Of a table that is made; a row that an older table has left goes.  TargetConflict where another is made."""
        self._delete(session, table)
        values = [table.name, self._replicator, *_values(at), "[]"]
        literals = ", ".join(map(self._dialect.literal, values))
        session.execute(f"INSERT INTO {self._place(table)} ({', '.join(_NAMES)}) VALUES ({literals})")

    def move(self, session: Session, table: OpenTable, at: Position, kept: Iterable[str] | None = None) -> None:
        """Compare and set: the row must be as it was looked at, else TargetConflict: another worker was here.

        It is locked from here to the end of the transaction.
        """
        old, said = table.position, _values(at)
        values: dict[str, str | int] = dict(
            zip(_NAMES[2:], [*said, json.dumps(sorted(table.kept if kept is None else kept))], strict=True)
        )
        before: dict[str, str | int] = {
            "table_name": table.name.name, "owner": self._replicator, "applied": old.applied, "loaded": old.loaded,
            "schema_version": old.schema_version, "load": old.load, **self._unmarked,
        }  # fmt: skip
        changed = session.execute(
            f"UPDATE {self._place(table.name)} SET {self._equal(values, ', ')} WHERE {self._equal(before, ' AND ')}"
        )
        self._dialect.require(session, changed, 1, lambda _: overtaken(table.name))

    def rename(self, session: Session, table: OpenTable, new: TargetTable) -> None:
        """The row becomes another table's; locked and compared as by `move`."""
        self.move(session, table, table.position)
        self.begin(session, new, table.position)
        self._set_kept(session, new, table.kept)
        self._delete(session, table.name)
        self._dialect.forget(session, table.name)

    def end(self, session: Session, table: OpenTable) -> None:
        """Of a table that is dropped; compared as by `move`."""
        self.move(session, table, table.position)
        self._delete(session, table.name)
        self._dialect.forget(session, table.name)

    def _row(self, session: Session, table: TargetTable) -> tuple[str, ...] | None:
        if self._dialect.columns(session, self._dialect.positions(table)) is None:
            return None
        name = self._dialect.literal(table.name)
        found = session.query(f"SELECT {', '.join(_NAMES[1:])} FROM {self._place(table)} WHERE table_name = {name}")
        return found[0] if found else None

    def _set_kept(self, session: Session, table: TargetTable, kept: frozenset[str]) -> None:
        said, name = self._dialect.literal(json.dumps(sorted(kept))), self._dialect.literal(table.name)
        session.execute(f"UPDATE {self._place(table)} SET kept = {said} WHERE table_name = {name}")

    def _delete(self, session: Session, table: TargetTable) -> None:
        name = self._dialect.literal(table.name)
        session.execute(f"DELETE FROM {self._place(table)} WHERE table_name = {name}")

    def _equal(self, values: dict[str, str | int], between: str) -> str:
        return between.join(f"{name} = {self._dialect.literal(value)}" for name, value in values.items())

    def _place(self, table: TargetTable) -> str:
        return self._dialect.place(self._dialect.positions(table))


def not_ours(table: TargetTable) -> TargetConflict:
    """Return the error for a table of another replicator or another program."""
    message = f"{table} exists in the target and was not created by this replicator."
    return TargetConflict(message, table=str(table), remedy=FOREIGN_TABLE)


def overtaken(table: TargetTable) -> TargetConflict:
    """The position is another one than was read."""
    return TargetConflict(f"Another worker committed to {table} in the meantime.", table=str(table))


def _values(at: Position) -> list[str | int]:
    return [at.applied, at.loaded, at.schema_version, at.load, at.mode.value, at.item]
