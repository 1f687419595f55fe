"""A folder of Delta tables that has the copies of all histories, and a reader of each version of the witness tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from replicator.verification import DeltaConfig
from tests.crash.consistency_checker import APPLIED, Looked, Writer

SAID = "tidemark"  # in commitInfo; docs/adr/0042-delta-lake.md


class DeltaLake:
    """Workers and readers share the folder."""

    kind = "delta"

    def __init__(self, folder: Path) -> None:
        self.made = Counter[str]()  # a folder makes no trouble
        self.warehouse = f"file://{folder}"
        self.settings = {"store": "file", "location": self.warehouse}

    def start(self) -> None:
        """There is nothing to start."""

    def trouble(self) -> None:
        """A folder makes none."""

    @contextmanager
    def quiet(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        """There is nothing to stop."""

    def uri(self, namespace: str, name: str) -> str:
        """Of a table; histories give names of plain characters."""
        return f"{self.warehouse}/{namespace}/{name}"

    def reader(self) -> DeltaConfig:
        """As verification opens it."""
        from replicator.targets.base import TargetTable
        from replicator.targets.delta.destination import DeltaStore

        store = DeltaStore(self.warehouse)
        return DeltaConfig(lambda namespace, name: store.uri(TargetTable(namespace, name)))


class DeltaReader(Looked):
    """Looks at every version, in flight and once more at the end."""

    def __init__(self, lake: DeltaLake, namespace: str, writer: Writer) -> None:
        super().__init__(writer)
        self._lake, self._namespace = lake, namespace
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
        uri, seen = self._lake.uri(self._namespace, name), self._seen[name]
        try:
            newest = DeltaTable(uri).version()
        except TableNotFoundError:
            return
        while self._next[name] <= newest:
            table = DeltaTable(uri, version=self._next[name])
            entry = _entry(uri, self._next[name])
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


def _entry(uri: str, version: int) -> dict[str, Any]:
    """What a commit says of itself; `DeltaTable.history` tells of the newest ones, whichever version is open."""
    lines = Path(uri.removeprefix("file://"), "_delta_log", f"{version:020d}.json").read_text().splitlines()
    return next(action["commitInfo"] for action in map(json.loads, lines) if "commitInfo" in action)
