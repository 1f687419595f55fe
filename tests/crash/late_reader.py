"""A slow reader: it plans a scan, and reads the planned files much later, regardless of changes to the table."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import DataScan, FileScanTask, Table

GRACE_SECONDS = 18.0  # files that no snapshot needs stay for so long in a history
LATEST_SECONDS = 12.0  # so late is a reader at most, the time it takes to read included
EVERY_SECONDS = 1.0


@dataclass(frozen=True)
class _Planned:
    table: str
    scan: DataScan
    tasks: list[FileScanTask]
    rows: Counter[str]  # as they were read at once
    at: float
    due: float


class LateReader:
    """Beside a history: of any of its tables, any snapshot that is there."""

    def __init__(self, catalog: Callable[[], Catalog], namespace: str, seed: str) -> None:
        """`catalog` opens one; `namespace` is where the replicator's tables lie."""
        self._open, self._namespace, self._random = catalog, namespace, random.Random(seed)
        self._planned: list[_Planned] = []
        self.read = 0
        self.violations: list[str] = []

    def watch(self, stopped: Callable[[], bool]) -> None:
        """Until stopped; then what is planned is read."""
        while not stopped():
            with suppress(Exception):  # the metadata database is down; a table is made or dropped just now
                self._plan()
            self._read_what_is_due(time.monotonic())
            time.sleep(EVERY_SECONDS)
        while self._planned:
            time.sleep(EVERY_SECONDS / 10)
            self._read_what_is_due(time.monotonic())

    def _plan(self) -> None:
        catalog = self._open()
        try:
            names = catalog.list_tables(self._namespace)
            table = catalog.load_table(self._random.choice(sorted(names)))
        finally:
            catalog.close()
        self._remember(table)

    def _remember(self, table: Table) -> None:
        """A snapshot of the past is readable for as long as the catalog says that it is there: half of the scans are of
        one.
        """
        began = time.monotonic()
        past = [entry.snapshot_id for entry in table.history() if table.snapshot_by_id(entry.snapshot_id)]
        snapshot = self._random.choice(past) if past and self._random.random() < 0.5 else None
        scan = table.scan(snapshot_id=snapshot)
        tasks = list(scan.plan_files())
        rows = _rows(scan, tasks)
        due = began + self._random.uniform(0.0, LATEST_SECONDS - 4.0)
        self._planned.append(_Planned(".".join(table.name()), scan, tasks, rows, began, due))

    def _read_what_is_due(self, now: float) -> None:
        due = [one for one in self._planned if one.due <= now]
        self._planned = [one for one in self._planned if one.due > now]
        for one in due:
            if time.monotonic() - one.at > LATEST_SECONDS:  # this process was held up: longer than is guaranteed
                continue
            late = time.monotonic() - one.at
            try:
                rows = _rows(one.scan, one.tasks)
            except Exception as error:  # noqa: BLE001 - any error of a reader is a finding
                if time.monotonic() - one.at <= LATEST_SECONDS:
                    self.violations.append(f"{one.table}: a scan planned {late:.1f} s before failed: {error}")
                continue
            if rows != one.rows:
                self.violations.append(f"{one.table}: a scan planned {late:.1f} s before reads other rows")
            self.read += 1


def _rows(scan: DataScan, tasks: list[FileScanTask]) -> Counter[str]:
    reader = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter, scan.case_sensitive)
    found: pa.Table = reader.to_table(tasks)
    return Counter(map(repr, found.to_pylist()))
