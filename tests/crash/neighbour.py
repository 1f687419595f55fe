"""Another program that lives in the same lake: it compacts, expires, vacuums, tags and notes, and never asks."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.table import Table

EVERY_SECONDS = (0.5, 3.0)


class Neighbour(ABC):
    """Beside a history: of any of its tables."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self.did: Counter[str] = Counter()

    def live(self, stopped: Callable[[], bool]) -> None:
        """Until stopped.  What does not work is not tried again: others were quicker, or something is down."""
        while not stopped():
            with suppress(Exception):
                self.did[f"neighbour {self._act()}"] += 1
            time.sleep(self._random.uniform(*EVERY_SECONDS))

    @abstractmethod
    def _act(self) -> str:
        """Do one thing; what it was."""

    def missing(self) -> list[str]:
        """What is not as it has left it."""
        return []


class DeltaNeighbour(Neighbour):
    """In a folder of Delta tables; delta-rs neither compacts nor vacuums them on its own."""

    def __init__(self, folder: Path, seed: str) -> None:
        """`folder`: where the replicator's tables lie."""
        super().__init__(seed)
        self._folder = folder

    def _act(self) -> str:
        logs = sorted(self._folder.glob("*/_delta_log"))
        table = DeltaTable(self._random.choice(logs).parent.as_uri())
        what = self._random.choice(("compacts", "sorts", "vacuums", "notes", "checkpoints"))
        match what:
            case "compacts":
                table.optimize.compact()
            case "sorts":
                table.optimize.z_order(["_sequence_num"])
            case "vacuums":
                table.vacuum(dry_run=False, full=self._random.random() < 0.5)
            case "notes":
                table.alter.set_table_properties({"noted": str(time.time_ns())}, raise_if_not_exists=False)
            case _:
                table.create_checkpoint()
                table.cleanup_metadata()
        return what


class CatalogNeighbour(Neighbour):
    """In an Iceberg catalog."""

    def __init__(self, catalog: Callable[[], Catalog], namespace: str, seed: str) -> None:
        """`catalog` opens one; `namespace` is where the replicator's tables lie."""
        super().__init__(seed)
        self._open, self._namespace = catalog, namespace
        self._named: list[tuple[str, str, str, int]] = []  # table, its UUID, tag or branch, snapshot

    def _act(self) -> str:
        ways = {"compacts": self._compact, "expires": self._expire, "tags": self._tag, "notes": self._note}
        name, catalog = self._random.choice(list(ways)), self._open()
        try:
            found = sorted(catalog.list_tables(self._namespace))
            ways[name](catalog.load_table(self._random.choice(found)))
        finally:
            catalog.close()
        return name

    def missing(self) -> list[str]:
        """Tags and branches of tables that are there, and which are gone, or at another snapshot."""
        catalog, lost = self._open(), []
        try:
            for table, uuid, name, snapshot in self._named:
                with suppress(NoSuchTableError, NoSuchNamespaceError):
                    found = catalog.load_table((self._namespace, table))
                    at = found.metadata.refs.get(name)
                    if str(found.metadata.table_uuid) == uuid and (at is None or at.snapshot_id != snapshot):
                        lost.append(f"{table} has lost the name {name} of the snapshot {snapshot}: {at}")
        finally:
            catalog.close()
        return lost

    def _compact(self, table: Table) -> None:
        """Some files become one, without their deleted rows, as other programs do: in one snapshot without a
        position.
        """
        tasks = list(table.scan().plan_files())
        chosen = self._random.sample(tasks, min(len(tasks), self._random.randint(1, 4)))
        if not chosen:
            return
        rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(chosen)
        with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
            for task in chosen:
                update.delete_data_file(task.file)
            for file in _dataframe_to_data_files(table.metadata, rows, table.io):
                update.append_data_file(file)

    def _expire(self, table: Table) -> None:
        """All but what is current or has a name."""
        table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()

    def _tag(self, table: Table) -> None:
        current = table.current_snapshot()
        if current is None:
            return
        name, make = f"mine_{time.time_ns()}", self._random.choice(("create_tag", "create_branch"))
        manage = table.manage_snapshots()
        getattr(manage, make)(current.snapshot_id, name).commit()
        self._named.append((table.name()[-1], str(table.metadata.table_uuid), name, current.snapshot_id))

    def _note(self, table: Table) -> None:
        table.transaction().set_properties({"noted": str(time.time_ns())}).commit_transaction()
