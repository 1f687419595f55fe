"""Create, evolve, rename and drop tables where each definition commits immediately (ADR 49).

A change is marked in the table's position row before it is made, and the mark lists all that is to be done.  A worker
that reads a row with a mark first makes what it says.  One connection makes a step while another one locks the row, in
a transaction that takes the step off the mark.  So no two workers make steps of a table at a time, and a step that was
made and not taken off is recognised by the table's columns.  A rename that was not finished is undone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from replicator.errors import TargetConflict, TargetError, TidemarkError
from replicator.faults import reach
from replicator.model.evolution import EvolutionPlan
from replicator.model.mode import Mode
from replicator.model.types import BIGINT, STRING, DataType
from replicator.targets.base import NO_TABLE, Create, Evolve, Position, Rename, TargetTable
from replicator.targets.warehouse.dialect import MOVING, Definitions, Session
from replicator.targets.warehouse.position import FIELDS, OpenTable, Positions, not_ours, overtaken
from replicator.targets.warehouse.schema_update import columns_of, name_not_free, planned

# columns: JSON, each column's type by its name, as the warehouse's own types do not tell all of Tidemark's apart.
# pending: the mark, JSON: `steps` to make, `rename` to a table, or the `from` of a table that is renamed to this one.
MARKED = (*FIELDS, ("columns", STRING), ("pending", STRING))
EMPTY: dict[str, str | int] = {
    "owner": "", "applied": -1, "loaded": -1, "schema_version": 0, "load": "", "mode": Mode.MIRROR.value, "item": "",
    "kept": "[]", "columns": "{}", "pending": "",
}  # fmt: skip
COMPARED = ("owner", "applied", "loaded", "schema_version", "load", "pending")
ATTEMPTS = 3
Row = dict[str, str | int]
Step = Sequence[Any]


class MarkedPositions(Positions):
    """A table of one row for each target table; the row stays, without columns, when the table goes."""

    _unmarked = MappingProxyType({"pending": ""})

    def __init__(self, dialect: Definitions, replicator: str) -> None:
        """`replicator`: the id that marks its tables."""
        super().__init__(dialect, replicator)
        self.replicator = replicator
        self._there: set[TargetTable] = set()  # position tables that were seen

    def ready(self, session: Session, table: TargetTable) -> Row:
        """The row, of a table that may not be there yet."""
        if (row := self.read(session, table)) is None:
            first = {"table_name": table.name, **EMPTY}
            values = ", ".join(f"{self._dialect.cast(first[name], kind)} AS {name}" for name, kind in MARKED)
            session.execute(f"CREATE TABLE IF NOT EXISTS {self._place(table)} AS SELECT {values}")
            row = self.read(session, table)
        if row is None:
            raise overtaken(table)
        return row

    def read(self, session: Session, table: TargetTable) -> Row | None:
        """The row as it is; None where there is none."""
        place = self._dialect.positions(table)
        if place not in self._there:
            if self._dialect.columns(session, place) is None:
                return None
            self._there.add(place)
        try:
            found = session.query(f"SELECT {', '.join(name for name, _ in MARKED)} FROM {self._dialect.place(place)}")
        except TargetError:
            self._there.discard(place)
            raise
        if not found:
            return None
        values = zip(MARKED, found[0], strict=True)
        return {name: int(value) if kind == BIGINT else str(value) for (name, kind), value in values}

    def look(self, session: Session, table: TargetTable) -> OpenTable | None:
        """See `Positions`; makes what is pending."""
        row, fields = self.settled(session, table), self._dialect.columns(session, table)
        if fields is None:
            return None
        if row is None or not _there(row) or row["owner"] != self.replicator:
            raise not_ours(table)
        recorded = {name: DataType.parse(text) for name, text in json.loads(str(row["columns"])).items()}
        names = {self._dialect.catalog_name(name): name for name in recorded}
        named = [(names.get(name, name), kind) for name, kind in fields]
        known = [(name, self._recorded(kind, recorded.get(name))) for name, kind in named]
        return self._opened(table, known, [row[name] for name, _ in FIELDS[1:]])

    def position(self, session: Session, table: TargetTable) -> Position | None:
        """See `Positions`.  What is pending and cannot be made is in the way of this load only."""
        try:
            return super().position(session, table)
        except TargetConflict:  # a table of another program is there, or another worker is: nothing may replace it
            raise
        except TidemarkError as error:
            row = self.read(session, table)
            if row is None or not _there(row) or row["owner"] != self.replicator or not row["pending"]:
                raise
            if "steps" not in json.loads(str(row["pending"])):
                raise
            return replace(self._opened(table, [], [row[name] for name, _ in FIELDS[1:]]).position, error=error)

    def _recorded(self, found: DataType | None, recorded: DataType | None) -> DataType | None:
        """One of several of Tidemark's types that are one type of the warehouse."""
        same = found and recorded and self._dialect.type_name(found) == self._dialect.type_name(recorded)
        return recorded if same else found

    def claim(self, session: Session, table: TargetTable, seen: str | None) -> tuple[Row | None, bool]:
        """Return the row of a table that is replaced or dropped, regardless of pending changes of its columns.

        Also returns whether the table exists.  Raises TargetConflict as `look` and `seen` do.
        """
        row = self.read(session, table)
        if row is not None and row["pending"] and "steps" not in json.loads(str(row["pending"])):
            row = self.settled(session, table)
        there = self._dialect.columns(session, table) is not None
        marked = row is not None and bool(row["pending"])
        ours = row is not None and row["owner"] == self.replicator and (_there(row) or marked)
        if not ours and (there or marked):
            raise not_ours(table)
        known = row is not None and ours and _there(row) and (there or marked)
        if seen not in (None, str(row["load"]) if row is not None and known else NO_TABLE):
            raise TargetConflict(f"{table} was recreated or dropped by another worker.", table=str(table))
        return row, there

    def swap(self, session: Session, table: TargetTable, old: Row, new: Row) -> None:
        """Compare and set the whole row: TargetConflict where it is not as it was read."""
        values = self._equal({name: new[name] for name in EMPTY}, ", ")
        changed = session.execute(f"UPDATE {self._place(table)} SET {values} WHERE {self._as_read(old)}")
        self._dialect.require(session, changed, 1, lambda _: overtaken(table))

    def _as_read(self, row: Row) -> str:
        return self._equal({name: row[name] for name in COMPARED}, " AND ")

    def unchanged(self, session: Session, table: TargetTable, row: Row) -> AbstractContextManager[None]:
        """Definitions of the block are made only while the row is as it was read."""
        return self._dialect.guarded(session, f"SELECT 1 FROM {self._place(table)} WHERE {self._as_read(row)}")

    def settled(self, session: Session, table: TargetTable) -> Row | None:
        """The row without a mark of this replicator's."""
        for _ in range(ATTEMPTS):
            row = self.read(session, table)
            if row is None or not row["pending"] or row["owner"] != self.replicator:
                return row
            self.settle(session, table, row)
        raise overtaken(table)

    def settle(self, session: Session, table: TargetTable, row: Row) -> None:
        """Make what a row's mark says."""
        pending = json.loads(str(row["pending"]))
        if "steps" in pending:
            self._make_steps(session, table, row, pending["steps"])
        elif "rename" in pending:
            self._undo_rename(session, table, row, TargetTable(*pending["rename"]))
        else:
            self.settled(session, TargetTable(*pending["from"]))
            if self.read(session, table) == row:  # the other table has no such rename pending
                self.swap(session, table, row, row | {"pending": ""})

    def _make_steps(self, session: Session, table: TargetTable, row: Row, steps: list[Step]) -> None:
        with self.holding() as holder:
            while steps:
                step, *steps = steps
                after = row | {"pending": to_make(steps) if steps else ""}
                with self.making(holder):
                    self.swap(holder, table, row, after)
                    with self.unchanged(session, table, row):
                        make(self._dialect, session, table, step)
                row = after

    def _undo_rename(self, session: Session, table: TargetTable, row: Row, new: TargetTable) -> None:
        at_new = self.read(session, new)
        with self.holding() as holder, holder.transaction():
            self.swap(holder, table, row, row | {"pending": ""})
            if at_new is not None and at_new["pending"] == mark("from", table):
                self.swap(holder, new, at_new, at_new | EMPTY)
            there = self._dialect.columns(session, table), self._dialect.columns(session, new)
            with self.unchanged(session, table, row):
                if there[0] is None and there[1] is not None:
                    self._dialect.rename(session, new, table)
                elif self._dialect.moved_copy(session, table, new):
                    self._dialect.drop(session, new)

    @contextmanager
    def making(self, holder: Session) -> Iterator[None]:
        """One step: what the block makes, while `holder` has the row."""
        reach("apply.step.before")
        with holder.transaction():
            yield
            reach("apply.step.between")
        reach("apply.step.after")

    @contextmanager
    def holding(self) -> Iterator[Session]:
        """A connection that holds rows while another one makes what they say."""
        holder = self._dialect.connect()
        try:
            yield holder
        finally:
            holder.close()


