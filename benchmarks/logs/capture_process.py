"""Capture alone, over a real source: `python -m benchmarks.logs.capture_process`, see `log_reading.LogReader`.

It runs the product's `run_capture`: the source's log reader, numbering, windows (none is open), the segment writer on a
local disk with its fsync of file and folder, and the confirmation to the source.  It replaces the journal's Postgres by
`MemoryJournal`, which keeps commits in memory.  There is no snapshot, no merge, no lease to renew.

Orders (JSON): `kind`, `config`, `tables` [[database, name]…], `offset` (of the source), `rows`, `staging` (a folder).
It prints the number of durable rows after each commit, and stops at `rows`.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from replicator.engine.capture.capture import CaptureOptions, run_capture
from replicator.engine.reporting import Level
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.registry import source_kind
from replicator.staging.storage import Storage
from replicator.state.chunks import RawChunk
from replicator.state.journal import CapturePlan, Checkpoint, JournalEntry, SchemaVersion, TrackedTable
from replicator.state.lease import Lease
from replicator.state.tables import TableState

REPLICATOR = "bench"


class MemoryJournal:
    """A Journal (replicator.state.journal) of streaming tables; `committed` gets the number of rows after each
    commit.
    """

    def __init__(self, tables: TableSet, offset: Mapping[str, Any], committed: Callable[[int], None]) -> None:
        self._tables, self._committed = tables, committed
        self._checkpoint = Checkpoint(offset, 0)
        self._schemas: dict[TableId, SchemaVersion] = {}
        self.rows = 0

    def plan(self) -> CapturePlan:
        """Always the same one."""
        tracked = (
            TrackedTable(table, TableState.STREAMING, self._schemas.get(table), None)
            for table in sorted(self._tables.tables)
        )
        return CapturePlan(1, wanted=True, tables=self._tables, tracked=tuple(tracked), checkpoint=self._checkpoint)

    def plan_version(self) -> int:
        return 1

    def commit(self, lease: Lease, entry: JournalEntry) -> None:
        """Raises the first failure: a table that stops makes every figure wrong."""
        del lease
        for _, error in entry.failures:
            raise error
        self._checkpoint = entry.checkpoint
        self._schemas |= {version.schema.table: version for version in entry.schemas}
        if entry.segments:
            self.rows += sum(segment.rows for segment in entry.segments)
            self._committed(self.rows)

    def state(self, table: TableId) -> TableState | None:
        del table
        return TableState.STREAMING

    def remaining_chunks(self, run: int) -> int | None:
        del run
        return None


class NoChunks:
    """A RawChunkStore (replicator.state.chunks) without any."""

    def raw(self, chunk: int, attempt: str) -> RawChunk | None:
        del chunk, attempt
        return None

    def table_of(self, chunk: int) -> TableId | None:
        del chunk
        return None


class Stderr:
    """A Reporter (replicator.engine.reporting)."""

    def log(self, level: Level, message: str, *, table: TableId | None = None, **detail: Any) -> None:
        print(level, table or "", message, detail or "", file=sys.stderr)


def main() -> None:
    """See above."""
    orders = json.loads(sys.stdin.readline())
    kind = source_kind(orders["kind"])
    tables = TableSet(tables=frozenset(TableId(*table) for table in orders["tables"]))
    journal = MemoryJournal(tables, orders["offset"], lambda rows: print(rows, flush=True))
    source = kind.open(orders["config"])
    gc.freeze()  # as a worker does (`webapp.worker.tasks`)
    print(0, flush=True)
    try:
        run_capture(
            replicator=REPLICATOR,
            source=source,
            parse_offset=kind.parse_offset,
            journal=journal,
            chunks=NoChunks(),
            storage=Storage(Path(orders["staging"]).as_uri()),
            lease=Lease(REPLICATOR, REPLICATOR, 1),
            keep=lambda: journal.rows < orders["rows"],
            options=CaptureOptions(read=ReadOptions()),
            report=Stderr(),
        )
    finally:
        source.close()
    sys.stdin.read()


if __name__ == "__main__":
    main()
