"""Create, evolve, rename and drop tables: marked in the position first, then made step by step (ADR 49, 51).

Spanner renames no column and changes no primary key: the table is recreated beside the present one, which it replaces
when it is complete.  While it is filled, the position's mark says that it is to be discarded.  A worker that looks at
the table meanwhile discards it, and the worker that fills it is refused from then on.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from replicator.folding.keyless import numbered_rows
from replicator.model.mode import DELETED, Mode
from replicator.model.schema import SEQUENCE
from replicator.model.types import DataType
from replicator.targets.base import Rename, TargetTable
from replicator.targets.spanner.connection import key_set
from replicator.targets.spanner.dialect import SpannerDialect, of, primary_key
from replicator.targets.spanner.edits import pages, stored
from replicator.targets.spanner.names import OWN, api_name, column_name
from replicator.targets.spanner.positions import SpannerPositions, changed, guard
from replicator.targets.spanner.values import Budget, encoded
from replicator.targets.warehouse.dialect import Columns, Session
from replicator.targets.warehouse.position import OpenTable, overtaken
from replicator.targets.warehouse.schema_update import name_not_free
from replicator.targets.warehouse.stepwise import EMPTY, Row, StepwiseChange, StepwiseSchemaChanges, mark, to_make


@dataclass(frozen=True)
class SpannerSchemaChanges(StepwiseSchemaChanges):
    """See `StepwiseSchemaChanges`."""

    dialect: SpannerDialect
    positions: SpannerPositions
    budget: Budget = field(default_factory=Budget)

    def _change_columns(self, session: Session, table: OpenTable, change: StepwiseChange) -> None:
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


@dataclass(frozen=True)
class Rebuild:
    """row: the position's, with the mark; new: the table beside."""

    session: Session
    positions: SpannerPositions
    table: OpenTable
    row: Row
    new: TargetTable

    @classmethod
    def of(cls, session: Session, positions: SpannerPositions, table: OpenTable) -> Rebuild:
        """Raises TargetConflict where the position is another one than was seen."""
        row = positions.read(session, table.name)
        seen = positions.move_to(table, table.position).before
        if row is None or any(row[name] != value for name, value in seen.items()):
            raise overtaken(table.name)
        new = TargetTable(table.name.namespace, f"{OWN}_new_{uuid.uuid4().hex}")
        return cls(session, positions, table, row, new)

    @contextmanager
    def filling(self, columns: Columns, key: Sequence[str]) -> Iterator[Rebuild]:
        """The new table is there, to be discarded unless the block ends with `take_its_place`."""
        statement = self.dialect.created(self.new, columns, key)
        marked = self.row | {"pending": to_make([["discard", self.new.name]])}
        self.positions.swap(self.session, self.table.name, self.row, marked)
        self.dialect.define(self.session, statement)
        yield replace(self, row=marked)

    @property
    def dialect(self) -> SpannerDialect:
        return self.positions.dialect

    def put(self, rows: pa.Table) -> None:
        """Within one commit.  Raises TargetConflict where the table has been discarded."""
        self.positions.commit(self.session, [guard(self.table.name, self.row)], stored(self.new, rows))

    def take_its_place(self, becomes: Row) -> None:
        """becomes: the position's row; its mark is set here."""
        old = f"{OWN}_old_{uuid.uuid4().hex}"
        final = becomes | {"pending": to_make([["switch", self.new.name, old], ["discard", old]])}
        self.positions.swap(self.session, self.table.name, self.row, final)
        self.positions.settle(self.session, self.table.name, final)

    def put_newest(self, rows: pa.Table, key: Sequence[str]) -> None:
        """Of several rows under one key, which is another than before, one that is not deleted stays, or the newest."""
        told = [*key, *[name for name in (SEQUENCE, DELETED) if name in rows.column_names and name not in key]]
        fields = pa.schema([rows.schema.field(name) for name in told])
        names = [column_name(name) for name in told]
        there = of(self.session).read(api_name(self.new), names, key_set(encoded(rows.select(list(key)))), fields)
        own, known = numbered_rows([rows.select(list(key)), there.select(list(key))])
        both = pa.concat_tables([rows.select(told), there])
        deleted = both.column(DELETED).fill_null(False).to_numpy(zero_copy_only=False) if DELETED in told else 0  # noqa: FBT003
        keys = np.concatenate([own, known])
        live = np.ones(len(keys), np.bool_) & ~np.asarray(deleted, np.bool_)
        order = np.lexsort((both.column(SEQUENCE).to_numpy(), live, keys))
        last = np.append(keys[order][1:] != keys[order][:-1], True)[: len(order)]
        staying = np.sort(order[last])
        self.put(rows.take(pa.array(staying[staying < rows.num_rows])))
