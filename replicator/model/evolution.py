"""The difference between two schemas of one table, and what a target has to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from replicator.model.schema import Column, TableSchema
from replicator.model.types import DataType, widens


@dataclass(frozen=True)
class EvolutionPlan:
    """Steps in the order in which they are to be done: drops, renames, adds, widenings, then order and nullability.

    replaced: columns whose type cannot be promoted in place; they are dropped and added again.
    """

    renamed: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()
    replaced: tuple[Column, ...] = ()
    order: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """True where there is nothing to do but perhaps the order."""
        return not (self.renamed or self.dropped or self.added or self.widened or self.replaced)


def plan_evolution(
    old: TableSchema,
    new: TableSchema,
    renamed: Mapping[str, str],
    promotes: Callable[[DataType, DataType], bool] = widens,
) -> EvolutionPlan:
    """What turns `old` into `new`.  `renamed` (old name → new name) counts where it fits both schemas.

    promotes: can a target make a column of one type one of the other in place?
    """
    renames = {a: b for a, b in renamed.items() if a in old.names and b in new.names and a != b}
    taken = set(renames.values())  # a column of that name makes room, unless it moves itself
    gone = [c.name for c in old.columns if c.name in taken and c.name not in renames]
    before = {renames.get(c.name, c.name): c for c in old.columns if c.name not in gone}
    added: list[Column] = []
    widened: list[Column] = []
    replaced: list[Column] = []
    for column in new.columns:
        was = before.pop(column.name, None)
        if was is None:
            added.append(column)
        elif was.type != column.type:
            (widened if promotes(was.type, column.type) else replaced).append(column)
    return EvolutionPlan(
        tuple(renames.items()), (*gone, *before), tuple(added), tuple(widened), tuple(replaced), new.names
    )


def overwritten_columns(
    old: TableSchema, kept: AbstractSet[str], new: TableSchema, renamed: Mapping[str, str]
) -> set[str]:
    """Columns whose name is another column's from now on; their old values are not the new column's, so they go.

    They are kept ones (that the source had dropped) which it has again, and a dropped one whose name another was given.
    """
    renamed_to = {name for before, name in renamed.items() if before in old.names and name in old.names}
    taken = {name for name in renamed_to if name not in renamed}
    return (set(kept) & set(old.names) | taken) & set(new.names)
