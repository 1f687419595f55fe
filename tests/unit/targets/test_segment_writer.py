"""Segments: immutable, cut where something must not lie within, bounded in memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replicator import faults
from replicator.errors import StorageFull
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import INT
from replicator.staging import writer as module
from replicator.staging.storage import Storage
from replicator.staging.writer import SegmentWriter
from replicator.state.journal import Segment, SegmentKind

A, B = TableId("shop", "a"), TableId("shop", "b")
SCHEMA = TableSchema(A, (Column("k", INT, False, "int"),), ("k",)).change_arrow


def batch(*numbers: int, operation: str = "INSERT") -> pa.RecordBatch:
    values = {"_sequence_num": list(numbers), "_operation": [operation] * len(numbers), "k": list(numbers)}
    arrays = [pa.array(values.get(f.name, [None] * len(numbers)), f.type) for f in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(f"file://{tmp_path}")


def read(storage: Storage, path: str) -> list[int]:
    with storage.open(path) as file:
        return file.read().column("_sequence_num").to_pylist()


def sealed(writer: SegmentWriter) -> list[Segment]:
    """Durable."""
    found = writer.seal()
    assert found.durable(10)
    return found.hand_out()


def test_one_segment_per_table_with_its_figures(storage: Storage) -> None:
    writer = SegmentWriter(storage, "r1")
    writer.add(A, 1, batch(0, 2))
    writer.add(B, 1, batch(1, operation="DELETE"))
    writer.add(A, 1, batch(3, operation="UPDATE"))
    first, second = sorted(sealed(writer), key=lambda segment: segment.table)
    assert (first.first_sequence, first.last_sequence, first.rows, first.inserts, first.updates) == (0, 3, 3, 2, 1)
    assert (second.rows, second.deletes) == (1, 1)
    assert read(storage, first.path) == [0, 2, 3]
    assert sealed(writer) == []


def test_a_cut_and_a_new_schema_version_end_the_segment(storage: Storage) -> None:
    writer = SegmentWriter(storage, "r1")
    writer.add(A, 1, batch(0))
    writer.cut(A)
    writer.add(A, 1, batch(1))
    writer.add(A, 2, batch(2))
    assert [(s.first_sequence, s.schema_version) for s in sealed(writer)] == [(0, 1), (1, 1), (2, 2)]


def test_what_exceeds_memory_is_spilled_into_the_same_file(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPILL_BYTES", 1)
    writer = SegmentWriter(storage, "r1")
    for number in range(5):
        writer.add(A, 1, batch(number))
    (segment,) = sealed(writer)
    assert read(storage, segment.path) == [0, 1, 2, 3, 4]
    assert pq.ParquetFile(storage.local(segment.path)).num_row_groups == 5


def test_an_abandoned_writer_leaves_no_file(storage: Storage, tmp_path: Path) -> None:
    writer = SegmentWriter(storage, "r1")
    writer.add(A, 1, batch(0))
    writer.cut(A)
    writer.add(A, 1, batch(1))
    writer.abandon()
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_chunk_is_handed_out_by_itself(storage: Storage) -> None:
    writer = SegmentWriter(storage, "r1")
    writer.add(A, 1, batch(0))
    writer.add(A, 1, batch(1, 2, operation="READ"), SegmentKind.CHUNK)
    chunk = writer.take_chunk(A)
    assert chunk is not None
    assert (chunk.kind, chunk.reads) == (SegmentKind.CHUNK, 2)
    assert writer.take_chunk(A) is None
    assert [segment.kind for segment in sealed(writer)] == [SegmentKind.LOG]


@pytest.mark.parametrize("point", ["storage.open.before", "segment.spill.before", "segment.close.before"])
def test_a_full_disk_is_said_and_leaves_no_file(storage: Storage, tmp_path: Path, point: str) -> None:
    writer = SegmentWriter(storage, "r1")
    writer.add(A, 1, batch(1))
    faults.arm([faults.Fault(point, "full")])
    try:
        with pytest.raises(StorageFull):
            sealed(writer)
        writer.abandon()
    finally:
        faults.disarm()
    assert not list(tmp_path.rglob("*.parquet"))


def test_abandoning_on_a_full_disk_raises_nothing(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPILL_BYTES", 1)
    writer = SegmentWriter(storage, "r1")
    writer.add(A, 1, batch(1))
    faults.arm([faults.Fault("storage.sync.before", "full")])
    try:
        writer.abandon()
    finally:
        faults.disarm()
    assert sealed(writer) == []
