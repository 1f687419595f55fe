"""Change batches into segments: one open file per table and schema version, sealed at a journal commit."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replicator.errors import StagingError
from replicator.faults import reach
from replicator.model.change import Operation
from replicator.model.identifiers import TableId
from replicator.model.schema import COMMIT_TS, OPERATION, SEQUENCE
from replicator.staging.naming import folder_name
from replicator.staging.storage import Storage, translated
from replicator.state.journal import Segment, SegmentKind

SPILL_BYTES = 32 * 1024 * 1024


@dataclass
class _Open:
    """A segment under way: batches in memory, and the file once something was spilled."""

    table: TableId
    version: int
    kind: SegmentKind
    path: str
    schema: pa.Schema
    batches: list[pa.RecordBatch] = field(default_factory=list)
    buffered: int = 0
    rows: int = 0
    first: int = -1
    last: int = -1
    operations: dict[str, int] = field(default_factory=dict)
    zero_dates: int = 0
    first_commit: datetime | None = None
    last_commit: datetime | None = None
    writer: pq.ParquetWriter | None = None
    stack: ExitStack = field(default_factory=ExitStack)


class SegmentWriter:
    """Collects changes until `seal`; memory is bounded by `SPILL_BYTES` whatever the transaction's size (invariant 9).

    Not thread-safe.  Files that were never sealed, or whose segments never reach the journal, are garbage.
    """

    def __init__(self, storage: Storage, prefix: str) -> None:
        """`prefix` is the replicator's folder below the staging location."""
        self._storage = storage
        self._prefix = prefix
        self._open: dict[TableId, _Open] = {}
        self._sealed: list[Segment] = []
        self.rows = 0
        self.bytes = 0

    def add(
        self,
        table: TableId,
        version: int,
        batch: pa.RecordBatch,
        kind: SegmentKind = SegmentKind.LOG,
        *,
        zero_dates: int = 0,
    ) -> None:
        """`batch` has the change schema and final sequence numbers; `zero_dates` of its values became null."""
        if batch.num_rows == 0:
            return
        current = self._open.get(table)
        if current is None or (current.version, current.kind) != (version, kind):
            self.cut(table)
            current = self._open[table] = self._begin(table, version, kind, batch)
        _note(current, batch)
        current.zero_dates += zero_dates
        current.batches.append(batch)
        current.buffered += batch.nbytes
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        while sum(part.buffered for part in self._open.values()) > SPILL_BYTES:
            self._spill(max(self._open.values(), key=lambda part: part.buffered))

    def cut(self, table: TableId) -> None:
        """End the table's segment here: what follows it (a DDL, a chunk) must not lie within its sequence numbers."""
        if (part := self._open.get(table)) is not None:
            self._sealed.append(self._close(part))
            del self._open[table]  # only now: one that cannot be closed is still to be abandoned

    def take_chunk(self, table: TableId) -> Segment | None:
        """Close the table's chunk segment now and hand it out by itself; None where no row was added."""
        part = self._open.get(table)
        if part is None or part.kind is not SegmentKind.CHUNK:
            return None
        segment = self._close(part)
        del self._open[table]
        return segment

    def seal(self) -> list[Segment]:
        """Close all files durably and hand out their segments; the writer is empty afterwards."""
        for table in list(self._open):
            self.cut(table)
        segments, self._sealed = self._sealed, []
        self.rows = self.bytes = 0
        return segments

    def abandon(self) -> None:
        """Throw away everything that was not handed out.  Raises nothing: what cannot be deleted is garbage."""
        for part in self._open.values():
            part.batches.clear()
            with suppress(StagingError, OSError):  # a full disk takes no footer
                part.stack.close()
        paths = [part.path for part in self._open.values()] + [segment.path for segment in self._sealed]
        for path in paths:
            with suppress(StagingError):
                self._storage.delete(path)
        self._open.clear()
        self._sealed.clear()
        self.rows = self.bytes = 0

    def _begin(self, table: TableId, version: int, kind: SegmentKind, batch: pa.RecordBatch) -> _Open:
        first = pc.min(batch.column(SEQUENCE)).as_py()
        # The random part keeps a stale owner's file apart from ours: files are immutable.
        name = f"{first:016d}-{kind}-{uuid.uuid4().hex[:12]}.parquet"
        return _Open(table, version, kind, f"{self._prefix}/{folder_name(table)}/{name}", batch.schema)

    def _spill(self, part: _Open) -> None:
        if part.writer is None:
            part.writer = part.stack.enter_context(self._storage.writer(part.path, part.schema))
        with translated(part.path):
            reach("segment.spill.before")
            part.writer.write_table(pa.Table.from_batches(part.batches, part.schema))
            part.batches, part.buffered = [], 0
            reach("segment.spill.after")

    def _close(self, part: _Open) -> Segment:
        if part.batches:
            self._spill(part)
        with translated(part.path):
            reach("segment.close.before")
            part.stack.close()
            reach("segment.close.after")
        count = part.operations.get
        return Segment(
            table=part.table,
            kind=part.kind,
            schema_version=part.version,
            first_sequence=part.first,
            last_sequence=part.last,
            path=part.path,
            rows=part.rows,
            size=self._storage.size(part.path),
            inserts=count(Operation.INSERT, 0),
            updates=count(Operation.UPDATE, 0),
            deletes=count(Operation.DELETE, 0),
            reads=count(Operation.READ, 0),
            zero_dates=part.zero_dates,
            first_commit_ts=part.first_commit,
            last_commit_ts=part.last_commit,
        )


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
