"""A chunk's marks in the log: which rows are admitted, and what the log reader learns from the chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replicator.engine.capture.chunk_admitter import ChunkAdmitter
from replicator.engine.capture.journal_entry import JournalEntryBuilder
from replicator.engine.capture.table_registry import TableRegistry
from replicator.model.change import HEARTBEAT, ChangeBatch, Watermark
from replicator.model.identifiers import TableId
from replicator.model.schema import REPLACED, Column, TableSchema
from replicator.model.table_set import TableSet
from replicator.model.types import BIGINT, INT, STRING
from replicator.snapshot.window import Windows
from replicator.sources.base import KeyRange
from replicator.staging.storage import Storage
from replicator.staging.writer import SegmentWriter
from replicator.state.chunks import ChunkToRead, RawChunk, high_mark, low_mark, opened_mark
from replicator.state.journal import CapturePlan, Checkpoint, SchemaVersion, Segment, SegmentKind, TrackedTable
from replicator.state.tables import TableState

A = TableId("shop", "a")
CHUNK = ChunkToRead(1, 1, A, "a1", KeyRange(), keyless=False)
KNOWN = TableSchema(A, (Column("k", INT, nullable=False, source_type="int"),), ("k",))
SEEN = TableSchema(A, (*KNOWN.columns, Column("n", INT, nullable=True, source_type="int")), ("k",))
WIDER = TableSchema(A, (Column("k", BIGINT, nullable=False, source_type="bigint"),), ("k",))
OTHER = TableSchema(A, (Column("k", STRING, nullable=False, source_type="uuid"),), ("k",))

PARTIAL = TableSchema(
    A, (*KNOWN.columns, Column("big", STRING, nullable=True, source_type="text")), ("k",), partial=True
)


class Stand:
    """An admission, and stand-ins for whom it asks."""

    def __init__(
        self, path: Path, schema: TableSchema, keys: Sequence[int] = (), zero_dates: Sequence[int] = ()
    ) -> None:
        storage = self.storage = Storage(f"file://{path}")
        arrow = schema.row_arrow.append(pa.field(REPLACED, pa.int32()))
        with storage.writer("raw", arrow) as writer:
            counts = [*zero_dates, *[None] * (len(keys) - len(zero_dates))]
            rows = [{"k": key, "big": f"big {key}", REPLACED: count} for key, count in zip(keys, counts, strict=True)]
            writer.write_table(pa.Table.from_pylist(rows, schema=arrow), row_group_size=5)
        self.chunk = RawChunk(CHUNK, "raw", len(keys), 1, 0.1, schema)
        self.told: list[TableSchema] = []
        self.lines: list[str] = []
        self.accepts = True
        self.present = TableState.RELOADING
        known = PARTIAL if schema is PARTIAL else KNOWN
        tracked = TrackedTable(A, TableState.RELOADING, SchemaVersion(1, known), run=1, live_from=-1, followed=True)
        plan = CapturePlan(1, wanted=True, tables=TableSet(), tracked=(tracked,), checkpoint=None)
        self.entry = JournalEntryBuilder(Checkpoint({}, 0, "server"))
        tracking, self.writer = TableRegistry(plan, self.entry), SegmentWriter(storage, "r")
        stand: Any = self
        self.windows = Windows(10_000)
        self.admission = ChunkAdmitter(
            stand, stand, storage, tracking, self.entry, self.writer, self.windows, stand, stand
        )  # fmt: skip

    def meet(self, *changed: int) -> None:
        """The chunk's window, in which the log deletes these keys."""
        self.admission.handle(Watermark(low_mark(CHUNK), None))  # type: ignore[arg-type]
        if changed:
            rows = [{"_sequence_num": 0, "_operation": "DELETE", "k": key, "_before_k": key} for key in changed]
            data = pa.RecordBatch.from_pylist(rows, schema=KNOWN.change_arrow)
            self.windows.observe(ChangeBatch(A, KNOWN, data))
        self.admission.handle(Watermark(high_mark(CHUNK), None))  # type: ignore[arg-type]

    def segment(self) -> Segment | None:
        (closed,) = self.entry.closed
        return closed.segment

    def raw(self, chunk: int, attempt: str) -> RawChunk:
        del chunk, attempt
        return self.chunk

    def table_of(self, chunk: int, attempt: str) -> TableId | None:
        return A if (chunk, attempt) == (CHUNK.chunk, CHUNK.attempt) else None

    def remaining_chunks(self, run: int) -> int:
        return run

    def state(self, table: TableId) -> TableState:
        del table
        return self.present

    def log(self, level: object, message: str, **_: object) -> None:
        self.lines.append(message)

    def learned(self, shown: TableSchema, known: TableSchema) -> TableSchema | None:
        if shown != known:
            self.told.append(shown)
        return known if self.accepts else None


