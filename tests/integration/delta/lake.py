"""A folder of Delta tables, and a reader that is not the target: pyarrow on the files that delta-rs names."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from replicator.model.mode import Mode
from replicator.model.retention import Retention
from replicator.model.schema import TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import Create, Merge, TargetTable
from replicator.targets.delta.destination import DeltaStore
from replicator.targets.delta.table import local_path
from replicator.targets.delta.target import DEFAULT_RETENTION, DeltaTarget
from tests.staged import Change, Row, segment, stage

NAMES = itertools.count(1)


@dataclass
class DeltaLake:
    """A location, a staging folder, and a target over them."""

    store: DeltaStore
    storage: Storage

    @classmethod
    def at(cls, folder: Path) -> DeltaLake:
        return cls(DeltaStore(f"file://{folder}/delta"), Storage(f"file://{folder}/staging"))

    @property
    def target(self) -> DeltaTarget:
        return self.another_worker()

    def another_worker(self, replicator: str = "r1", retention: Retention = DEFAULT_RETENTION) -> DeltaTarget:
        return DeltaTarget(self.store, self.storage, replicator, retention)

    def table(
        self, schema: TableSchema, name: str = "", *, applied: int = -1, load: str = "L1", mode: Mode = Mode.MIRROR
    ) -> TargetTable:
        """A new empty target table."""
        table = TargetTable("shop", name or f"t{next(NAMES)}")
        self.target.apply(table, Create(schema, 1, applied, load, mode))
        return table

    def segment(self, schema: TableSchema, changes: Iterable[Change], version: int = 1) -> Segment:
        return segment(self.storage, schema, changes, version)

    def stage(self, schema: TableSchema, data: pa.Table, version: int = 1) -> Segment:
        return stage(self.storage, schema, data, version)

    def merge(self, table: TargetTable, schema: TableSchema, *changes: Change) -> str:
        staged = self.segment(schema, changes)
        return self.target.apply(table, Merge([staged], schema, staged.last_sequence)).how

    def open(self, table: TargetTable) -> DeltaTable:
        """As another program does."""
        return DeltaTable(self.store.uri(table))

    def arrow(self, table: TargetTable) -> pa.Table:
        return self.open(table).to_pyarrow_table()

    def rows(self, table: TargetTable, *, sequence: bool = False) -> list[Row]:
        """In no order; `_sequence_num` where the table has it, if asked for."""
        data = self.arrow(table)
        names = [name for name in data.column_names if sequence or name != "_sequence_num"]
        return [tuple(row) for row in zip(*(data.column(name).to_pylist() for name in names), strict=True)]

    def folder(self, table: TargetTable) -> Path:
        return local_path(self.store.uri(table))

    def data_files(self, table: TargetTable) -> set[str]:
        """All that lie there."""
        return {one.name for one in self.folder(table).glob("*.parquet")}

    def live_files(self, table: TargetTable) -> set[str]:
        return {Path(one).name for one in self.open(table).file_uris()}
