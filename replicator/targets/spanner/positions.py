"""How far each table is: a row of a table of the schema, compared and set in the transactions that change rows.

A definition is marked in the row before it is made (ADR 49).  Each is an operation whose name is the mark's id and the
statement's digest.  Spanner makes no operation twice under one name: so no worker holds anything while another one
makes a definition, and one that comes late finds it made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from google.cloud.spanner_v1 import Mutation
from google.protobuf.struct_pb2 import ListValue, Value

from replicator.errors import TidemarkError
from replicator.faults import reach
from replicator.model.types import BIGINT, DataType
from replicator.targets.base import Position, TargetTable
from replicator.targets.spanner.connection import Read, change, key_set, put
from replicator.targets.spanner.dialect import SpannerDialect, of
from replicator.targets.spanner.edits import pages, stored
from replicator.targets.spanner.failures import NoSuchTable
from replicator.targets.spanner.names import api_name, column_name
from replicator.targets.spanner.values import Budget
from replicator.targets.warehouse.dialect import Session
from replicator.targets.warehouse.position import OpenTable, overtaken
from replicator.targets.warehouse.stepwise import COMPARED, EMPTY, MARKED, MarkedPositions, Row, Step, make, to_make

NAMES = [name for name, _ in MARKED]
Values = Mapping[str, str | int]


class Move(NamedTuple):
    """Of a table's row: what it must be, and what it becomes (nothing: it stays)."""

    table: TargetTable
    before: Values
    after: Values


class SpannerPositions(MarkedPositions):
    """See `MarkedPositions`; the rows of a schema are in one table."""

    _dialect: SpannerDialect

    def ready(self, session: Session, table: TargetTable) -> Row:
        """See `MarkedPositions`."""
        first = {"table_name": table.name, **EMPTY}

        def work(read: Read) -> list[Mutation]:
            return [] if self._found(read, table) else [put(self._table(table), list(first), [_listed(first.values())])]

        of(session).transact(work)
        row = self.read(session, table)
        if row is None:
            raise overtaken(table)
        return row

    def read(self, session: Session, table: TargetTable) -> Row | None:
        """See `MarkedPositions`."""
        mine = of(session)
        try:
            return self._found(mine.read_values, table)
        except NoSuchTable:
            return None

    def swap(self, session: Session, table: TargetTable, old: Row, new: Row) -> None:
        """See `MarkedPositions`."""
        self.commit(session, [changed(table, old, new)])

    def commit(
        self,
        session: Session,
        moves: Sequence[Move],
        mutations: Sequence[Mutation] = (),
        staged: Callable[[], None] = lambda: None,
    ) -> None:
        """One transaction: the rows are as they must be and become what they shall, and the mutations are made.

        staged: called right before each attempt to commit.  Raises TargetConflict where a row is another one.
        """

        def work(read: Read) -> list[Mutation]:
            for table, before, _ in moves:
                row = self._found(read, table)
                if row is None or any(row[name] != value for name, value in before.items()):
                    raise overtaken(table)
            moved = [
                change(self._table(table), ["table_name", *after], [_listed([table.name, *after.values()])])
                for table, _, after in moves
                if after
            ]
            return [*mutations, *moved]

        of(session).transact(work, staged)

    def move_to(self, table: OpenTable, at: Position) -> Move:
        """From where the table was seen; pending definitions are in the way."""
        old = table.position
        before: dict[str, str | int] = {
            "owner": self.replicator, "applied": old.applied, "loaded": old.loaded,
            "schema_version": old.schema_version, "load": old.load, "pending": "",
        }  # fmt: skip
        after: dict[str, str | int] = {
            "applied": at.applied, "loaded": at.loaded, "schema_version": at.schema_version, "load": at.load,
            "mode": at.mode.value, "item": at.item,
        }  # fmt: skip
        return Move(table.name, before, after if at != old else {})

    def _make_steps(self, session: Session, table: TargetTable, row: Row, steps: list[Step]) -> None:
        marked = json.loads(str(row["pending"]))["id"]
        while steps:
            step, *steps = steps
            after = row | {"pending": json.dumps({"id": marked, "steps": steps}) if steps else ""}
            reach("apply.step.before")
            of(session).mark = marked
            try:
                self._make(session, table, row, step)
            except TidemarkError as error:
                if error.answered:  # the operation has failed, and its name is used up
                    self.swap(session, table, row, row | {"pending": to_make([step, *steps])})
                raise
            finally:
                of(session).mark = ""
            reach("apply.step.between")
            self.swap(session, table, row, after)
            reach("apply.step.after")
            row = after

    def _make(self, session: Session, table: TargetTable, row: Row, step: Step) -> None:
        dialect = self.dialect

        def there(name: str) -> TargetTable | None:
            one = TargetTable(table.namespace, name)
            return None if dialect.columns(session, one) is None else one

        match step:
            case ["switch", new, old]:
                if there(new):
                    dialect.switch(session, table, new, old)
            case ["discard", name]:
                if one := there(name):
                    dialect.drop(session, one)
            case ["rename_from", name]:
                if one := there(name):
                    dialect.rename(session, one, table)
            case ["create_copy" | "copy_from" | "drop_from", *_]:
                self._move_here(session, table, row, step)
            case _:
                make(dialect, session, table, step)

    def _move_here(self, session: Session, table: TargetTable, row: Row, step: Step) -> None:
        """One step of a table that comes from another schema."""
        dialect = self.dialect
        match step:
            case ["create_copy", columns, key] if dialect.columns(session, table) is None:
                defined = [(name, DataType.parse(kind)) for name, kind in columns]
                dialect.define(session, dialect.created(table, defined, key))
            case ["copy_from", namespace, name, columns, key]:
                fields = pa.schema([pa.field(name, DataType.parse(kind).arrow) for name, kind in columns])
                self._copy(session, TargetTable(namespace, name), table, row, fields, key)
            case ["drop_from", namespace, name]:
                if dialect.columns(session, one := TargetTable(namespace, name)) is not None:
                    dialect.drop(session, one)

    def _copy(
        self, session: Session, old: TargetTable, new: TargetTable, row: Row, fields: pa.Schema, key: Sequence[str]
    ) -> None:
        """All rows, again where that has been interrupted."""
        for page in pages(of(session), old, [column_name(name) for name in key], fields):
            for piece in Budget().pieces(page):
                self.commit(session, [guard(new, row)], stored(new, piece))

    @property
    def dialect(self) -> SpannerDialect:
        return self._dialect

    def _table(self, table: TargetTable) -> str:
        return api_name(self._dialect.positions(table))

    def _found(self, read: Read, table: TargetTable) -> Row | None:
        found = read(self._table(table), NAMES, key_set([_listed([table.name])]))
        if not found:
            return None
        values = zip(MARKED, found[0], strict=True)
        return {name: int(one.string_value) if kind == BIGINT else one.string_value for (name, kind), one in values}


def changed(table: TargetTable, old: Row, new: Row) -> Move:
    """The whole row, compared with what was read."""
    return Move(table, {name: old[name] for name in COMPARED}, {name: new[name] for name in EMPTY})


def guard(table: TargetTable, row: Row) -> Move:
    """The row stays, and must be as it was read."""
    return changed(table, row, row)._replace(after={})


def _listed(values: Any) -> ListValue:
    """Texts and whole numbers."""
    return ListValue(values=[Value(string_value=str(value)) for value in values])
