"""Change batches into segments: one file per table and schema version, written by another thread, sealed at a journal
commit.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replicator.model.change import Operation
from replicator.model.identifiers import TableId
from replicator.model.schema import COMMIT_TS, OPERATION, SEQUENCE
from replicator.staging.naming import folder_name
from replicator.staging.segment_file import SegmentFile, make_durable
from replicator.staging.storage import Storage
from replicator.staging.work_thread import WorkThread
from replicator.state.journal import Segment, SegmentKind

SPILL_BYTES = 32 * 1024 * 1024  # of all segments under way, before the largest is handed to the thread
GROUP_BYTES = 16 * 1024 * 1024  # of one segment: a row group
QUEUE_BYTES = 32 * 1024 * 1024  # with the thread
ABANDON_SECONDS = 3.0


@dataclass
class _Open:
    """A segment under way: batches in memory, figures of all, and the file, which is the thread's."""

    table: TableId
    version: int
    kind: SegmentKind
    file: SegmentFile
    batches: list[pa.RecordBatch] = field(default_factory=list)
    buffered: int = 0
    rows: int = 0
    first: int = -1
    last: int = -1
    operations: dict[str, int] = field(default_factory=dict)
    replaced: int = 0
    first_commit: datetime | None = None
    last_commit: datetime | None = None


class Sealed:
    """What lies between two calls of `seal`, on its way to the disk."""

    def __init__(self, writer: SegmentWriter, segments: list[Segment], files: list[SegmentFile]) -> None:
        """`segments` without their sizes; `files` of these, and of the chunks that were handed out before."""
        self._writer, self._segments, self._files = writer, segments, files
        self._durable = threading.Event()
        if not files:
            self._durable.set()

    def durable(self, seconds: float) -> bool:
        """Are all files durable?  Waits for so long at most.  Raises what the thread failed with."""
        if not self._durable.is_set():
            self._writer.wait(self._durable, seconds)
        return self._durable.is_set()

    def hand_out(self) -> list[Segment]:
        """Of durable files.  From here on they are the caller's: `abandon` leaves them alone."""
        self._writer.release(self._files)
        return [self.sized(segment) for segment in self._segments]

    def sized(self, segment: Segment) -> Segment:
        """One of these, or a chunk's; as it is where its file was there before (a bare one)."""
        return replace(
            segment, size=next((file.size for file in self._files if file.path == segment.path), segment.size)
        )

    def make_durable(self, storage: Storage) -> None:
        """The thread's."""
        make_durable(storage, self._files)
        self._durable.set()


