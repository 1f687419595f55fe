"""A table made anew beside the one that is there, which it replaces in one step when it is complete.

While it is filled, the position's mark says that it is to be discarded: whoever looks at the table meanwhile does so,
and whoever fills it is refused from then on.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from replicator.folding.keyless import numbered_rows
from replicator.model.mode import DELETED
from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable
from replicator.targets.spanner.connection import key_set
from replicator.targets.spanner.dialect import SpannerDialect, of
from replicator.targets.spanner.edits import stored
from replicator.targets.spanner.names import OWN, api_name, column_name
from replicator.targets.spanner.positions import SpannerPositions, guard
from replicator.targets.spanner.values import encoded
from replicator.targets.warehouse.dialect import Columns, Session
from replicator.targets.warehouse.position import OpenTable, overtaken
from replicator.targets.warehouse.stepwise import Row, to_make


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
