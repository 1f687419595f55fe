"""A folder of Delta tables, and a reader that is not the target: pyarrow on the files that delta-rs names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from replicator.model.retention import Retention
from replicator.staging.storage import Storage
from replicator.targets.base import TargetTable
from replicator.targets.delta.destination import DeltaStore
from replicator.targets.delta.table import local_path
from replicator.targets.delta.target import DEFAULT_RETENTION, DeltaTarget
from tests.staged_lake import StagedLake


@dataclass
class DeltaLake(StagedLake):
    """A location, a staging folder, and a target over them."""

    store: DeltaStore
    storage: Storage
    target: DeltaTarget = field(init=False)

    def __post_init__(self) -> None:
        self.target = self.another_worker()

    @classmethod
    def at(cls, folder: Path) -> DeltaLake:
        return cls(DeltaStore(f"file://{folder}/delta"), Storage(f"file://{folder}/staging"))

    def another_worker(self, replicator: str = "r1", retention: Retention = DEFAULT_RETENTION) -> DeltaTarget:
        return DeltaTarget(self.store, self.storage, replicator, retention)

    def open(self, table: TargetTable) -> DeltaTable:
        """As another program does."""
        return DeltaTable(self.store.uri(table))

    def arrow(self, table: TargetTable) -> pa.Table:
        return self.open(table).to_pyarrow_table()

    def folder(self, table: TargetTable) -> Path:
        return local_path(self.store.uri(table))

    def data_files(self, table: TargetTable) -> set[str]:
        """All that lie there."""
        return {one.name for one in self.folder(table).glob("*.parquet")}

    def live_files(self, table: TargetTable) -> set[str]:
        return {Path(one).name for one in self.open(table).file_uris()}
