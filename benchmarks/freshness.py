"""When rows become queryable, as a reader sees it who knows nothing of the product but its Iceberg tables.

It asks the catalog's database for the tables' metadata files, several times a second. What a new snapshot added is
read at once from its data files: a row is queryable from the moment at which the reader first met the metadata with it.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus, read_manifest_list

EVERY = 0.05
STAMP = "written"
KEY = "id"
TABLES = "SELECT table_name, metadata_location FROM iceberg_tables WHERE table_namespace = {}"
COMPACTION = "replace"


Look = Callable[[], list[tuple[str, str]]]  # names and metadata files


def in_postgres(url: str, namespace: str) -> Look:
    """A JDBC catalog."""
    connection = psycopg2.connect(url)
    connection.autocommit = True

    def look() -> list[tuple[str, str]]:
        with connection.cursor() as cursor:
            cursor.execute(TABLES.format("%s"), (namespace,))
            return [(str(name), str(location)) for name, location in cursor.fetchall()]

    return look


def in_sqlite(file: Path, namespace: str) -> Look:
    """Look into the database of `testing.servers.iceberg_rest`: twenty requests a second for each table would be a load
    themselves.
    """

    def look() -> list[tuple[str, str]]:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            return [(str(name), str(at)) for name, at in connection.execute(TABLES.format("?"), (namespace,))]

    return look


class Reader:
    """`with Reader(look) as reader:` watches until the block ends."""

    def __init__(self, look: Look, store: Mapping[str, str] = MappingProxyType({})) -> None:
        """`store`: pyiceberg's properties of the files' store."""
        self._look = look
        self._known: dict[str, str] = {}
        self._snapshots: dict[str, set[int]] = {}
        self._seen: list[pa.Table] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._failed: Exception | None = None
        self._io = load_file_io(dict(store))
        self.commits = 0

    def __enter__(self) -> Self:
        """What the tables hold now is left out."""
        for name, location in self._look():
            self._known[name] = location
            self._snapshots[name] = {one["snapshot-id"] for one in self._metadata(location).get("snapshots", [])}
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def lags(self, since: float, until: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Seconds from stamp to sight, of rows stamped between the two (seconds of the wall clock), each counted
        once.
        """
        if not self._seen:
            return np.empty(0)
        rows = pa.concat_tables(self._seen)
        wanted = (pc.field(STAMP) >= int(since * 1e6)) & (pc.field(STAMP) < int(until * 1e6))
        first = rows.filter(wanted).group_by(["table", KEY, STAMP]).aggregate([("seen", "min")])
        stamps, seen = first.column(STAMP).to_numpy() / 1e6, first.column("seen_min").to_numpy()
        return np.asarray(seen - stamps)

    def _run(self) -> None:
        try:
            while not self._stop.wait(EVERY):
                found = self._look()
                now = time.time()
                for name, location in found:
                    if self._known.get(name) != location:
                        self._known[name] = location
                        self._read(name, location, now)
        except Exception as error:  # noqa: BLE001 - the end of the block raises any error
            self._failed = error

    def _read(self, name: str, location: str, now: float) -> None:
        known = self._snapshots.setdefault(name, set())
        for snapshot in _line(self._metadata(location)):
            if snapshot["snapshot-id"] in known:
                break
            known.add(snapshot["snapshot-id"])
            if snapshot["summary"]["operation"] == COMPACTION:
                continue
            self.commits += 1
            for file in self._added(snapshot):
                self._note(name, file, now)

    def _added(self, snapshot: dict[str, Any]) -> Iterator[DataFile]:
        for manifest in read_manifest_list(self._io.new_input(snapshot["manifest-list"])):
            if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id == snapshot["snapshot-id"]:
                for entry in manifest.fetch_manifest_entry(self._io):
                    if entry.status is ManifestEntryStatus.ADDED:
                        yield entry.data_file

    def _note(self, name: str, file: DataFile, now: float) -> None:
        with self._io.new_input(file.file_path).open() as data:
            rows = pq.ParquetFile(data).read(columns=[KEY, STAMP])
        rows = rows.append_column("seen", pa.array(np.full(rows.num_rows, now)))
        self._seen.append(rows.append_column("table", pa.array([name] * rows.num_rows)))

    def _metadata(self, location: str) -> dict[str, Any]:
        with self._io.new_input(location).open() as file:
            data = file.read()
        found: dict[str, Any] = json.loads(gzip.decompress(data) if location.endswith(".gz.metadata.json") else data)
        return found


def _line(metadata: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Snapshots from the present one back."""
    snapshots = {one["snapshot-id"]: one for one in metadata.get("snapshots", [])}
    at = metadata.get("current-snapshot-id")
    while at in snapshots:
        yield snapshots[at]
        at = snapshots[at].get("parent-snapshot-id")