@dataclass(frozen=True)
class StepwiseChange:
    """row, after: the position's before, and when all is made; gone: columns that are dropped first; key: the new."""

    row: Row
    after: Row
    plan: EvolutionPlan
    gone: set[str]
    key: Sequence[str]


@dataclass(frozen=True)
class StepwiseSchemaChanges:
    """See `DefinitionChanges`."""

    dialect: Definitions
    positions: MarkedPositions

    def create(self, session: Session, name: TargetTable, change: Create, seen: str | None) -> str:
        """See `DefinitionChanges`."""
        schema, dialect = change.schema, self.dialect
        change.mode.check(schema)
        dialect.check_columns(schema.names, str(schema.table))
        columns = [(one, str(kind)) for one, kind in columns_of(change)]
        for one, kind in columns_of(change):
            dialect.defined(one, kind)  # a type that cannot be is refused before anything is marked
        dialect.prepare(session, name)
        self.positions.ready(session, name)
        row, there = self.positions.claim(session, name, seen)
        if row is None:
            raise overtaken(name)
        key = [] if change.mode is Mode.CHANGELOG else list(schema.key)
        step = ["create", columns, key, change.mode is not Mode.HISTORY, there]
        at = Position(change.applied, -1, change.version, change.load, change.mode)
        after = moved(row, dict(columns), at, ()) | {"owner": self.positions.replicator, "pending": to_make([step])}
        self.positions.swap(session, name, row, after)
        self.positions.settle(session, name, after)
        return "recreate" if there else "create"

    def drop(self, session: Session, name: TargetTable, seen: str | None) -> bool:
        """See `DefinitionChanges`."""
        row, there = self.positions.claim(session, name, seen)
        if row is None or not (there or row["pending"]):
            return False
        if _there(row):
            after = row | EMPTY | {"owner": row["owner"], "pending": to_make([["drop"]])}
            self.positions.swap(session, name, row, after)
            row = after
        self.positions.settle(session, name, row)
        return True

    def evolve(self, session: Session, name: TargetTable, change: Evolve, seen: str | None) -> bool:
        """See `DefinitionChanges`."""
        row = self.positions.settled(session, name)
        table = self.positions.required(session, name, seen)
        if row is None or table.position.schema_version >= change.version:
            return False
        table.mode.check(change.schema)
        self.dialect.check_columns(change.schema.names, str(change.schema.table))
        plan, gone, kept = planned(table, change)
        names = {old: new for old, new in plan.renamed if old not in gone}
        columns = {names.get(one, one): str(kind) for one, kind in table.fields if one not in gone}
        columns |= {one.name: str(one.type) for one in (*plan.added, *plan.replaced, *plan.widened)}
        for one in (*plan.added, *plan.replaced, *plan.widened):
            self.dialect.defined(one.name, one.type)
        key = () if table.mode is Mode.CHANGELOG else change.schema.key
        at = table.position
        after = Position(at.applied, at.loaded, change.version, at.load, at.mode, at.item)
        self._change_columns(session, table, StepwiseChange(row, moved(row, columns, after, kept), plan, gone, key))
        return True

    def _change_columns(self, session: Session, table: OpenTable, change: StepwiseChange) -> None:
        marked = change.after | {"pending": to_make([*column_steps(change), ["keyed", list(change.key)]])}
        self.positions.swap(session, table.name, change.row, marked)
        self.positions.settle(session, table.name, marked)

    def rename(self, session: Session, name: TargetTable, change: Rename, seen: str | None) -> bool:
        """See `DefinitionChanges`.  It is done when the position is the new table's."""
        new, positions = change.new, self.positions
        found = positions.seen(session, name, seen)
        if found is None or name == new:
            return False
        self.dialect.prepare(session, new)
        positions.ready(session, new)
        row, at_new = positions.settled(session, name), positions.settled(session, new)
        if self.dialect.columns(session, new) is not None:
            raise name_not_free(name, new)
        if row is None or at_new is None or row["load"] != found.position.load or at_new["pending"]:
            raise overtaken(name)
        leaving = row | {"pending": mark("rename", new)}
        coming = at_new | EMPTY | {"owner": positions.replicator, "pending": mark("from", name)}
        with session.transaction():
            positions.swap(session, name, row, leaving)
            positions.swap(session, new, at_new, coming)
        with positions.holding() as holder, positions.making(holder):
            positions.swap(holder, name, leaving, leaving | EMPTY)
            positions.swap(holder, new, coming, row)
            with positions.unchanged(session, name, leaving):
                self.dialect.rename(session, name, new)
        return True


