"""Snapshots alone, over a real source: `python -m benchmarks.snapshot_process`, see `log_reading.LogReader`.

What it runs is the product's `run_snapshot`: planning, marks, the source's readers, Parquet files on a local disk with
their fsync; and, where it is asked to follow the log, `run_capture` beside it (in a thread, as in `manage.py run`),
which closes the chunks' windows.  What it leaves out is the journal's Postgres: here it is in memory.

Orders (JSON): `kind`, `config`, `table` [database, name], `offset` (of the source; null: nothing follows the log),
`parallel` readers, `staging` (a folder).  Without an offset the table is one chunk. It says how many rows are durable,
or, where the log is followed, are in the sequence.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.logs.capture_process import REPLICATOR, MemoryJournal, Stderr
from replicator.engine.capture.capture import CaptureOptions, run_capture
from replicator.engine.snapshot import SnapshotOptions, run_snapshot
from replicator.errors import TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.snapshot.sizing import START_ROWS, next_chunk_rows
from replicator.sources.base import KeyRange
from replicator.sources.registry import SourceKind, source_kind
from replicator.staging.storage import Storage
from replicator.state.chunks import ChunkToRead, PlannedChunk, RawChunk, RunToPlan
from replicator.state.journal import JournalEntry
from replicator.state.lease import Lease

RUN = 1
READ_AHEAD = 16  # as in webapp.worker.store.chunk_store


class MemoryChunks:
    """A ChunkStore and a RawChunkStore (replicator.state.chunks) of one table's run.  Thread-safe."""

    def __init__(self, table: TableId, *, follows: bool) -> None:
        """Where nothing follows the log, the one chunk is there already."""
        self._table, self._follows = table, follows
        self._lock = threading.Lock()
        self._todo: list[ChunkToRead] = []
        self._raw: dict[int, RawChunk] = {}
        self._end: tuple[str, ...] | None = None
        self._position: tuple[str, ...] | None = None
        self._chunk_rows, self._made, self._over, self._all = START_ROWS, 0, 0, False
        if not follows:
            self.planned([PlannedChunk(RUN, None, KeyRange(), done=True)])

    def to_plan(self, ahead: int = sys.maxsize, limit: int | None = None) -> list[RunToPlan]:
        with self._lock:
            waiting, begun = len(self._todo), self._made > 0
            run = RunToPlan(RUN, self._table, self._end, self._position, begun, self._chunk_rows, waiting)
            return [] if self._all or waiting >= ahead else [run][:limit]

    def begin_plan(self, runs: Sequence[int]) -> str:
        del runs
        return "p1"

    def planned(self, chunks: Sequence[PlannedChunk]) -> None:
        with self._lock:
            for one in chunks:
                self._made += 1
                attempt = f"a{self._made}"
                self._todo.append(ChunkToRead(self._made, one.run, self._table, attempt, one.bounds, one.keyless))
                self._end, self._position, self._all = one.end, one.bounds.upper, one.done

    def claim(self, owner: str, seconds: float = 60.0) -> ChunkToRead | None:
        del owner, seconds
        with self._lock:
            return self._todo.pop(0) if self._todo and len(self._raw) < READ_AHEAD else None

    def wanted(self, chunk: ChunkToRead) -> bool:
        del chunk
        return True

    def read(self, raw: RawChunk) -> bool:
        with self._lock:
            self._raw[raw.chunk.chunk] = raw
            self._chunk_rows = next_chunk_rows(self._chunk_rows, raw.rows, raw.seconds)
            self._over += not self._follows
        return True

    def failed(self, chunk: ChunkToRead, error: TidemarkError) -> None:
        del chunk
        raise error

    def run_failed(self, run: RunToPlan, error: TidemarkError) -> None:
        del run
        raise error

    def raw(self, chunk: int, attempt: str) -> RawChunk | None:
        with self._lock:
            found = self._raw.get(chunk)
            return found if found is not None and found.chunk.attempt == attempt else None

    def table_of(self, chunk: int) -> TableId | None:
        del chunk
        return self._table

    def over(self, entry: JournalEntry) -> int:
        """What an entry says of chunks; the rows of those that it admits, those left out included."""
        rows = 0
        with self._lock:
            for closed in entry.closed:
                rows += self._raw.pop(closed.chunk).rows
                self._over += 1
            for chunk, attempt in entry.reopened:
                if (raw := self._raw.get(chunk)) is not None and raw.chunk.attempt == attempt:
                    del self._raw[chunk]
                    self._todo.append(raw.chunk)
        return rows

    @property
    def staged(self) -> int:
        """Rows of chunks that are staged and not admitted."""
        return sum(raw.rows for raw in self._raw.values())

    @property
    def done(self) -> bool:
        """Each chunk is admitted, or staged where nothing follows the log."""
        with self._lock:
            return self._all and self._over == self._made


class SnapshotJournal(MemoryJournal):
    """The journal of a table whose chunks are in memory; it says how many of their rows were admitted."""

    def __init__(self, tables: TableSet, offset: Mapping[str, Any], chunks: MemoryChunks) -> None:
        super().__init__(tables, offset, lambda _: None)
        self._chunks, self.read = chunks, 0

    def commit(self, lease: Lease, entry: JournalEntry) -> None:
        super().commit(lease, entry)
        if rows := self._chunks.over(entry):
            self.read += rows
            print(self.read, flush=True)


def main() -> None:
    """See above."""
    orders = json.loads(sys.stdin.readline())
    kind, table = source_kind(orders["kind"]), TableId(*orders["table"])
    chunks = MemoryChunks(table, follows=orders["offset"] is not None)
    storage = Storage(Path(orders["staging"]).as_uri())
    import_module(f"replicator.sources.{kind.name}.stream.reader")  # a worker has its kernels loaded when it gets work
    print(0, flush=True)
    if orders["offset"] is None:
        read(kind, orders, chunks, storage)
        print(chunks.staged, flush=True)
    else:
        with_log(kind, orders, chunks, storage)
    sys.stdin.read()


def read(kind: SourceKind, orders: Mapping[str, Any], chunks: MemoryChunks, storage: Storage) -> None:
    """All chunks; again where capture says so."""
    source = kind.open(orders["config"])
    try:
        while not chunks.done:
            run_snapshot(
                replicator=REPLICATOR,
                source=source,
                chunks=chunks,
                storage=storage,
                owner=REPLICATOR,
                keep=lambda: True,
                options=SnapshotOptions(parallel=orders["parallel"]),
                report=Stderr(),
            )
    finally:
        source.close()


def with_log(kind: SourceKind, orders: Mapping[str, Any], chunks: MemoryChunks, storage: Storage) -> None:
    """Until capture has admitted the last chunk."""
    tables = TableSet(tables=frozenset({TableId(*orders["table"])}))
    journal = SnapshotJournal(tables, orders["offset"], chunks)
    thread = threading.Thread(target=read, args=(kind, orders, chunks, storage), daemon=True)
    source = kind.open(orders["config"])
    thread.start()
    try:
        run_capture(
            replicator=REPLICATOR,
            source=source,
            parse_offset=kind.parse_offset,
            journal=journal,
            chunks=chunks,
            storage=storage,
            lease=Lease(REPLICATOR, REPLICATOR, 1),
            keep=lambda: not chunks.done,
            options=CaptureOptions(),
            report=Stderr(),
        )
    finally:
        source.close()
    thread.join()


if __name__ == "__main__":
    main()