def test_a_heartbeat_is_a_mark_of_ours_and_others_are_told_ever_more_rarely(tmp_path: Path) -> None:
    stand = Stand(tmp_path, KNOWN)
    for token in [HEARTBEAT] * 100 + ["L:1:1:", "L:1:x:a1", "?"]:
        stand.admission.handle(Watermark(token, None))  # type: ignore[arg-type]
    assert [line.rpartition(": ")[2] for line in stand.lines] == ["1 so far.", "2 so far."]


def test_the_logs_reader_is_told_what_a_chunk_says_of_a_table(tmp_path: Path) -> None:
    stand = Stand(tmp_path, WIDER)
    stand.meet()
    assert [closed.chunk for closed in stand.entry.closed] == [CHUNK.chunk]
    assert stand.told == [WIDER]
    assert stand.entry.events[0].detail["decision"] == "seen by the snapshot"
    assert not stand.entry.reloads


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        (TableState.LOADING, WIDER), (TableState.LOADING, OTHER), (TableState.RELOADING, OTHER),
        (TableState.RELOADING, SEEN), (TableState.STREAMING, OTHER),
    ],
)  # fmt: skip
def test_a_table_is_read_anew_where_a_chunk_has_a_definition_that_the_log_did_not_tell(
    tmp_path: Path, state: TableState, seen: TableSchema
) -> None:
    """Rows of the log before it would be merged into a table of that definition, which they may not fit.

    What was merged before has lost its values, or its key, where a column is made again.
    """
    stand = Stand(tmp_path, seen)
    stand.present = state
    stand.meet()
    assert not stand.entry.closed
    (event,), (reload,) = stand.entry.events, stand.entry.reloads
    assert event.detail["decision"] == "seen by the snapshot"
    assert (reload.table, reload.sequence, reload.fresh) == (A, event.sequence, state is TableState.LOADING)


def test_a_chunk_waits_for_a_definition_that_the_log_is_yet_to_tell_of(tmp_path: Path) -> None:
    """Of renamed columns, or another table under the name, its rows say nothing."""
    stand = Stand(tmp_path, SEEN)
    stand.accepts = False
    stand.meet()
    assert stand.entry.reopened == [(CHUNK.chunk, CHUNK.attempt)]
    assert not stand.entry.closed
    assert not stand.entry.events


def test_a_reader_that_stood_still_takes_no_rows_place_away(tmp_path: Path) -> None:
    """Its claim is over, and it does not know yet: its marks come after those of the one whose rows were taken."""
    stand = Stand(tmp_path, replace(KNOWN, key=()), range(3))
    present = replace(CHUNK, keyless=True)
    stand.chunk = replace(stand.chunk, chunk=present)
    stale = replace(present, attempt="a0")
    stand.entry.take(5)
    for mark in (low_mark(present), opened_mark(present), high_mark(present), low_mark(stale), opened_mark(stale)):
        stand.admission.handle(Watermark(mark, None))  # type: ignore[arg-type]
    assert len(stand.entry.closed) == 1
    assert stand.entry.bases[1, "a1"] == 4


def test_the_logs_reader_is_told_nothing_that_it_knows(tmp_path: Path) -> None:
    stand = Stand(tmp_path, KNOWN)
    stand.meet()
    assert [closed.chunk for closed in stand.entry.closed] == [CHUNK.chunk]
    assert not stand.told


def test_a_chunks_file_becomes_the_segment_as_it_is(tmp_path: Path) -> None:
    stand = Stand(tmp_path, KNOWN, range(100, 108))
    stand.meet(99, 108)
    segment = stand.segment()
    assert segment is not None
    assert (segment.path, segment.bare, segment.without) == ("raw", True, ())
    assert (segment.first_sequence, segment.last_sequence, segment.rows, segment.reads) == (0, 7, 8, 8)
    assert stand.entry.next_sequence == 8


def test_rows_that_the_log_touched_are_named_and_their_numbers_used_up(tmp_path: Path) -> None:
    stand = Stand(tmp_path, KNOWN, range(100, 108), zero_dates=[1, 2, 0, 0, 0, 0, 5])
    stand.meet(101, 106, 107)
    segment = stand.segment()
    assert segment is not None
    assert (segment.bare, segment.without, segment.replaced) == (True, (1, 6, 7), 1)
    assert (segment.first_sequence, segment.last_sequence, segment.rows) == (0, 7, 5)