class SegmentWriter:
    """Collects changes until `seal`; memory is bounded regardless of the transaction's size (invariant 9).

    Used by one thread; a second one encodes and writes.  `add` waits for the disk.  An error of the second thread is
    raised by the next call.  Files that were never sealed, or whose segments never reach the journal, are garbage.
    """

    def __init__(self, storage: Storage, prefix: str, waiting: Callable[[], None] = lambda: None) -> None:
        """`prefix` is the replicator's folder below the staging location.

        `waiting` is called again and again while a call waits for the disk; what it raises ends the call.
        """
        self._storage = storage
        self._prefix = prefix
        self._open: dict[TableId, _Open] = {}
        self._cut: list[Segment] = []
        self._closed: list[SegmentFile] = []  # since the last seal
        self._ours: set[SegmentFile] = set()
        self._thread = WorkThread("segments", QUEUE_BYTES, waiting)
        self.rows = 0
        self.bytes = 0

    def add(
        self,
        table: TableId,
        version: int,
        batch: pa.RecordBatch,
        kind: SegmentKind = SegmentKind.LOG,
        *,
        key: Collection[str] = (),
        replaced: int = 0,
    ) -> None:
        """`batch` has the change schema, with this `key`, and final sequence numbers; `replaced` of its values became
        null.
        """
        if batch.num_rows == 0:
            return
        current = self._open.get(table)
        if current is None or (current.version, current.kind) != (version, kind):
            self.cut(table)
            current = self._open[table] = self._begin(table, version, kind, batch, key)
        _note(current, batch)
        size = batch.nbytes
        current.replaced += replaced
        current.batches.append(batch)
        current.buffered += size
        self.rows += batch.num_rows
        self.bytes += size
        del batch
        if current.buffered >= GROUP_BYTES:
            self._write(current)
        while sum(part.buffered for part in self._open.values()) > SPILL_BYTES:
            self._write(max(self._open.values(), key=lambda part: part.buffered))

    def cut(self, table: TableId) -> None:
        """End the table's segment here: what follows it (a DDL, a chunk) must not lie within its sequence numbers."""
        if (part := self._open.get(table)) is not None:
            self._cut.append(self._close(part))

    def take_chunk(self, table: TableId) -> Segment | None:
        """End the table's chunk segment and return it, without its size; None where no row was added.

        It is durable when the next `Sealed` is, which knows its size.
        """
        part = self._open.get(table)
        if part is None or part.kind is not SegmentKind.CHUNK:
            return None
        return self._close(part)

    def seal(self) -> Sealed:
        """End all segments; the writer is empty afterwards."""
        for table in list(self._open):
            self.cut(table)
        sealed = Sealed(self, self._cut, self._closed)
        if self._closed:
            self._thread.put(partial(sealed.make_durable, self._storage))
        self._cut, self._closed = [], []
        self.rows = self.bytes = 0
        return sealed

    def check(self) -> None:
        """Raises what the thread failed with."""
        self._thread.check()

    def wait(self, event: threading.Event, seconds: float) -> None:
        """For something that the thread is to set; raises what it failed with."""
        self._thread.wait(event, seconds)

    def release(self, files: Collection[SegmentFile]) -> None:
        """Hand the files over: `abandon` no longer deletes them."""
        self._ours -= set(files)

    def abandon(self) -> None:
        """Delete everything that was not handed out, and end the writer.

        Raises nothing: what cannot be deleted is garbage.

        Waits at most 3 s for a stalled disk; the thread then finishes in the background.
        """
        files, self._ours = sorted(self._ours, key=lambda file: file.path), set()
        self._open.clear()
        self._thread.end(partial(_abandon, files), ABANDON_SECONDS)

    def _begin(
        self, table: TableId, version: int, kind: SegmentKind, batch: pa.RecordBatch, key: Collection[str]
    ) -> _Open:
        first = pc.min(batch.column(SEQUENCE)).as_py()
        # The random part keeps a stale owner's file apart from ours: files are immutable.
        name = f"{first:016d}-{kind}-{uuid.uuid4().hex[:12]}.parquet"
        file = SegmentFile(self._storage, f"{self._prefix}/{folder_name(table)}/{name}", batch.schema, key)
        self._ours.add(file)
        return _Open(table, version, kind, file)

    def _write(self, part: _Open) -> None:
        batches, size = part.batches, part.buffered
        part.batches, part.buffered = [], 0
        self._thread.put(partial(part.file.write, batches), size)

    def _close(self, part: _Open) -> Segment:
        if part.batches:
            self._write(part)
        self._thread.put(part.file.close)
        del self._open[part.table]
        self._closed.append(part.file)
        count = part.operations.get
        return Segment(
            table=part.table,
            kind=part.kind,
            schema_version=part.version,
            first_sequence=part.first,
            last_sequence=part.last,
            path=part.file.path,
            rows=part.rows,
            size=0,
            inserts=count(Operation.INSERT, 0),
            updates=count(Operation.UPDATE, 0),
            deletes=count(Operation.DELETE, 0),
            reads=count(Operation.READ, 0),
            replaced=part.replaced,
            first_commit_ts=part.first_commit,
            last_commit_ts=part.last_commit,
        )


def _abandon(files: list[SegmentFile]) -> None:
    for file in files:
        file.abandon()


def _note(part: _Open, batch: pa.RecordBatch) -> None:
    """Keep the figures that the journal wants of a segment."""
    span = pc.min_max(batch.column(SEQUENCE)).as_py()
    part.first = span["min"] if part.first < 0 else min(part.first, span["min"])
    part.last = max(part.last, span["max"])
    part.rows += batch.num_rows
    for entry in pc.value_counts(batch.column(OPERATION)).to_pylist():
        part.operations[entry["values"]] = part.operations.get(entry["values"], 0) + entry["counts"]
    times: Mapping[str, Any] = pc.min_max(batch.column(COMMIT_TS)).as_py()
    if times["min"] is not None:
        part.first_commit = min(part.first_commit or times["min"], times["min"])
        part.last_commit = max(part.last_commit or times["max"], times["max"])
