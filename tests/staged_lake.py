"""Target tables that are made and changed by hand, whichever kind of lake they are in."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable

import pyarrow as pa

from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import Create, Merge, Target, TargetTable
from tests.staged import Change, Row, segment, stage

NAMES = itertools.count(1)


class StagedLake(ABC):
    """A target, a staging folder, and a reader that is another program."""

    storage: Storage
    target: Target

    @abstractmethod
    def arrow(self, table: TargetTable) -> pa.Table:
        """All rows, read by another program."""

    def table(
        self, schema: TableSchema, name: str = "", *, applied: int = -1, load: str = "L1", mode: Mode = Mode.MIRROR
    ) -> TargetTable:
        """A new empty target table."""
        table = TargetTable("shop", name or f"t{next(NAMES)}")
        self.target.apply(table, Create(schema, 1, applied, load, mode))
        return table

    def segment(self, schema: TableSchema, changes: Iterable[Change], version: int = 1) -> Segment:
        """A staged file."""
        return segment(self.storage, schema, changes, version)

    def stage(self, schema: TableSchema, data: pa.Table, version: int = 1) -> Segment:
        """As capture's writer writes it."""
        return stage(self.storage, schema, data, version)

    def merge(self, table: TargetTable, schema: TableSchema, *changes: Change) -> str:
        """Stage and merge these changes; how it was done, whichever way."""
        staged = self.segment(schema, changes)
        return self.target.apply(table, Merge([staged], schema, staged.last_sequence)).how.split(" (")[0]

    def rows(self, table: TargetTable, *, sequence: bool = False) -> list[Row]:
        """In no order; `_sequence_num` last where the table has it, if asked for."""
        data = self.arrow(table)
        names = [name for name in data.column_names if sequence or name != SEQUENCE]
        return [tuple(row) for row in zip(*(data.column(name).to_pylist() for name in names), strict=True)]
