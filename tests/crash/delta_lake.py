"""Delta tables that have the copies of all histories, and a reader of each version of the witness tables."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from replicator.targets.base import TargetTable
from replicator.targets.delta.destination import delta_store
from replicator.targets.iceberg.destination import NO_LAKE
from replicator.verification import DeltaConfig
from tests.crash.consistency_checker import APPLIED, Looked, Writer
from tests.crash.faults.lake import Lake
from tests.crash.faults.store import S3Store

SAID = "tidemark"  # in commitInfo; docs/adr/0042-delta-lake.md


class DeltaLake(Lake):
    """A folder makes no trouble."""

    kind = "delta"

    def __init__(self, folder: Path, breaking: threading.Lock, store: S3Store | None = None) -> None:
        """See `Lake`; `folder` holds the tables where there is no store."""
        super().__init__(breaking, store)
        self.folder = folder if store is None else store.folder / "delta"
        self.settings = self._settings(troubled=True)

    def reader(self) -> DeltaConfig:
        """See `Lake`."""
        store = delta_store(self._settings(troubled=False), NO_LAKE)
        return DeltaConfig(lambda namespace, name: store.uri(TargetTable(namespace, name)), store.options)

    def _settings(self, *, troubled: bool) -> dict[str, str]:
        if self.store is None:
            return {"store": "file", "location": f"file://{self.folder}"}
        return {"store": "s3", "location": f"{self.store.url}/delta", **self.store.settings(troubled=troubled)}


class DeltaReader(Looked):
    """Looks at every version, in flight and once more at the end."""

    def __init__(self, lake: DeltaLake, namespace: str, writer: Writer) -> None:
        super().__init__(writer)
        self._open, self._folder, self._namespace = lake.reader(), lake.folder, namespace
        self._next = dict.fromkeys(self._seen, 0)
        self._said: dict[str, dict[str, Any]] = {}

    def look(self) -> None:
        """All versions that are new since the last look."""
        try:
            for name in self._seen:
                self._look(name)
        except AssertionError as error:
            self.violations.append(str(error))
        except Exception as error:  # noqa: BLE001 - a file that was just written
            self.trouble = error

    def _look(self, name: str) -> None:
        uri, seen = self._open.uri(self._namespace, name), self._seen[name]
        options = dict(self._open.options)
        try:
            newest = DeltaTable(uri, storage_options=options).version()
        except TableNotFoundError:
            return
        while self._next[name] <= newest:
            table = DeltaTable(uri, version=self._next[name], storage_options=options)
            entry = self._entry(name, self._next[name])
            if SAID in entry:
                self._said[name] = json.loads(entry[SAID])
            said = self._said[name]
            if not said["dropped"]:
                if said["load"] != seen.uuid:  # made, or made again
                    seen.uuid, seen.base = said["load"], None
                rows = pa.RecordBatchReader.from_stream(table.scan()).read_all().to_pylist()
                self._check(seen, rows, {APPLIED: str(said["applied"])})
                self.states += 1
            self._next[name] += 1

    def _entry(self, name: str, version: int) -> dict[str, Any]:
        """What a commit says of itself; `DeltaTable.history` tells of the newest ones, whichever version is open.

        Histories give names of plain characters.
        """
        log = self._folder / self._namespace / name / "_delta_log"
        lines = (log / f"{version:020d}.json").read_text().splitlines()
        return next(action["commitInfo"] for action in map(json.loads, lines) if "commitInfo" in action)
