"""The snapshot loop: plan chunk bounds, read chunks in parallel, stage them raw between two marks.

Capture admits them (`engine.capture.chunk_admitter`).  DESIGN.md "Snapshots".
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from replicator.engine.reporting import Level, Reporter
from replicator.errors import (
    ConditionRefused,
    KeyChanged,
    SourcePermissionDenied,
    TableDisappeared,
    TableError,
    TidemarkError,
)
from replicator.faults import reach
from replicator.model.identifiers import TableId
from replicator.model.schema import REPLACED, TableSchema
from replicator.periodic import periodically
from replicator.snapshot.keys import values_of
from replicator.snapshot.throttle import Throttle
from replicator.sources.base import Chunk, KeyRange, ReadOptions, SnapshotReader, Source
from replicator.staging.storage import Storage
from replicator.staging.work_thread import behind
from replicator.state.chunks import (
    EVIDENCE,
    ChunkStore,
    ChunkToRead,
    PlannedChunk,
    RawChunk,
    RunToPlan,
    chunk_detail,
    high_mark,
    low_mark,
    opened_mark,
    plan_mark,
)

WANTED_SECONDS = 1.0
CONDITION_SECONDS = 1800.0  # of one statement with a condition: it is another's work, and may find no index
# Runs whose next chunks are planned in one go, and how long: what is planned so far is read before the rest, however
# slow a table's key is.
PLANNED_TOGETHER, PLANNING_SECONDS = 64, 1.0
QUEUE_BYTES = 16 * 1024 * 1024  # of a chunk, that are read and not written; a larger batch is alone
REPLACED_FIELD = pa.field(REPLACED, pa.int32())


@dataclass(frozen=True)
class SnapshotOptions:
    """`parallel` readers, each with one connection; at most `ahead` chunks per reader are planned and not read.

    throttle: what lies between two chunks; where it wants another number of readers, all end, and `run_snapshot`
    returns.
    """

    parallel: int = 2
    ahead: int = 2
    read: ReadOptions = field(default_factory=ReadOptions)
    throttle: Throttle | None = None


def run_snapshot(  # noqa: PLR0913 - the wiring of one loop, all by name
    *,
    replicator: str,
    source: Source,
    chunks: ChunkStore,
    storage: Storage,
    owner: str,
    keep: Callable[[], bool],
    options: SnapshotOptions,
    report: Reporter,
    hurried: Callable[[], bool] | None = None,
    released: Callable[[], None] = lambda: None,
) -> int:
    """Plan and read until there is nothing to do or `keep()` is False; return the number of chunks read.

    Chunks under way by then are read to their end (a table without key is one chunk), and other readers continue
    beside them.  Once `hurried()` (without it: at once) they are abandoned.  `released` is called by each thread at its
    end (see run_apply).  A chunk's failure is reported to the store; a failure of the source itself (unreachable, not
    allowed) is raised.
    """
    pressed, others = hurried or (lambda: not keep()), _Others()
    workers = [
        _Worker(replicator, source, chunks, storage, f"{owner}/{n}", keep, pressed, options, report, others)
        for n in range(options.parallel)
    ]

    def look() -> None:
        for worker in workers:
            worker.look()

    with (
        periodically(look, name="snapshot watch", released=released),
        ThreadPoolExecutor(options.parallel, thread_name_prefix="snapshot") as pool,
    ):
        running = [pool.submit(_run, worker, released) for worker in workers]
        return sum(one.result() for one in running)


def _run(worker: _Worker, released: Callable[[], None]) -> int:
    try:
        return worker.run()
    finally:
        released()


@dataclass
class _Others:
    """What the readers know of each other.  `in_time`: whose chunk was begun before the end of the time."""

    planning: threading.Lock = field(default_factory=threading.Lock)
    in_time: set[str] = field(default_factory=set)


@dataclass
class _Statement:
    """What a reader is asking its source.

    `asked`: when it was last asked whether that is wanted still; `until`: when it is too late.
    """

    reader: SnapshotReader
    wanted: Callable[[], bool]
    asked: float
    until: float
    cancelled: bool = False
    late: bool = False


class _Worker:
    """One thread with one reader: takes a chunk, or plans further, until both are done."""

    def __init__(  # noqa: PLR0913, PLR0917 - see run_snapshot
        self,
        replicator: str,
        source: Source,
        chunks: ChunkStore,
        storage: Storage,
        owner: str,
        keep: Callable[[], bool],
        hurried: Callable[[], bool],
        options: SnapshotOptions,
        report: Reporter,
        others: _Others,
    ) -> None:
        self._hurried, self._others = hurried, others
        self._ended = -math.inf  # of the chunk before
        self._statement: _Statement | None = None
        self._looking = threading.Lock()
        self._replicator, self._source, self._chunks, self._storage = replicator, source, chunks, storage
        self._owner, self._keep, self._options, self._report = owner, keep, options, report

    def run(self) -> int:
        done = 0
        with self._reader() as reader:
            while self._may_begin():
                chunk = self._chunks.claim(self._owner)
                if chunk is not None:
                    reach("snapshot.claim.after")
                    done += self._read_beside_others(reader, chunk)
                    self._ended = time.monotonic()
                elif not self._plan(reader):
                    break
        return done

    def look(self) -> None:
        """Cancel a statement that is no longer wanted, even while it waits for something at the source (invariant 10).

        Another thread calls this repeatedly: the reader may be about to send the next statement.
        """
        with self._looking:
            if (statement := self._statement) is None:
                return
            try:
                statement.late = statement.late or time.monotonic() > statement.until
                if statement.cancelled or statement.late or self._hurried() or not self._asked(statement):
                    statement.cancelled = True
                    statement.reader.cancel()
            except TidemarkError as error:
                self._report.log(Level.DEBUG, f"A statement could not be cancelled: {error.message}")

    @staticmethod
    def _asked(statement: _Statement) -> bool:
        if time.monotonic() - statement.asked <= WANTED_SECONDS:
            return True
        statement.asked = time.monotonic()
        return statement.wanted()

    @contextmanager
    def _asking(
        self, reader: SnapshotReader, wanted: Callable[[], bool] = lambda: True, *, condition: str = ""
    ) -> Iterator[_Statement]:
        """In the block, the reader asks the source for what `wanted` confirms; errors are ignored once `cancelled`.

        A statement with a user's `condition` has a time limit: ConditionRefused.
        """
        now = time.monotonic()
        statement = _Statement(reader, wanted, now, now + CONDITION_SECONDS if condition else math.inf)
        with self._looking:
            self._statement = statement
        try:
            yield statement
        except TidemarkError:
            if not statement.cancelled:
                raise
        finally:
            with self._looking:
                self._statement = None
            if statement.cancelled:
                reader.close()  # a cancel on its way must not meet the next statement
        if statement.late:
            message = (
                f"Rows with {condition} were not found within {CONDITION_SECONDS / 60:.0f} minutes. The search was"
                " stopped."
            )
            raise ConditionRefused(message, remedy="Use a condition on an indexed column, or keys.")

    def _goes_on(self) -> bool:
        return self._keep() or (bool(self._others.in_time) and not self._hurried())

    def _may_begin(self) -> bool:
        """Another chunk, by this reader; waits for that."""
        if self._options.throttle is None:
            return self._goes_on()
        pace = self._options.throttle.wait(self._goes_on, self._ended)
        return pace is not None and pace.parallel == self._options.parallel

    @contextmanager
    def _reader(self) -> Iterator[SnapshotReader]:
        reader = self._source.snapshot_reader(self._replicator, self._options.read)
        try:
            yield reader
        finally:
            reader.close()

    def _plan(self, reader: SnapshotReader) -> bool:
        """One chunk more of each of some runs, by the size of the last one; False where no run can be planned further
        now.

        One thread at a time: they would plan the same runs.
        """
        with self._others.planning:
            runs = self._chunks.to_plan(self._options.parallel * self._options.ahead, PLANNED_TOGETHER)
            if not runs:
                return False
            new = [run for run in runs if not run.started]
            schemas: Mapping[TableId, TableSchema | TableError] = {}
            plan = ""
            planned: list[PlannedChunk] = []
            with self._asking(reader) as statement:
                # what is found from here on holds in the past that has the mark, and no other: a source may be set back
                if new:
                    plan = self._chunks.begin_plan([run.run for run in new])
                    reader.mark(plan_mark(plan))
                    reach("snapshot.plan.marked")
                    schemas = reader.describe(sorted({run.table for run in new}))
            if statement.cancelled:
                return True
            until = time.monotonic() + PLANNING_SECONDS
            try:
                for run in runs:
                    try:
                        wanted = partial(self._chunks.planning, run.run)
                        with self._asking(reader, wanted, condition=run.condition):
                            planned.append(self._next_chunk(reader, run, schemas, plan))
                    except (TableError, SourcePermissionDenied) as error:  # all was asked of this table (invariant 13)
                        self._chunks.run_failed(run, error)
                    if time.monotonic() > until or not self._goes_on():
                        break
            finally:
                self._store_planned(planned)
            return True

    def _next_chunk(
        self, reader: SnapshotReader, run: RunToPlan, schemas: Mapping[TableId, TableSchema | TableError], plan: str
    ) -> PlannedChunk:
        if not run.started:
            schema = schemas.get(run.table)
            if schema is None:
                message = f"{run.table} no longer exists."
                raise TableDisappeared(message, table=str(run.table))
            if isinstance(schema, TableError):
                raise schema
            if not schema.key and run.condition:
                message = f"{run.table} no longer has a key, so single rows cannot be read."
                raise KeyChanged(message, table=str(run.table))
            if not schema.key:
                return PlannedChunk(run.run, None, KeyRange(), done=True, keyless=True, plan=plan)
            if any(schema.column(name).masked for name in schema.key):  # bounds are key values, and would be stored
                return PlannedChunk(run.run, None, KeyRange(), done=True, plan=plan)
        end = run.end if run.started else reader.end_key(run.table, run.condition)
        if end is None:
            return PlannedChunk(run.run, None, KeyRange(), done=True, plan=plan)
        upper = reader.next_bound(run.table, run.position, end, run.chunk_rows, run.condition)
        return PlannedChunk(run.run, end, KeyRange(run.position, upper), done=upper == end, plan=plan)

    def _store_planned(self, planned: Sequence[PlannedChunk]) -> None:
        if planned:
            reach("snapshot.plan.before")
            self._chunks.planned(planned)
            reach("snapshot.plan.after")

    def _read_beside_others(self, reader: SnapshotReader, chunk: ChunkToRead) -> int:
        if self._keep():
            self._others.in_time.add(self._owner)
        try:
            return self._read(reader, chunk)
        finally:
            self._others.in_time.discard(self._owner)

    def _read(self, reader: SnapshotReader, chunk: ChunkToRead) -> int:
        """Low mark, SELECT, staged file, journal row, high mark: in this order."""
        try:
            if chunk.staged:  # a second high mark does no harm: the chunk is admitted at the first
                with self._asking(reader):
                    reader.mark(high_mark(chunk))
                return 1
            raw = None
            wanted, condition = partial(self._chunks.wanted, chunk), chunk.bounds.condition
            with self._asking(reader, wanted, condition=condition) as statement:
                reader.mark(low_mark(chunk))
                reach("snapshot.low.after")
                if chunk.keyless:
                    data = reader.read_table(chunk.table, opened_mark(chunk))
                else:
                    data = reader.read_chunk(chunk.table, chunk.bounds)
                    values_of(chunk.bounds.keys, data.schema)  # capture has to know them
                reach("snapshot.select.after")
                raw = self._stage(chunk, data)
                reach("snapshot.file.after")
            if raw is None or statement.cancelled or not self._chunks.read(raw):
                return 0
            reach("snapshot.chunk.after")
            with self._asking(reader):
                reader.mark(high_mark(chunk))
            reach("snapshot.high.after")
        except TidemarkError as error:
            self._report.log(Level.WARNING, error.message, **{**chunk_detail(chunk), "table": chunk.table})
            self._chunks.failed(chunk, error)
            if not isinstance(error, TableError):
                raise
            return 0
        return 1

    def _stage(self, chunk: ChunkToRead, data: Chunk) -> RawChunk | None:
        """Write the rows as they come (invariant 9), encoded by another thread; None where the chunk is no longer
        wanted.
        """
        path = f"{self._replicator}/chunks/{chunk.chunk:012d}-{chunk.attempt}-{uuid.uuid4().hex[:8]}.parquet"
        # Chunks are sized by these seconds: costs that do not depend on their size do not count.
        rows, started = 0, time.monotonic()
        asked = started
        # Dictionaries cost as much as all else here and save nothing behind zstd; of the footers, merges read the key's
        # ranges.
        options = {"use_dictionary": False, "write_statistics": list(data.schema.key)}
        with self._storage.writer(path, _raw_schema(data), **options) as file:
            with behind("chunk", QUEUE_BYTES) as thread:
                for batch in data.batches:
                    whole = _with_replaced(batch, data.replaced())
                    thread.put(partial(_write, file, whole, first=rows == 0), whole.nbytes)
                    rows += batch.num_rows
                    del batch, whole
                    if time.monotonic() - asked > WANTED_SECONDS:
                        asked = time.monotonic()
                        if self._hurried() or not self._chunks.wanted(chunk):
                            break
                else:
                    asked = 0.0
            reach("snapshot.file.before")
        if asked:
            self._storage.delete(path)
            return None
        return RawChunk(chunk, path, rows, self._storage.size(path), time.monotonic() - started, data.schema)


def _write(file: pq.ParquetWriter, rows: pa.RecordBatch, *, first: bool) -> None:
    """The thread's."""
    file.write_batch(rows)
    if first:
        reach("snapshot.select.rows")


def _raw_schema(data: Chunk) -> pa.Schema:
    """Of a raw chunk's file."""
    schema = data.schema.row_arrow.append(REPLACED_FIELD)
    return schema.with_metadata({EVIDENCE: data.evidence}) if data.evidence else schema


def _with_replaced(batch: pa.RecordBatch, counts: pa.Array | None) -> pa.RecordBatch:
    """Which rows of a chunk enter the sequence, only capture will know: so the count stands beside each."""
    column = pa.nulls(batch.num_rows, REPLACED_FIELD.type) if counts is None else counts
    return batch.append_column(REPLACED_FIELD, column)
