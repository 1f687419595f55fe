"""What a new definition of a table changed, column by column, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from replicator.model.evolution import plan_evolution
from replicator.model.masks import Mask
from replicator.model.schema import Column, TableSchema


@dataclass(frozen=True)
class Definition:
    """A version of a table's schema, with what made it.

    renamed: columns, old name → new; None where it was not recorded (then the source's own column numbers decide, where
    it has them).
    keep_dropped: dropped columns stay in the target.  created: the table was recreated, so no column of it
    continues an earlier one.
    left_out: columns that the selection excluded.
    """

    version: int
    schema: TableSchema
    renamed: Mapping[str, str] | None = None
    keep_dropped: bool = False
    created: bool = False
    left_out: frozenset[str] = field(default=frozenset())


class ColumnChange(StrEnum):
    """What a version did to a column.

    CONVERTED  its type became one that the target cannot promote to: dropped there, added again, and read again
    RETYPED    another type in the source that is the same one here (varchar(40) → varchar(80))
    KEPT       dropped in the source, still in the target; OVERWRITTEN: until another column took its name
    LEFT_OUT   the selection excludes it from here on
    MASKED     the selection masks it from here on, otherwise than before, or no more
    """

    FIRST = "first seen"
    SAME = "unchanged"
    ADDED = "added"
    RENAMED = "renamed"
    WIDENED = "widened"
    CONVERTED = "converted"
    RETYPED = "retyped"
    NULLABILITY = "nullability"
    DROPPED = "dropped"
    KEPT = "kept"
    OVERWRITTEN = "overwritten"
    LEFT_OUT = "left out"
    MASKED = "masked"


@dataclass(frozen=True)
class Change:
    """One column's change; `old` is None for an added one, `new` for one that is gone."""

    fate: ColumnChange
    old: Column | None
    new: Column | None

    @property
    def column(self) -> Column:
        """As it is afterwards, or was before it went."""
        found = self.new or self.old
        assert found is not None
        return found

    @property
    def text(self) -> str:
        """`+ coupon varchar(40) → string`."""
        if self.old is None:
            return f"+ {self.column.name} {self.column.source_type} → {self.column.type}"
        if self.new is None:
            return f"− {self.old.name}{_WHERE_TO.get(self.fate, '')}"
        return _altered(self.fate, self.old, self.new)


_WHERE_TO = {ColumnChange.KEPT: ", stays in the target", ColumnChange.LEFT_OUT: ", excluded by the selection"}


def _altered(fate: ColumnChange, old: Column, new: Column) -> str:
    if fate is ColumnChange.NULLABILITY:
        return f"{new.name} {'may be null' if new.nullable else 'is never null'}"
    if fate is ColumnChange.MASKED:
        return f"{new.name} masked: {new.masked.mask}" if new.masked else f"{new.name} no longer masked"
    if fate is ColumnChange.RENAMED:
        return f"{old.name} renamed to {new.name}" + ("" if old.type == new.type else f", {old.type} → {new.type}")
    types = "" if old.type == new.type else f" ({old.type} → {new.type})"
    return f"{new.name} {fate}: {old.source_type} → {new.source_type}{types}"


@dataclass(frozen=True)
class SchemaDifference:
    """Between two definitions.

    `table_renamed`, `rekeyed` (old, new) where they are; `reordered`: nothing else but the order.
    """

    changes: tuple[Change, ...]
    table_renamed: tuple[str, str] | None = None
    rekeyed: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    reordered: bool = False
    created: bool = False

    @property
    def texts(self) -> list[str]:
        """Every change in a few words; at least one."""
        said = ["recreated"] if self.created else []
        if self.table_renamed:
            said.append(f"table renamed from {self.table_renamed[0]} to {self.table_renamed[1]}")
        said += [change.text for change in self.changes]
        if self.rekeyed:
            old, new = (", ".join(names) or "none" for names in self.rekeyed)
            said.append(f"key: {old} → {new}")
        if self.reordered:
            said.append("column order changed")
        return said or ["no visible difference"]


def renames(before: Definition, after: Definition) -> dict[str, str]:
    """Old name → new, of columns that are in both."""
    if after.created:
        return {}
    if after.renamed is not None:
        return {a: b for a, b in after.renamed.items() if a in before.schema.names and b in after.schema.names}
    numbered = {column.number: column.name for column in after.schema.columns if column.number}
    found = {column.name: numbered.get(column.number, column.name) for column in before.schema.columns}
    return {old: new for old, new in found.items() if old != new}


def difference(before: Definition, after: Definition) -> SchemaDifference:
    """What `after` changed.  Columns in the order of the plan that a target follows: drops, renames, adds, types."""
    old, new = before.schema, after.schema
    moved = renames(before, after)
    table_renamed = None if old.table == new.table else (str(old.table), str(new.table))
    rekeyed = None if tuple(moved.get(n, n) for n in old.key) == new.key else (old.key, new.key)
    if after.created:
        gone = [Change(ColumnChange.DROPPED, column, None) for column in old.columns]
        return SchemaDifference(
            (*gone, *(Change(ColumnChange.ADDED, None, column) for column in new.columns)),
            table_renamed,
            rekeyed,
            created=True,
        )
    plan = plan_evolution(old, new, moved)
    changes = [Change(_gone(name, before, after), old.column(name), None) for name in plan.dropped]
    changes += [Change(ColumnChange.RENAMED, old.column(was), new.column(name)) for was, name in plan.renamed]
    changes += [Change(ColumnChange.ADDED, None, column) for column in plan.added]
    said = {change.column.name for change in changes}
    back = {name: was for was, name in moved.items()}
    fates = {c.name: ColumnChange.WIDENED for c in plan.widened} | {
        c.name: ColumnChange.CONVERTED for c in plan.replaced
    }
    for column in new.columns:
        if column.name not in said:
            was = old.column(back.get(column.name, column.name))
            fate = ColumnChange.MASKED if _mask(was) != _mask(column) else fates.get(column.name) or _small(was, column)
            if fate is not ColumnChange.SAME:
                changes.append(Change(fate, was, column))
    reordered = not (changes or table_renamed or rekeyed) and old.names != new.names
    return SchemaDifference(tuple(changes), table_renamed, rekeyed, reordered)


def _mask(column: Column) -> Mask | None:
    return column.masked.mask if column.masked else None


def _gone(name: str, before: Definition, after: Definition) -> ColumnChange:
    if name in after.left_out - before.left_out:
        return ColumnChange.LEFT_OUT
    return ColumnChange.KEPT if after.keep_dropped else ColumnChange.DROPPED


def _small(old: Column, new: Column) -> ColumnChange:
    """What needs no change of the target's columns."""
    if old.source_type != new.source_type:
        return ColumnChange.RETYPED
    return ColumnChange.SAME if old.nullable == new.nullable else ColumnChange.NULLABILITY