def _there(row: Row) -> bool:
    """It is a table's, which always has columns; one that is being loaded may have no load."""
    return row["columns"] != EMPTY["columns"]


def mark(what: str, table: TargetTable) -> str:
    """Of a rename."""
    return json.dumps({what: [table.namespace, table.name]})


def to_make(steps: Sequence[Step]) -> str:
    """The mark.  id: no two marks are equal."""
    return json.dumps({"id": uuid.uuid4().hex, "steps": steps})


def moved(row: Row, columns: Mapping[str, str], at: Position, kept: Iterable[str]) -> Row:
    """The row at another position, with these columns."""
    return row | {
        "applied": at.applied, "loaded": at.loaded, "schema_version": at.schema_version, "load": at.load,
        "mode": at.mode.value, "item": at.item, "kept": json.dumps(sorted(kept)), "columns": json.dumps(columns),
    }  # fmt: skip


def column_steps(change: StepwiseChange) -> list[Step]:
    """In the order of `Definitions.change_columns`."""
    plan, gone = change.plan, change.gone
    renamed = [(old, new) for old, new in plan.renamed if old not in gone]
    between = [f"{MOVING}{number}" for number in range(len(renamed))]
    return [
        *(["drop_column", name] for name in sorted(gone)),
        *(["rename_column", old, name] for (old, _), name in zip(renamed, between, strict=True)),
        *(["rename_column", name, new] for (_, new), name in zip(renamed, between, strict=True)),
        *(["add_column", one.name, str(one.type)] for one in (*plan.added, *plan.replaced)),
        *(["widen_column", one.name, str(one.type)] for one in plan.widened),
    ]


