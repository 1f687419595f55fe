"""Create, evolve, rename and drop tables, each in one transaction with the position.

For dialects whose definitions take part in transactions; others: `stepwise.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from replicator.errors import TargetConflict
from replicator.faults import reach
from replicator.model.evolution import EvolutionPlan, overwritten_columns, plan_evolution
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE, Column, TableSchema
from replicator.model.types import BIGINT, DataType
from replicator.targets.base import Create, Evolve, Position, Rename, TargetTable
from replicator.targets.warehouse.changes import published
from replicator.targets.warehouse.dialect import Dialect, Session
from replicator.targets.warehouse.position import OpenTable, Positions


@dataclass(frozen=True)
class DefinitionChanges:
    """Changes of definitions of one replicator's tables."""

    dialect: Dialect
    positions: Positions

    def create(self, session: Session, name: TargetTable, change: Create, seen: str | None) -> str:
        """In place of an older table of this replicator."""
        schema, dialect = change.schema, self.dialect
        change.mode.check(schema)
        dialect.check_columns(schema.names, str(schema.table))
        dialect.prepare(session, name)
        at = Position(change.applied, -1, change.version, change.load, change.mode)
        key = () if change.mode is Mode.CHANGELOG else schema.key
        with published(session):
            older = self.positions.seen(session, name, seen)
            if older is None:
                self.positions.begin(session, name, at)
            else:
                self.positions.move(session, older, at, kept=())
                dialect.drop(session, name)
            reach("apply.create.between")
            dialect.create(session, name, columns_of(change), key, one=change.mode is not Mode.HISTORY)
        return "create" if older is None else "recreate"

    def drop(self, session: Session, name: TargetTable, seen: str | None) -> bool:
        """False where there is none."""
        with published(session):
            if (found := self.positions.seen(session, name, seen)) is None:
                return False
            self.positions.end(session, found)
            self.dialect.drop(session, name)
        return True

    def rename(self, session: Session, name: TargetTable, change: Rename, seen: str | None) -> bool:
        """False where it is done already, or there is nothing to rename."""
        self.dialect.prepare(session, change.new)
        with published(session):
            found = self.positions.seen(session, name, seen)
            if found is None or name == change.new:
                return False
            if self.dialect.columns(session, change.new) is not None:
                raise name_not_free(name, change.new)
            self.positions.rename(session, found, change.new)
            self.dialect.rename(session, name, change.new)
        return True

    def evolve(self, session: Session, name: TargetTable, change: Evolve, seen: str | None) -> bool:
        """False where the columns are those of `change.schema` already.

        Versions only grow: a stale worker that comes with an older one changes nothing.
        """
        with published(session):
            table = self.positions.required(session, name, seen)
            if table.position.schema_version >= change.version:
                return False
            table.mode.check(change.schema)
            self.dialect.check_columns(change.schema.names, str(change.schema.table))
            self._evolve(session, table, change)
        return True

    def _evolve(self, session: Session, table: OpenTable, change: Evolve) -> None:
        plan, gone, kept = planned(table, change)
        self.positions.move(session, table, replace(table.position, schema_version=change.version), kept)
        key = () if table.mode is Mode.CHANGELOG else change.schema.key
        self.dialect.change_columns(session, table.name, plan, gone, key)


def columns_of(change: Create) -> list[tuple[str, DataType]]:
    """All of a new table, with those of Tidemark's own."""
    columns = [(one.name, one.type) for one in change.schema.columns]
    return [*columns, (SEQUENCE, BIGINT), *change.mode.columns.items()]


def planned(table: OpenTable, change: Evolve) -> tuple[EvolutionPlan, set[str], frozenset[str]]:
    """The plan, the columns to drop first, and those that stay although the source no longer has them."""
    schema, kept = change.schema, table.kept & {name for name, _ in table.columns}
    old = TableSchema(schema.table, tuple(Column(name, kind, True, "") for name, kind in table.columns))  # noqa: FBT003
    overwritten = overwritten_columns(old, kept, schema, change.renamed)
    old = replace(old, columns=tuple(one for one in old.columns if one.name not in kept | overwritten))
    plan = plan_evolution(old, schema, change.renamed)
    after = (kept - set(schema.names)) | (set(plan.dropped) if change.keep_dropped else set())
    back = {new: old for old, new in plan.renamed}
    gone = overwritten | {back.get(one.name, one.name) for one in plan.replaced} | (set(plan.dropped) - after)
    return plan, gone, after


def name_not_free(name: TargetTable, new: TargetTable) -> TargetConflict:
    """A table cannot be renamed yet."""
    remedy = f"Retried automatically. If it persists, drop {new} in the target."
    message = f"{name} cannot be renamed: {new} still exists in the target."
    return TargetConflict(message, table=str(name), remedy=remedy)
