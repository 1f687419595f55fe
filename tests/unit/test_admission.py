"""A chunk's marks in the log: what is admitted, and who is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from replicator.engine.admission import Admission
from replicator.engine.entry import EntryBuilder
from replicator.engine.tracking import Tracking
from replicator.model.change import Watermark
from replicator.model.identifiers import TableId, TableSet
from replicator.model.schema import Column, TableSchema
from replicator.model.types import INT
from replicator.snapshot.window import Windows
from replicator.sources.base import KeyRange
from replicator.staging.storage import Storage
from replicator.staging.writer import SegmentWriter
from replicator.state.chunks import ChunkToRead, RawChunk, high_mark, low_mark
from replicator.state.journal import CapturePlan, Checkpoint, SchemaVersion, TrackedTable
from replicator.state.tables import TableState

A = TableId("shop", "a")
CHUNK = ChunkToRead(1, 1, A, "a1", KeyRange(), keyless=False)
KNOWN = TableSchema(A, (Column("k", INT, nullable=False, source_type="int"),), ("k",))
SEEN = TableSchema(A, (*KNOWN.columns, Column("n", INT, nullable=True, source_type="int")), ("k",))


class Stand:
    """An admission, and stand-ins for whom it asks."""

    def __init__(self, path: Path, schema: TableSchema) -> None:
        storage = Storage(f"file://{path}")
        with storage.writer("raw", schema.row_arrow) as writer:
            writer.write_batch(pa.RecordBatch.from_pylist([], schema=schema.row_arrow))
        self.chunk = RawChunk(CHUNK, "raw", 0, 1, 0.1, schema)
        self.told: list[TableSchema] = []
        self.accepts = True
        tracked = TrackedTable(A, TableState.RELOADING, SchemaVersion(1, KNOWN), run=1, live_from=-1, followed=True)
        plan = CapturePlan(1, wanted=True, tables=TableSet(), tracked=(tracked,), checkpoint=None)
        self.entry = EntryBuilder(Checkpoint({}, 0, "server"))
        tracking, writer = Tracking(plan, self.entry), SegmentWriter(storage, "r")
        stand: Any = self
        self.admission = Admission(
            stand, stand, storage, tracking, self.entry, writer, Windows(100), stand, stand
        )  # fmt: skip

    def meet(self) -> None:
        for token in (low_mark(CHUNK), high_mark(CHUNK)):
            self.admission.handle(Watermark(token, None))  # type: ignore[arg-type]

    def raw(self, chunk: int, attempt: str) -> RawChunk:
        del chunk, attempt
        return self.chunk

    def table_of(self, chunk: int) -> TableId:
        del chunk
        return A

    def remaining_chunks(self, run: int) -> int:
        return run

    def log(self, *_: object, **__: object) -> None:
        """Of no interest."""

    def learned(self, schema: TableSchema) -> bool:
        self.told.append(schema)
        return self.accepts


def test_the_logs_reader_is_told_what_a_chunk_says_of_a_table(tmp_path: Path) -> None:
    stand = Stand(tmp_path, SEEN)
    stand.meet()
    assert [closed.chunk for closed in stand.entry.closed] == [CHUNK.chunk]
    assert stand.told == [SEEN]
    assert stand.entry.events[0].detail["decision"] == "seen by the snapshot"


def test_a_chunk_waits_for_a_definition_that_the_log_is_yet_to_tell_of(tmp_path: Path) -> None:
    """Of renamed columns, or another table under the name, its rows say nothing."""
    stand = Stand(tmp_path, SEEN)
    stand.accepts = False
    stand.meet()
    assert stand.entry.reopened == [(CHUNK.chunk, CHUNK.attempt)]
    assert not stand.entry.closed
    assert not stand.entry.events


def test_the_logs_reader_is_told_nothing_that_it_knows(tmp_path: Path) -> None:
    stand = Stand(tmp_path, KNOWN)
    stand.meet()
    assert [closed.chunk for closed in stand.entry.closed] == [CHUNK.chunk]
    assert not stand.told
