"""Marks met in the log: a chunk's window opens, closes, and its rows take their place in the sequence.

DBLog's order without its pause: capture never stops; a chunk whose window was not seen whole is read again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from replicator.engine.entry import EntryBuilder
from replicator.engine.reporting import Level, Reporter
from replicator.engine.tracking import Tracking
from replicator.faults import reach
from replicator.model.change import Operation, Watermark
from replicator.model.schema import CHANGE_FIELDS, ZERO_DATES, TableSchema
from replicator.snapshot.window import Window, Windows, untouched
from replicator.staging.storage import Storage
from replicator.staging.writer import SegmentWriter
from replicator.state.chunks import Mark, RawChunk, RawChunkStore, parse_mark
from replicator.state.journal import ClosedChunk, EventKind, Journal, SegmentKind, TableEvent


class Admission:
    """Handles the watermarks of one capture."""

    def __init__(
        self,
        journal: Journal,
        chunks: RawChunkStore,
        storage: Storage,
        tracking: Tracking,
        entry: EntryBuilder,
        writer: SegmentWriter,
        windows: Windows,
        report: Reporter,
    ) -> None:
        """All are those of the capture that owns this."""
        self._journal, self._chunks, self._storage, self._tracking = journal, chunks, storage, tracking
        self._entry, self._writer, self._windows, self._report = entry, writer, windows, report

    def handle(self, watermark: Watermark) -> None:
        """A token that is not a chunk's mark is passed over."""
        mark = parse_mark(watermark.token)
        if mark is None:
            return
        if mark.kind == "L":
            self._low(mark)
        elif mark.kind == "O":
            self._opened(mark)
        else:
            self._high(mark)

    def _low(self, mark: Mark) -> None:
        known = self._chunks.table_of(mark.chunk)
        table = None if known is None else self._entry.present(known)
        if table is not None and self._tracking.follows(table):
            self._windows.open(table, mark)

    def _opened(self, mark: Mark) -> None:
        """Keyless table: its rows stand for this very place, if the table was quiet since the low mark (no lock needed)."""
        window = self._windows.peek(mark)
        if window is None or window.spoiled or window.changes:
            self._windows.close(mark)
            self._entry.reopened.append((mark.chunk, mark.attempt))
            return
        self._writer.cut(window.table)
        self._entry.bases[mark.run] = (mark.attempt, self._entry.next_sequence - 1)

    def _high(self, mark: Mark) -> None:
        window = self._windows.close(mark)
        raw = self._chunks.raw(mark.chunk, mark.attempt)
        if raw is None:
            return
        if self._entry.present(raw.chunk.table) != raw.schema.table:
            self._reopen(mark, raw, "the table was renamed or dropped before")
            return
        if self._entry.superseded(raw.schema.table):
            self._reopen(mark, raw, "the entry under way begins another load of its table")
            return
        if not self._storage.exists(raw.path):  # whoever removed it: the rows are still in the source
            self._reopen(mark, raw, "its staged file is gone")
            return
        if raw.chunk.keyless:
            base = self._entry.bases.get(mark.run)
            seen = raw.base is not None or (base is not None and base[0] == mark.attempt)
        else:
            seen = window is not None and not window.spoiled
        if not seen:
            why = window.spoiled if window and window.spoiled else "its window was not seen whole"
            self._reopen(mark, raw, why)
            return
        self._admit(mark, raw, window)

    def _reopen(self, mark: Mark, raw: RawChunk, why: str) -> None:
        self._report.log(Level.INFO, f"Chunk is read again: {why}.", table=raw.chunk.table, chunk=mark.chunk)
        self._entry.reopened.append((mark.chunk, mark.attempt))

    def _admit(self, mark: Mark, raw: RawChunk, window: Window | None) -> None:
        reach("capture.admit.before")
        table, schema = raw.schema.table, raw.schema
        version = self._tracking.version_of(table, schema)
        if version is None:
            version = self._changed_version(raw)
        touched = window.touched if window is not None and not raw.chunk.keyless else set()
        self._writer.cut(table)
        kept = 0
        for rows in self._raw_rows(raw):
            fresh = untouched(rows, schema.key, touched) if schema.key else rows
            if fresh.num_rows:
                first = self._entry.take(fresh.num_rows)
                self._writer.add(
                    table, version, _as_reads(fresh, schema, first), SegmentKind.CHUNK, zero_dates=_zero_dates(fresh)
                )
                kept += fresh.num_rows
        segment = self._writer.take_chunk(table)
        self._entry.closed.append(ClosedChunk(mark.chunk, mark.run, mark.attempt, segment, raw.rows - kept))
        self._sweep_if_last(mark, raw)
        reach("capture.admit.after")

    def _changed_version(self, raw: RawChunk) -> int:
        """The chunk was read under a schema that capture did not know; no DDL lies in its window, so it holds here."""
        table = raw.schema.table
        version = self._tracking.new_version(table, raw.schema)
        detail = {"decision": "seen by the snapshot", "reload": False}
        event = TableEvent(table, self._entry.take(), EventKind.ALTER_TABLE, version, detail=detail)
        self._entry.events.append(event)
        return version

    def _raw_rows(self, raw: RawChunk) -> Iterator[pa.RecordBatch]:
        with self._storage.open(raw.path) as file:
            yield from file.iter_batches(batch_size=65_536)

    def _sweep_if_last(self, mark: Mark, raw: RawChunk) -> None:
        """A reload ends with a sweep: rows that neither its chunks nor the log have touched since it began are gone."""
        remaining = self._journal.remaining_chunks(mark.run)
        admitted = sum(closed.run == mark.run for closed in self._entry.closed)
        if remaining is None or remaining > admitted:
            return
        if raw.reload_from is not None:
            detail = {"below": raw.reload_from, "run": mark.run}
            event = TableEvent(raw.schema.table, self._entry.take(), EventKind.SWEEP, detail=detail)
            self._entry.events.append(event)


def _zero_dates(rows: pa.RecordBatch) -> int:
    """Of a raw chunk's rows; files of earlier versions do not say."""
    return (pc.sum(rows.column(ZERO_DATES)).as_py() or 0) if ZERO_DATES in rows.schema.names else 0


def _as_reads(rows: pa.RecordBatch, schema: TableSchema, first: int) -> pa.RecordBatch:
    """Chunk rows as READ changes numbered from `first`; before images are absent."""
    count = rows.num_rows
    change: dict[str, pa.Array] = {
        "_sequence_num": pa.array(range(first, first + count), pa.int64()),
        "_operation": pa.array([Operation.READ.value] * count, pa.string()),
    }
    arrays = [change.get(f.name, pa.nulls(count, f.type)) for f in CHANGE_FIELDS]
    arrays += [rows.column(name) for name in schema.names]
    arrays += [pa.nulls(count, schema.column(name).type.arrow) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.change_arrow)
