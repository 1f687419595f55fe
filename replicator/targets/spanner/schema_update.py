"""Create, evolve, rename and drop tables: marked in the position first, then made step by step (ADR 49, 51).

Spanner renames no column and changes no primary key: the table is copied then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from replicator.model.mode import Mode
from replicator.model.types import DataType
from replicator.targets.base import Rename, TargetTable
from replicator.targets.spanner.dialect import SpannerDialect, of, primary_key
from replicator.targets.spanner.edits import pages
from replicator.targets.spanner.names import column_name
from replicator.targets.spanner.positions import SpannerPositions, changed
from replicator.targets.spanner.rebuild import Rebuild
from replicator.targets.spanner.values import Budget
from replicator.targets.warehouse.dialect import Columns, Session
from replicator.targets.warehouse.position import OpenTable, overtaken
from replicator.targets.warehouse.schema_update import name_not_free
from replicator.targets.warehouse.stepwise import EMPTY, ColumnChange, StepwiseSchemaChanges, mark, to_make


@dataclass(frozen=True)
class SpannerSchemaChanges(StepwiseSchemaChanges):
    """See `StepwiseSchemaChanges`."""

    dialect: SpannerDialect
    positions: SpannerPositions
    budget: Budget = field(default_factory=Budget)

    def _change_columns(self, session: Session, table: OpenTable, change: ColumnChange) -> None:
        columns = [(name, DataType.parse(text)) for name, text in json.loads(str(change.after["columns"])).items()]
        key = primary_key(columns, change.key, one=table.mode is not Mode.HISTORY)
        there = self.dialect.key(session, table.name)
        names = {old: new for old, new in change.plan.renamed if old not in change.gone}
        same = [column_name(name) for name in key] == there
        if same and not names and not {column_name(name) for name in change.gone} & set(there):
            kinds = dict(table.fields)
            if all(
                self.dialect.type_name(kinds[one.name]) == self.dialect.type_name(one.type)
                for one in change.plan.widened
            ):
                super()._change_columns(session, table, change)
                return
        kept = [name for name, _ in table.fields if name not in change.gone]
        read = [name for name, _ in table.fields if name in kept or column_name(name) in there]
        fields = pa.schema([table.arrow.field(name) for name in read])
        with Rebuild.of(session, self.positions, table).filling(columns, key) as beside:
            for page in pages(of(session), table.name, there, fields):
                rows = page.select(kept).rename_columns([names.get(name, name) for name in kept])
                rows = _as(rows, columns)
                for piece in self.budget.pieces(rows):
                    beside.put_newest(piece, key)
            beside.take_its_place(change.after)

    def rename(self, session: Session, name: TargetTable, change: Rename, seen: str | None) -> bool:
        """See `StepwiseSchemaChanges`.  It is done when the position is the new table's.

        No statement moves a table into another schema: it is copied.
        """
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
        leaving = row | EMPTY | {"owner": row["owner"], "pending": mark("from", new)}
        coming = at_new | {one: row[one] for one in EMPTY} | {"pending": to_make(self._moving(session, found, new))}
        positions.commit(session, [changed(name, row, leaving), changed(new, at_new, coming)])
        positions.settle(session, new, coming)
        positions.settle(session, name, leaving)
        return True

    def _moving(self, session: Session, table: OpenTable, new: TargetTable) -> Sequence[Sequence[object]]:
        if new.namespace == table.name.namespace:
            return [["rename_from", table.name.name]]
        fields, key = [(name, str(kind)) for name, kind in table.fields], self.dialect.key_of(session, table)
        place = [table.name.namespace, table.name.name]
        return [["create_copy", fields, key], ["copy_from", *place, fields, key], ["drop_from", *place]]


def _as(rows: pa.Table, columns: Columns) -> pa.Table:
    """With these columns, of wider types some of them; those that are new are null."""
    there = set(rows.column_names)
    return pa.table({
        name: rows.column(name).cast(kind.arrow) if name in there else pa.nulls(rows.num_rows, kind.arrow)
        for name, kind in columns
    })  # fmt: skip