def make(dialect: Definitions, session: Session, table: TargetTable, step: Step) -> None:
    """One step, if the table does not show that it is made."""
    fields = dialect.columns(session, table)
    there = dict(fields or ())
    match step:
        case ["create", columns, key, one, over]:
            _create(dialect, session, table, [(name, DataType.parse(kind)) for name, kind in columns], key, one, over)
        case ["drop"] if fields is not None:
            dialect.drop(session, table)
        case ["drop_column", name] if dialect.catalog_name(name) in there:
            dialect.drop_column(session, table, name)
        case ["rename_column", old, new] if (
            dialect.catalog_name(old) in there and dialect.catalog_name(new) not in there
        ):
            dialect.rename_column(session, table, old, new)
        case ["add_column", name, kind] if dialect.catalog_name(name) not in there:
            dialect.add_column(session, table, name, DataType.parse(kind))
        case ["widen_column", name, kind] if (found := there.get(dialect.catalog_name(name))) is not None:
            if dialect.type_name(found) != dialect.type_name(DataType.parse(kind)):
                dialect.widen_column(session, table, name, DataType.parse(kind))
        case ["keyed", key]:
            dialect.keyed(session, table, key)


def _create(
    dialect: Definitions, session: Session, table: TargetTable, columns: list[tuple[str, DataType]], key: list[str],
    one: bool, over: bool,  # noqa: FBT001
) -> None:  # fmt: skip
    fields = dialect.columns(session, table)
    if fields is None:
        dialect.create(session, table, columns, key, one=one)
    elif over:
        dialect.recreate(session, table, columns, key, one=one)
    elif [name for name, _ in fields] != [dialect.catalog_name(name) for name, _ in columns] or session.query(
        f"SELECT 1 FROM {dialect.place(table)} LIMIT 1"
    ):
        raise not_ours(table)  # it came after the mark, and this step has not made it
