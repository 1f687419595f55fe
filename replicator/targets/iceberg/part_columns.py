"""What other columns of one part make of a table that several source tables share.

Columns that no other part has change as those of any table.  Of a column that another part has, too, only the part's
own rows get other values, and its type must hold both parts' values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replicator.errors import UnsupportedDdl
from replicator.model.evolution import EvolutionPlan, plan_evolution
from replicator.model.schema import Column, TableSchema
from replicator.model.types import DataType
from replicator.targets.base import Evolve
from replicator.targets.iceberg.table.catalog import Columns, IcebergTable
from replicator.targets.iceberg.table.layout import partition_columns
from replicator.targets.iceberg.table.parts import columns_of, others
from replicator.targets.iceberg.table.type_names import promotes
from replicator.targets.iceberg.table.types import from_iceberg

_APART = (
    "Change the column in the other tables too, drop the target table and resnapshot them all; or leave the column out;"
    " or route the table to a separate target table."
)


@dataclass
class PartColumns:
    """Changes of the table's columns, and of the part's rows.

    names: that the part has afterwards; kept: ids of those that its source dropped and the policy keeps.
    gone, renamed, added, widened: columns of the table.
    sets: by column, whose value it gets in the part's rows, or an empty text for null.
    """

    names: Sequence[str]
    kept: frozenset[int] = frozenset()
    gone: set[str] = field(default_factory=set)
    renamed: Mapping[str, str] = field(default_factory=dict)
    added: list[Column] = field(default_factory=list)
    widened: list[Column] = field(default_factory=list)
    sets: dict[str, str] = field(default_factory=dict)

    @property
    def changes_table(self) -> bool:
        return bool(self.gone or self.renamed or self.added or self.widened)

    @property
    def plan(self) -> EvolutionPlan:
        """Of the table, without what goes."""
        return EvolutionPlan(tuple(self.renamed.items()), (), tuple(self.added), tuple(self.widened))


def of_new_part(table: IcebergTable, schema: TableSchema) -> PartColumns:
    """For a part that has no rows yet, or none that stay.  Raises UnsupportedDdl."""
    return _Planner(table, schema, Columns(), EvolutionPlan(added=schema.columns)).planned(keep_dropped=False)


def of_evolved_part(table: IcebergTable, schema: TableSchema, change: Evolve) -> PartColumns:
    """`schema`: that of the change, as the table has it.  Raises UnsupportedDdl."""
    mine = columns_of(table, table.name.tenant[1])
    own = tuple(
        Column(name, kind, nullable=True, source_type="")
        for name, (number, kind) in _present(table).items()
        if number in mine.own
    )
    plan = plan_evolution(TableSchema(schema.table, own), schema, change.renamed, _fits)
    return _Planner(table, schema, mine, plan).planned(keep_dropped=change.keep_dropped)


class _Planner:
    """own: columns of the part; shared: those that another part has, too; free: those of no part."""

    def __init__(self, table: IcebergTable, schema: TableSchema, mine: Columns, plan: EvolutionPlan) -> None:
        self._table, self._schema, self._plan = table, schema, plan
        there, theirs = _present(table), others(table)
        self._ids = {name: number for name, (number, _) in there.items()}
        self._kinds = {name: kind for name, (_, kind) in there.items()}
        self._shared = {name for name, number in self._ids.items() if number in theirs}
        self._own = {name for name, number in self._ids.items() if number in mine.own}
        self._kept = {name for name, number in self._ids.items() if number in mine.kept}
        self._free = set(there) - self._shared - self._own - self._kept
        self._made = PartColumns(schema.names)

    def planned(self, *, keep_dropped: bool) -> PartColumns:
        made, partitioned = self._made, partition_columns(self._table)
        kept = {name for name in self._kept if name not in self._schema.names}
        for name in self._plan.dropped:
            if (keep_dropped or name in partitioned) and name not in self._schema.names:
                kept.add(name)
            elif name in self._shared:
                made.sets[name] = ""
            else:
                made.gone.add(name)
        made.kept = frozenset(self._ids[name] for name in kept)
        made.renamed = self._moved()
        for old, new in self._plan.renamed:
            if old not in made.renamed:
                made.sets.setdefault(old, "")
                made.sets[new] = old
        back = {new: old for old, new in made.renamed.items()}
        for column in self._schema.columns:
            if column.name in back:
                self._take(column, back[column.name])
            elif column.name in self._own and column not in self._plan.added and column.name not in made.sets:
                self._take(column, column.name)
            else:
                self._add(column)
        if lost := sorted(partitioned & made.gone):
            message = f"{self._table.name} is partitioned by {lost[0]}, which becomes another column or type."
            remedy = "Route the table to another target table: it is then made with the new column."
            raise UnsupportedDdl(message, table=str(self._schema.table), remedy=remedy)
        return made

    def _moved(self) -> dict[str, str]:
        """Renames of columns that are the part's alone, to names that are free then: those that copy no values."""
        moved = {old: new for old, new in self._plan.renamed if not {old, new} & self._shared}
        while blocked := {
            old for old, new in moved.items() if new in self._own and new not in self._made.gone and new not in moved
        }:
            moved = {old: new for old, new in moved.items() if old not in blocked}
        return moved

    def _take(self, column: Column, was: str) -> None:
        """The column `was` of the table is it, or becomes it."""
        kind = self._kinds[was]
        if promotes(kind, column.type):
            self._made.widened.append(column)
        elif not _fits(kind, column.type):
            if was in self._shared:
                raise self._of_two_types(column, kind)
            self._made.gone.add(was)
            self._added(column)

    def _add(self, column: Column) -> None:
        """Give the part another part's column, one of no part, or a new one."""
        made, name = self._made, column.name
        stays = name in self._own and name not in made.gone and name not in made.renamed
        if name in self._shared or stays:
            if not _fits(self._kinds[name], column.type):
                raise self._of_two_types(column, self._kinds[name])
            if name in self._kept:
                made.sets.setdefault(name, "")
            self._take(column, name)
        elif name in self._free and _fits(self._kinds[name], column.type):
            self._take(column, name)
        else:
            self._added(column)

    def _added(self, column: Column) -> None:
        """Add the column, in place of one of no part whose name is the same in any case."""
        for one in self._ids:
            if one.lower() != column.name.lower():
                continue
            if one in self._free or (one in self._kept and one not in self._shared):
                self._made.gone.add(one)
            elif one in self._shared and one != column.name:
                message = (
                    f"The column {column.name} of {self._schema.table} is called {one} in other tables that share"
                    f" {self._table.name.whole}."
                )
                raise UnsupportedDdl(message, table=str(self._schema.table), remedy=_APART)
        self._made.added.append(column)

    def _of_two_types(self, column: Column, there: DataType) -> UnsupportedDdl:
        message = (
            f"The column {column.name} of {self._schema.table} is {column.type}, and {there} in"
            f" {self._table.name.whole}, which other tables share: no type of the target holds both."
        )
        return UnsupportedDdl(message, table=str(self._schema.table), remedy=_APART)


def _fits(was: DataType, new: DataType) -> bool:
    """Does a column of the type `was` hold values of both, widened perhaps?"""
    return was == new or promotes(was, new) or promotes(new, was)


def _present(table: IcebergTable) -> dict[str, tuple[int, DataType]]:
    """Iceberg's id and the type by column, without Tidemark's own."""
    ids, found = {one["name"]: int(one["id"]) for one in table.fields}, {}
    for name, text in table.columns:
        kind = from_iceberg(text)
        if kind is None:
            message = f"The target column {name} of {table.name} has the type {text}, which Tidemark did not create."
            raise UnsupportedDdl(message, table=str(table.name), remedy="Drop the column from the target table.")
        found[name] = ids[name], kind
    return found
