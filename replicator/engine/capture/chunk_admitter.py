"""Marks met in the log: a chunk's window opens, closes, and its rows take their place in the sequence.

DBLog's order without its pause: capture never stops; a chunk whose window was not seen whole is read again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replicator.engine.capture.journal_entry import JournalEntryBuilder
from replicator.engine.capture.schema_changes import ask_for_reload
from replicator.engine.capture.table_registry import TableRegistry
from replicator.engine.reporting import Level, Reporter
from replicator.faults import reach
from replicator.model.change import HEARTBEAT, Operation, Watermark
from replicator.model.evolution import plan_evolution
from replicator.model.schema import BEFORE, CHANGE_FIELDS, REPLACED, UNCHANGED_FIELD, TableSchema
from replicator.selection.computing import computed_changes
from replicator.snapshot.keys import values_of
from replicator.snapshot.overlay import overlaid
from replicator.snapshot.window import Key, Shows, Window, Windows, touched_places, tuples
from replicator.sources.base import LogReader
from replicator.staging.storage import Storage
from replicator.staging.writer import SegmentWriter
from replicator.state.chunks import EVIDENCE, Mark, RawChunk, RawChunkStore, parse_mark
from replicator.state.journal import ClosedChunk, EventKind, Journal, ReloadRequest, Segment, SegmentKind, TableEvent
from replicator.state.tables import TableState

BATCH_ROWS = 65_536
# A chunk's file is taken as it is where the rows to leave out are FEW, or not more than one of MANY.
FEW, MANY = 16, 256


class ChunkAdmitter:
    """Handles the watermarks of one capture."""

    def __init__(  # noqa: PLR0913, PLR0917 - see run_capture
        self,
        journal: Journal,
        chunks: RawChunkStore,
        storage: Storage,
        tracking: TableRegistry,
        entry: JournalEntryBuilder,
        writer: SegmentWriter,
        windows: Windows,
        report: Reporter,
        reader: LogReader,
    ) -> None:
        """All are those of the capture that owns this."""
        self._reader, self._strange = reader, 0
        self._journal, self._chunks, self._storage, self._tracking = journal, chunks, storage, tracking
        self._entry, self._writer, self._windows, self._report = entry, writer, windows, report

    def handle(self, watermark: Watermark) -> None:
        """Handle a watermark.  A token that is not a chunk's mark is ignored; unless a heartbeat, with a warning."""
        if watermark.token == HEARTBEAT:
            return
        mark = parse_mark(watermark.token)
        if mark is None:
            self._strange += 1
            if self._strange.bit_count() == 1:  # 1, 2, 4, 8 …
                message = (
                    f"Ignored watermarks in the source's log that Tidemark did not write: {self._strange:,} so far."
                )
                self._report.log(Level.WARNING, message)
            return
        if mark.kind == "P":
            self._entry.plans.add(mark.attempt)
        elif mark.kind == "L":
            self._low(mark)
        elif mark.kind == "O":
            self._opened(mark)
        else:
            self._high(mark)

    def _low(self, mark: Mark) -> None:
        known = self._chunks.table_of(mark.chunk, mark.attempt)
        table = None if known is None else self._entry.present(known)
        if table is not None and self._tracking.follows(table):
            self._windows.open(table, mark)

    def _opened(self, mark: Mark) -> None:
        """Keyless table: its rows stand for this very place, if the table was quiet since the low mark (no lock
        needed).

        Or, where the rows' evidence will tell, if they show all that was in the log before: that is seen at the high
        mark.
        """
        window = self._windows.peek(mark)
        if window is not None and window.opened:  # a mark counts once: its reader does not repeat it
            return
        if window is None and self._chunks.table_of(mark.chunk, mark.attempt) is None:
            return
        if window is None or window.spoiled or (window.changes and not self._windows.by_transaction):
            self._windows.close(mark)
            self._entry.reopened.append((mark.chunk, mark.attempt))
            return
        window.opened = True
        self._writer.cut(window.table)
        self._entry.bases[mark.run, mark.attempt] = self._entry.next_sequence - 1

    def _high(self, mark: Mark) -> None:
        window = self._windows.close(mark)
        raw = self._chunks.raw(mark.chunk, mark.attempt)
        if raw is None:
            return
        if why := self._misplaced(raw):
            self._reopen(mark, raw, why)
            return
        if raw.plan and raw.plan not in self._entry.plans:
            self._unplan(mark, raw)
            return
        shows = self._evidence(raw)
        if why := self._unseen(mark, raw, window, shows) or self._untold(raw):
            self._reopen(mark, raw, why)
            return
        version = self._tracking.version_of(raw.schema.table, raw.schema)
        if version is None:
            loading, lasting = self._journal.state(raw.schema.table) is TableState.LOADING, self._rows_last(raw)
            version = self._changed_version(raw)
            if loading or not lasting:
                self._load_anew(raw, fresh=loading)
                return
        self._admit(mark, raw, None if raw.chunk.keyless else window, shows, version)

    def _misplaced(self, raw: RawChunk) -> str:
        """Return why the rows are not part of their table's present load; empty where they are."""
        table = raw.chunk.table
        if self._entry.present(table) != raw.schema.table or self._entry.moved(table):
            return "the table was renamed or dropped before"
        if self._entry.superseded(raw.schema.table):
            return "the current entry starts another load of its table"
        if not self._storage.exists(raw.path):  # the rows are still in the source
            return "its staged file no longer exists"
        return ""

    def _unseen(self, mark: Mark, raw: RawChunk, window: Window | None, shows: Shows | None) -> str:
        """Return why it is unknown which of the rows the log has overtaken; empty where it is known (invariant 5)."""
        if window is None and (shows is not None or not raw.chunk.keyless):
            return "its watermark window is incomplete"
        if raw.chunk.keyless:
            if raw.base is None and (mark.run, mark.attempt) not in self._entry.bases:
                return "its low watermark was not seen"
            late = window is not None and window.behind(shows)
        else:
            assert window is not None
            if window.spoiled:
                return window.spoiled
            late = window.overtaken(shows)
        return "an earlier transaction of the log was not visible to it" if late else ""

    def _untold(self, raw: RawChunk) -> str:
        """Return why rows under a schema that the log has not shown must wait for it; empty where they need not.

        The log's reader has to know the schema, too: it would compare the next ALTER of a table without rows with the
        older one.
        """
        known = self._tracking.schema(raw.schema.table)
        if known is None:
            return ""
        if (learned := self._reader.learned(raw.schema, known)) is None:
            return "a schema or publication change of its table is not yet in the log"
        self._tracking.restate(raw.schema.table, learned)
        return ""

    def _evidence(self, raw: RawChunk) -> Shows | None:
        """What the rows show of the log's transactions; None where the log's order says it."""
        with self._storage.open(raw.path) as file:
            evidence = (file.schema_arrow.metadata or {}).get(EVIDENCE, b"").decode()
        return partial(self._reader.shows, evidence) if evidence else None

    def _reopen(self, mark: Mark, raw: RawChunk, why: str) -> None:
        self._report.log(Level.INFO, f"Rereading chunk: {why}.", table=raw.chunk.table, chunk=mark.chunk)
        self._entry.reopened.append((mark.chunk, mark.attempt))

    def _unplan(self, mark: Mark, raw: RawChunk) -> None:
        """The mark of its run's plan would have come before, in this past: rows may lie beyond an end that is of
        another.
        """
        if mark.run not in self._entry.unplanned:
            self._entry.unplanned.add(mark.run)
            message = (
                f"The snapshot of {raw.chunk.table} restarts: it was planned at a position that the source has lost."
            )
            self._report.log(Level.WARNING, message, table=raw.chunk.table)

    def _rows_last(self, raw: RawChunk) -> bool:
        """Can rows that were read before stay under this definition?

        Values of a column that is made again are lost, and the log's keys in the chunk's window are of the type before.
        """
        known = self._tracking.schema(raw.schema.table)
        plan = plan_evolution(known, raw.schema, {}) if known is not None else None
        return plan is None or not (plan.added or plan.replaced)

    def _load_anew(self, raw: RawChunk, *, fresh: bool) -> None:
        """A load's chunks are made a table before the log's rows are merged, which may not fit into one of a later
        definition.
        """
        reason = "its schema differed from the log's schema during the snapshot"
        sequence = self._entry.events[-1].sequence  # of the definition
        ask_for_reload(self._entry, self._report, ReloadRequest(raw.schema.table, sequence, fresh=fresh, reason=reason))

    def _admit(self, mark: Mark, raw: RawChunk, window: Window | None, shows: Shows | None, version: int) -> None:
        reach("capture.admit.before")
        table, schema = raw.schema.table, raw.schema
        touched = window.keys(shows) if window is not None else set()
        self._writer.cut(table)
        with self._storage.open(raw.path) as file:
            only = {"batch_size": BATCH_ROWS, "columns": list(schema.key), "use_threads": False}
            keys = file.iter_batches(**only) if touched else ()
            stale = touched_places(keys, schema.key, touched)
            if len(stale) > max(FEW, file.metadata.num_rows // MANY):
                segment = self._rewritten(file, schema, version, stale)
            else:
                segment = self._taken(file, raw, version, stale)
            if window is not None and window.batches and stale:
                for rows in _rows_at(
                    file, stale
                ):  # among the log's changes: a row may have moved to another chunk's key
                    whole = overlaid(rows.select(schema.names), schema.key, window.batches, shows)
                    self._add(whole, schema, version, SegmentKind.LOG)
            if raw.chunk.bounds.keys:
                self._gone(file, raw, version, touched)
        self._entry.closed.append(ClosedChunk(mark.chunk, mark.run, mark.attempt, segment, len(stale)))
        self._sweep_if_last(mark, raw)
        reach("capture.admit.after")

    def _taken(self, file: pq.ParquetFile, raw: RawChunk, version: int, stale: list[int]) -> Segment | None:
        """The raw file as it is, without these rows; None where no row is left."""
        count = file.metadata.num_rows
        kept = count - len(stale)
        if not kept:
            return None
        first = self._entry.take(count)
        return Segment(
            table=raw.schema.table,
            kind=SegmentKind.CHUNK,
            schema_version=version,
            first_sequence=first,
            last_sequence=first + count - 1,
            path=raw.path,
            rows=kept,
            size=raw.size,
            reads=kept,
            replaced=_replaced(file, stale),
            bare=True,
            without=tuple(stale),
        )

    def _rewritten(self, file: pq.ParquetFile, schema: TableSchema, version: int, stale: list[int]) -> Segment | None:
        """Write the remaining rows to a new file: too many rows are left out to list them in the journal."""
        at = 0
        for rows in file.iter_batches(batch_size=BATCH_ROWS):
            mask = np.ones(rows.num_rows, np.bool_)
            mask[_between(stale, at, at + rows.num_rows)] = False
            self._add(rows.filter(pa.array(mask)), schema, version, SegmentKind.CHUNK)
            at += rows.num_rows
        return self._writer.take_chunk(schema.table)

    def _gone(self, file: pq.ParquetFile, raw: RawChunk, version: int, touched: set[Key]) -> None:
        """Keys that were asked for and that the source does not have: among the log's changes, as their DELETE.

        Not those that the log touched: what it says of them comes later, or was not in the rows (invariant 5).
        """
        schema = raw.schema
        batches = file.iter_batches(batch_size=BATCH_ROWS, columns=list(schema.key))
        known = touched.union(*(tuples(rows, schema.key) for rows in batches))
        gone = [key for key in values_of(raw.chunk.bounds.keys, schema) if key not in known]
        if gone:
            deletes = _as_deletes(gone, schema, self._entry.take(len(gone)))
            self._writer.add(schema.table, version, deletes, SegmentKind.LOG, key=schema.key)

    def _add(self, rows: pa.RecordBatch, schema: TableSchema, version: int, kind: SegmentKind) -> None:
        if rows.num_rows:
            reads = _as_reads(rows, schema, self._entry.take(rows.num_rows))
            self._writer.add(schema.table, version, reads, kind, key=schema.key, replaced=_replaced_of(rows))

    def _changed_version(self, raw: RawChunk) -> int:
        """The chunk was read under a schema that capture did not know; no DDL lies in its window, so it holds here."""
        table = raw.schema.table
        version = self._tracking.new_version(table, raw.schema)
        detail = {"decision": "seen by the snapshot", "reload": False}
        event = TableEvent(table, self._entry.take(), EventKind.ALTER_TABLE, version, detail=detail)
        self._entry.events.append(event)
        return version

    def _sweep_if_last(self, mark: Mark, raw: RawChunk) -> None:
        """A reload ends with a sweep: rows that neither its chunks nor the log have touched since it began are gone."""
        if raw.reload_from is None:
            return
        remaining = self._journal.remaining_chunks(mark.run)
        admitted = sum(closed.run == mark.run for closed in self._entry.closed)
        if remaining is None or remaining > admitted:
            return
        detail = {"below": raw.reload_from, "run": mark.run}
        event = TableEvent(raw.schema.table, self._entry.take(), EventKind.SWEEP, detail=detail)
        self._entry.events.append(event)


def _between(places: list[int], begin: int, end: int) -> list[int]:
    """Those of a sorted list from `begin` to before `end`, counted from `begin`."""
    return [place - begin for place in places[bisect_left(places, begin) : bisect_left(places, end)]]


def _rows_at(file: pq.ParquetFile, places: list[int]) -> Iterator[pa.RecordBatch]:
    at = 0
    for rows in file.iter_batches(batch_size=BATCH_ROWS):
        if here := _between(places, at, at + rows.num_rows):
            yield rows.take(pa.array(here, pa.int64()))
        at += rows.num_rows


def _replaced(file: pq.ParquetFile, without: list[int]) -> int:
    """Of a raw chunk's rows but these; files of earlier versions do not say."""
    if REPLACED not in file.schema_arrow.names:
        return 0
    counts = file.read(columns=[REPLACED]).column(REPLACED)
    return _sum(counts) - (_sum(counts.take(pa.array(without, pa.int64()))) if without else 0)


def _replaced_of(rows: pa.RecordBatch) -> int:
    return _sum(rows.column(REPLACED)) if REPLACED in rows.schema.names else 0


def _sum(counts: pa.Array | pa.ChunkedArray) -> int:
    return pc.sum(counts).as_py() or 0


def _as_reads(rows: pa.RecordBatch, schema: TableSchema, first: int) -> pa.RecordBatch:
    """Chunk rows as READ changes numbered from `first`; before images are absent, and nothing is left out."""
    count = rows.num_rows
    change: dict[str, pa.Array] = {
        "_sequence_num": pa.array(range(first, first + count), pa.int64()),
        "_operation": pa.array([Operation.READ.value] * count, pa.string()),
    }
    arrays = [change.get(f.name, pa.nulls(count, f.type)) for f in CHANGE_FIELDS]
    arrays += [rows.column(name) for name in schema.names]
    arrays += [pa.nulls(count, schema.column(name).type.arrow) for name in schema.names]
    arrays += [pa.nulls(count, UNCHANGED_FIELD.type)] * schema.partial
    return pa.RecordBatch.from_arrays(arrays, schema=schema.change_arrow)


def _as_deletes(keys: Sequence[Key], schema: TableSchema, first: int) -> pa.RecordBatch:
    """Return DELETE changes numbered from `first`, as in the log.

    Their commit times are unknown, so they have the present time, at which the deletions were found.
    """
    count = len(keys)
    arrow = schema.change_arrow
    known: dict[str, pa.Array] = {
        "_sequence_num": pa.array(range(first, first + count), pa.int64()),
        "_operation": pa.array([Operation.DELETE.value] * count, pa.string()),
        "_commit_ts": pa.array([datetime.now(UTC)] * count, pa.timestamp("us", tz="UTC")),
    }
    for place, name in enumerate(schema.key):
        values = pa.array([key[place] for key in keys], schema.column(name).type.arrow)
        known |= {name: values, BEFORE + name: values}
    found = pa.RecordBatch.from_arrays([known.get(f.name, pa.nulls(count, f.type)) for f in arrow], schema=arrow)
    return computed_changes(found, schema)
