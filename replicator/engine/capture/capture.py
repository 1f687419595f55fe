"""The capture loop: log → segments → journal → confirm.

A commit is under way (its files are written and forced to the disk by the writer's thread) while the log is read on;
there is one at a time, and this thread lands it: journal, then confirm.

Invariants held here: 1 (confirm after the journal), 2 (one journal transaction), 5 (windows), 6 (a journal commit ends
at a transaction's end), 7 (one table's trouble stops one table), 9 (bounded memory), 10 (stops within seconds).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from replicator.engine.capture.capture_start import begin, prepare
from replicator.engine.capture.cascades import Cascades
from replicator.engine.capture.chunk_admitter import ChunkAdmitter
from replicator.engine.capture.journal_entry import JournalEntryBuilder
from replicator.engine.capture.schema_changes import SchemaChanges
from replicator.engine.capture.signals import Signals
from replicator.engine.capture.table_registry import TableRegistry
from replicator.engine.reporting import Level, Reporter
from replicator.errors import (
    SourceBusy,
    TidemarkError,
)
from replicator.faults import reach
from replicator.model.change import (
    CascadesAdded,
    ChangeBatch,
    Commit,
    Heartbeat,
    LogMessage,
    Notice,
    SchemaChange,
    Settled,
    TableFailed,
    UndecodableRows,
    Watermark,
)
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.snapshot.window import Windows
from replicator.sources.base import LogReader, ReadOptions, Source, SourceWait, cascades_of
from replicator.sources.shared.undecodable_rows import too_many
from replicator.staging.storage import Storage
from replicator.staging.writer import Sealed, SegmentWriter
from replicator.state.chunks import RawChunkStore
from replicator.state.journal import (
    CapturePlan,
    Journal,
    JournalEntry,
)
from replicator.state.lease import Lease

IDLE_COMMIT_SECONDS = 5.0
POLL_SECONDS = 0.8
PATIENCE_SECONDS = 2.0  # with a transaction that does not end, once a stop was asked for
DISK_SECONDS = 3.0  # more, with a disk that does not answer
SMALL_BYTES = (
    4 * 1024 * 1024
)  # a commit of no more is waited for a little: at the log's head there is nothing to read on
SMALL_SECONDS = 0.25
MANY_ROWS, MANY_SECONDS = 5_000, 1.0  # of a commit, and how long after the last one it is due
MAX_DEAD_LETTERS = 1000  # dead-letter rows of one table; with more, the table fails and has to be resnapshotted


@dataclass(frozen=True)
class CaptureOptions:
    """When a journal commit is due (at a transaction's end): rows, bytes, or seconds since the last one, so at once
    after a rest.

    Where commits are costly (a file for each of many tables) they are rarer: three times as long as the last one took,
    `flush_most` at most.  So are those of MANY_ROWS: to merge them takes longer than to wait.
    """

    flush_rows: int = 250_000
    flush_bytes: int = 64 * 1024 * 1024
    flush_seconds: float = 0.25
    flush_most: float = 5.0
    window_keys: int = 500_000
    read: ReadOptions = field(default_factory=ReadOptions)


def run_capture(  # noqa: PLR0913 - the wiring of one loop, all by name
    *,
    replicator: str,
    source: Source,
    parse_offset: Callable[[Mapping[str, Any]], Offset],
    journal: Journal,
    chunks: RawChunkStore,
    storage: Storage,
    lease: Lease,
    keep: Callable[[], bool],
    options: CaptureOptions,
    report: Reporter,
    hurried: Callable[[], bool] | None = None,
) -> None:
    """Capture until `keep()` is False and the present transaction has ended; every return is at a checkpoint.

    Once `hurried()` (without it: at once), a transaction that does not end is abandoned: the next worker reads it from
    its beginning.  The plan is re-read whenever its version changes.  Raises TidemarkError; FenceLost when another
    worker has the lease.
    """
    late: dict[TableId, Offset] = {}
    while keep():
        plan = journal.plan()
        if not plan.wanted:
            return
        waiting = SourceWait(hurried or (lambda: not keep()), partial(_waits, report))
        prepared = partial(prepare, report, waiting)
        plan = begin(replicator, source, parse_offset, journal, lease, plan, prepared, late)
        followed = {tracked.table for tracked in plan.tracked}
        cascades = Cascades(cascades_of(source.catalog(), followed))
        reader = source.log_reader(replicator, options.read)
        capture = _Capture(
            replicator, source, journal, chunks, storage, lease, options, report, plan, cascades, reader, keep,
            hurried or (lambda: not keep()), late,
        )  # fmt: skip
        try:
            start = parse_offset(capture.entry.checkpoint.offset)
            capture.follow(start, plan)
        finally:
            capture.writer.abandon()
            reader.close()


def _waits(report: Reporter, busy: SourceBusy) -> None:
    report.log(Level.WARNING, busy.message, code=busy.code, remedy=busy.remedy)


class _StorageTimeoutError(Exception):
    """A stop was asked for, and the disk does not answer."""


@dataclass(frozen=True, slots=True)
class _InFlightCommit:
    """A commit whose files are on their way to the disk.

    `urgent`: it is not of rows only (`JournalEntryBuilder.urgent`).
    """

    boundary: Offset
    urgent: bool
    sealed: Sealed
    entry: JournalEntry
    started_at: float

    def with_segments(self) -> JournalEntry:
        """The entry with its segments, all of which are durable."""
        segments = tuple(self.sealed.hand_out())
        closed = tuple(
            replace(one, segment=one.segment and self.sealed.sized(one.segment)) for one in self.entry.closed
        )
        return replace(self.entry, segments=segments, closed=closed)


class _Capture:
    """One reading of the log under one plan."""

    def __init__(  # noqa: PLR0913, PLR0917 - see run_capture
        self,
        replicator: str,
        source: Source,
        journal: Journal,
        chunks: RawChunkStore,
        storage: Storage,
        lease: Lease,
        options: CaptureOptions,
        report: Reporter,
        plan: CapturePlan,
        cascades: Cascades,
        reader: LogReader,
        keep: Callable[[], bool],
        hurried: Callable[[], bool],
        late: Mapping[TableId, Offset],
    ) -> None:
        assert plan.checkpoint is not None
        self._journal, self._lease, self._options, self._report = journal, lease, options, report
        self._version = plan.version
        self._cascades = cascades
        self._reader, self._keep, self._hurried = reader, keep, hurried
        self.writer = SegmentWriter(storage, replicator, self._check_disk_timeout)
        self.entry = JournalEntryBuilder(plan.checkpoint)
        self._windows = Windows(options.window_keys)
        self._tracking = TableRegistry(plan, self.entry, late)
        self._late = tuple(late.values())
        self._in_time = False
        self._ddl = SchemaChanges(
            journal, plan.ddl_policy, self._tracking, self.entry, self.writer, self._windows, report
        )
        self._admission = ChunkAdmitter(
            journal, chunks, storage, self._tracking, self.entry, self.writer, self._windows, report, reader
        )
        self._signals = Signals(plan, source.catalog(), self.entry, report)
        self._waiting = False
        self._flush_after = options.flush_seconds
        self._committed_at = time.monotonic()
        self._polled_at = 0.0
        self._stop_asked_at: float | None = None
        self._outdated = False  # the plan that is followed
        self._passed: Offset | None = None  # the end of the last transaction that was read
        self._in_flight: _InFlightCommit | None = None

    def follow(self, start: Offset, plan: CapturePlan) -> None:
        """Handle messages until it is time to stop."""
        self._passed = start
        messages = iter(self._reader.read(start, plan.followed, self._tracking.schemas() | self._signals.schemas()))
        with suppress(_StorageTimeoutError):
            while self._step(messages):
                pass

    def _step(self, messages: Iterator[LogMessage]) -> bool:
        """One message, which nothing holds while the next is read (invariant 9); False where it is time to stop."""
        try:
            message = next(messages, None)
        except TidemarkError:
            self._finish_commit()  # what was read before is not less worth
            raise
        if message is None:
            self._finish_commit()
            return False
        reach("capture.message.read")
        self._try_finish_commit(0)
        boundary = self._handle(message)
        if boundary is not None and self._late and not any(boundary < place for place in self._late):
            self._in_time, self._stop_asked_at = True, time.monotonic()  # the plan is read again, with those tables
        stopping = self._stopping()
        if boundary is not None and (self._due() or (stopping and (self._in_time or self.entry.pending(self.writer)))):
            self._begin_commit(boundary)
        if stopping and (boundary is not None or self._out_of_patience(PATIENCE_SECONDS)):
            self._finish_commit()
            return False
        return True

    def _handle(self, message: LogMessage) -> Offset | None:
        """The offset to resume at, where the message stands at a transaction's end."""
        match message:
            case ChangeBatch() | SchemaChange() | TableFailed() | UndecodableRows() if self._signals.takes(message):
                pass
            case ChangeBatch():
                self._rows(message)
            case UndecodableRows():
                self._add_dead_letters(message)
            case SchemaChange():
                self._flush_before_query()
                self._ddl.handle(message)
                if message.new_table is not None:
                    self._cascades.rename(message.table, message.new_table)
                self._placed(message.offset)
            case CascadesAdded():
                self._cascades.add(message.rules)
            case Watermark():
                self._flush_before_query()
                self._admission.handle(message)
            case Settled() | Notice():
                self._note(message)
            case TableFailed():
                self._fail(message)
            case Commit() | Heartbeat():
                return self._reached(message)
        return None

    def _note(self, message: Settled | Notice) -> None:
        if isinstance(message, Settled):
            self._windows.settle(message.unsettled)
        else:
            self._report.log(Level.WARNING, message.text)

    def _reached(self, message: Commit | Heartbeat) -> Offset | None:
        at = message.commit_ts if isinstance(message, Commit) else message.source_ts
        if at is not None:
            self.entry.source_ts = at
        if isinstance(message, Commit):
            self._passed = message.offset
        return message.offset

    def _rows(self, batch: ChangeBatch) -> None:
        if self._tracking.ignored(batch.table):
            self.entry.skip(batch)
        elif batch.data.num_rows:
            self._stage(batch)
        for child in self._cascades.reached(batch):
            self._ddl.reread(child, batch.table)

    def _stage(self, batch: ChangeBatch) -> None:
        version = self._tracking.version_of(batch.table, batch.schema)
        if version is None:
            self._flush_before_query()
            self._ddl.unannounced(batch)
            version = self._tracking.version_of(batch.table, batch.schema)
        assert version is not None
        self._windows.observe(batch)
        numbered = self.entry.number(batch)
        self.writer.add(batch.table, version, numbered, key=batch.schema.key, replaced=batch.replaced)
        self._waiting = True

    def _add_dead_letters(self, message: UndecodableRows) -> None:
        """Number the rows as any others and keep them as dead-letter rows; their keys are treated as unknown."""
        table, rows = message.table, message.rows
        if self._tracking.ignored(table):
            self.entry.reached(rows[-1].ordinal + self.entry.shift)
            return
        self._windows.keys_unknown(table, frozenset(row.txn_id for row in rows))
        for row in rows:
            self.entry.add_dead_letter(table, row)
        for child in self._cascades.behind(message):
            self._ddl.reread(child, table)
        self._waiting = True
        error = rows[0].error
        text = f"{len(rows):,} dead-letter row{'' if len(rows) == 1 else 's'}: {error.message}"
        self._report.log(Level.WARNING, text, table=table, code=error.code, place=rows[0].offset, column=error.column)
        if self._tracking.count_dead_letters(table, len(rows)) > MAX_DEAD_LETTERS:
            self._fail(TableFailed(table, too_many(MAX_DEAD_LETTERS, error), message.offset))

    def _fail(self, failed: TableFailed) -> None:
        if self._tracking.late(failed.table):
            return
        self.writer.cut(failed.table)
        self._windows.spoil(failed.table, failed.error.message)
        self._tracking.ignore(failed.table)
        self.entry.failures.append((failed.table, failed.error))
        self._placed(failed.offset)
        self._report.log(Level.ERROR, failed.error.message, table=failed.table, code=failed.error.code)
        for child in sorted(self._cascades.children(failed.table)):
            message = f"Foreign key actions of {failed.table} are no longer tracked. Resnapshot {child} after it."
            self._report.log(Level.WARNING, message, table=child)
        reach("capture.failure.noted")

    def _placed(self, offset: Offset) -> None:
        """Errors noted just now lie between the last transaction's end and `offset`."""
        for _, error in self.entry.failures:
            error.place = error.place or (str(self._passed), str(offset))

    def _due(self) -> bool:
        now = time.monotonic()
        if self.entry.urgent():
            return True
        if not self._waiting:
            return now - self._committed_at >= IDLE_COMMIT_SECONDS
        least = max(self._flush_after, MANY_SECONDS if self.writer.rows >= MANY_ROWS else 0.0)
        return (
            self.writer.rows >= self._options.flush_rows
            or self.writer.bytes >= self._options.flush_bytes
            or now - self._committed_at >= least
        )

    def _begin_commit(self, boundary: Offset) -> None:
        """A commit begins: its files are sealed.  The log is read on meanwhile, unless there is little to write."""
        if self._in_flight is not None and not (self.entry.urgent() or self._stop_asked_at is not None):
            return  # it grows until the one before has landed
        self._finish_commit()
        small = self.writer.bytes < SMALL_BYTES
        urgent, self._committed_at = self.entry.urgent(), time.monotonic()
        self._in_flight = _InFlightCommit(
            boundary, urgent, self.writer.seal(), self.entry.build(boundary), started_at=self._committed_at
        )
        self._waiting = False
        self._try_finish_commit(SMALL_SECONDS if small else 0)

    def _try_finish_commit(self, seconds: float) -> None:
        """Journal the commit under way if its files are durable, or become so within `seconds`."""
        self.writer.check()
        if self._in_flight is None or not self._in_flight.sealed.durable(seconds):
            return
        underway, self._in_flight = self._in_flight, None
        entry = underway.with_segments()
        reach("capture.journal.before")
        self._journal.commit(self._lease, entry)  # invariant 2
        reach("capture.journal.after")
        self._reader.confirm(underway.boundary)  # invariant 1: only now
        reach("capture.confirm.after")
        least, most = self._options.flush_seconds, self._options.flush_most
        self._flush_after = max(least, min(most, 3 * (time.monotonic() - underway.started_at)))

    def _finish_commit(self) -> None:
        """Nothing is under way any more."""
        while self._in_flight is not None:
            self._try_finish_commit(POLL_SECONDS)
            self._check_disk_timeout()

    def _flush_before_query(self) -> None:
        """The journal has what is known here of tables and chunks: before it is asked."""
        if self._in_flight is not None and self._in_flight.urgent:
            self._finish_commit()

    def _check_disk_timeout(self) -> None:
        """Raise _StorageTimeoutError where the disk does not answer after a stop was requested (invariant 10)."""
        if self._stopping() and self._out_of_patience(PATIENCE_SECONDS + DISK_SECONDS):
            raise _StorageTimeoutError

    def _stopping(self) -> bool:
        now = time.monotonic()
        if self._stop_asked_at is None and now - self._polled_at >= POLL_SECONDS:
            self._polled_at = now
            self._outdated = self._journal.plan_version() != self._version
            if self._outdated or not self._keep():
                self._stop_asked_at = now
        return self._stop_asked_at is not None

    def _out_of_patience(self, seconds: float) -> bool:
        """Say whether to abandon what was read: a transaction does not end, or a disk does not answer (invariant 10).

        Not at the end of a slice: a transaction that takes longer than a slice would be abandoned in each.
        """
        late = self._stop_asked_at is not None and time.monotonic() - self._stop_asked_at > seconds
        return late and (self._outdated or self._hurried())