def test_a_chunk_of_which_no_row_is_left_has_no_segment(tmp_path: Path) -> None:
    stand = Stand(tmp_path, KNOWN, range(3))
    stand.meet(0, 1, 2)
    assert stand.segment() is None
    assert stand.entry.closed[0].dropped == 3


def test_a_chunk_is_written_anew_where_the_journal_would_have_to_name_many_rows(tmp_path: Path) -> None:
    stand = Stand(tmp_path, KNOWN, range(100), zero_dates=range(100))
    stand.meet(*range(10, 50))
    segment = stand.segment()
    assert segment is not None
    assert (segment.bare, segment.without, segment.kind) == (False, (), SegmentKind.CHUNK)
    assert (segment.first_sequence, segment.last_sequence, segment.rows) == (0, 59, 60)
    assert segment.replaced == sum(range(10)) + sum(range(50, 100))
    assert stand.writer.seal().durable(10)
    with stand.storage.open(segment.path) as file:
        rows = file.read()
    assert rows.column("k").to_pylist() == [*range(10), *range(50, 100)]
    assert rows.column("_sequence_num").to_pylist() == list(range(60))
    assert rows.column("_operation").unique().to_pylist() == ["READ"]


@pytest.mark.parametrize("left_out", [(), (107,), (100, 111)])
def test_of_rows_that_updates_left_values_out_of_the_chunk_gives_these(
    tmp_path: Path, left_out: tuple[int, ...]
) -> None:
    stand = Stand(tmp_path, PARTIAL, range(100, 112))
    stand.admission.handle(Watermark(low_mark(CHUNK), None))  # type: ignore[arg-type]
    rows = [
        {"_sequence_num": number, "_operation": "UPDATE", "k": key, "_before_k": key, "big": None, "_unchanged": left}
        for number, (key, left) in enumerate([(101, None), (106, None), *((key, [1]) for key in left_out)])
    ]
    data = pa.RecordBatch.from_pylist(rows, schema=PARTIAL.change_arrow)
    stand.windows.observe(ChangeBatch(A, PARTIAL, data))
    stand.admission.handle(Watermark(high_mark(CHUNK), None))  # type: ignore[arg-type]
    segment = stand.segment()
    assert segment is not None
    assert segment.without == tuple(sorted(key - 100 for key in (101, 106, *left_out)))
    found = []
    sealed = stand.writer.seal()
    assert sealed.durable(10)
    for one in sealed.hand_out():
        with stand.storage.open(one.path) as file:
            found += file.read(columns=["k", "big", "_operation"]).to_pylist()
    assert found == [{"k": key, "big": f"big {key}", "_operation": "READ"} for key in left_out]


def test_a_key_that_was_asked_for_and_is_not_there_is_deleted(tmp_path: Path) -> None:
    stand = Stand(tmp_path, KNOWN, [1, 3])
    asked = replace(CHUNK, bounds=KeyRange(keys=tuple((str(key),) for key in range(1, 7))))
    stand.chunk = replace(stand.chunk, chunk=asked)
    stand.meet(3, 5)  # the log says of 3 and 5 what became of them
    segment = stand.segment()
    assert segment is not None
    assert (segment.rows, segment.without, segment.last_sequence) == (1, (1,), 1)
    sealed = stand.writer.seal()
    assert sealed.durable(10)
    (deletes,) = sealed.hand_out()
    assert (deletes.kind, deletes.deletes, deletes.rows) == (SegmentKind.LOG, 3, 3)
    assert (deletes.first_sequence, deletes.last_sequence) == (2, 4)
    rows = pq.read_table(stand.storage.local(deletes.path)).to_pylist()
    assert [(row["k"], row["_before_k"], row["_operation"]) for row in rows] == [
        (key, key, "DELETE") for key in (2, 4, 6)
    ]
    assert all(row["_commit_ts"] is not None for row in rows)


def test_of_a_range_nothing_is_deleted(tmp_path: Path) -> None:
    stand = Stand(tmp_path, KNOWN, [1, 3])
    stand.chunk = replace(stand.chunk, chunk=replace(CHUNK, bounds=KeyRange(condition="k < 5")))
    stand.meet()
    assert not stand.writer.seal().hand_out()
