"""A chunk's rows on their way into its file, which is written behind the reader's back."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replicator.engine.snapshot import QUEUE_BYTES, SnapshotOptions, run_snapshot
from replicator.errors import StorageFull, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import INT, STRING
from replicator.sources.base import Chunk, KeyRange
from replicator.staging import work_thread
from replicator.staging.storage import Storage
from replicator.staging.work_thread import behind
from replicator.state.chunks import ChunkToRead, RawChunk

TABLE = TableId("shop", "t")
SCHEMA = TableSchema(
    TABLE, (Column("k", INT, nullable=False, source_type="int"), Column("v", STRING, True, "text")), ("k",)
)


class Stand:
    """A store with one chunk, and a source whose chunk has these batches."""

    def __init__(self, path: Path, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.path, self._batches = path, batches
        self.todo = [ChunkToRead(1, 1, TABLE, "a1", KeyRange(), keyless=False)]
        self.marks: list[str] = []
        self.found: list[RawChunk] = []
        self.failures: list[TidemarkError] = []
        self.wants = self.in_time = True

    def run(self, hurried: Callable[[], bool] | None = None) -> None:
        stand: Any = self
        run_snapshot(
            replicator="r",
            source=stand,
            chunks=stand,
            storage=Storage(self.path.as_uri()),
            owner="me",
            keep=lambda: self.wants and self.in_time,
            hurried=hurried,
            options=SnapshotOptions(parallel=1),
            report=stand,
        )

    def files(self) -> list[Path]:
        return [file for file in self.path.rglob("*") if file.is_file()]

    def snapshot_reader(self, *_: object) -> Stand:
        return self

    def mark(self, token: str) -> None:
        self.marks.append(token[0])

    def read_chunk(self, *_: object) -> Chunk:
        return Chunk(SCHEMA, self._batches())

    def claim(self, owner: str) -> ChunkToRead | None:
        del owner
        return self.todo.pop() if self.todo else None

    def to_plan(self, *_: object) -> list[Any]:
        return []

    def wanted(self, chunk: ChunkToRead) -> bool:
        del chunk
        return self.wants

    def read(self, raw: RawChunk) -> bool:
        self.found.append(raw)
        return True

    def failed(self, chunk: ChunkToRead, error: TidemarkError) -> None:
        del chunk
        self.failures.append(error)

    def log(self, *_: object, **__: object) -> None:
        """Of no interest."""

    def cancel(self) -> None:
        """The reader's."""

    def close(self) -> None:
        """The reader's."""


def batch(first: int, count: int, size: int = 1) -> pa.RecordBatch:
    keys = list(range(first, first + count))
    return pa.RecordBatch.from_pylist([{"k": key, "v": "v" * size} for key in keys], schema=SCHEMA.row_arrow)


@pytest.fixture(autouse=True)
def nothing_under_way() -> Iterator[None]:
    yield
    assert not [one for one in threading.enumerate() if one.name == "chunk"]


def test_a_file_has_all_rows_in_their_order_when_the_journal_names_it(tmp_path: Path) -> None:
    stand = Stand(tmp_path, lambda: (batch(100 * number, 100) for number in range(30)))
    stand.run()
    assert (stand.marks, [raw.rows for raw in stand.found]) == (["L", "H"], [3000])
    (file,) = stand.files()
    assert pq.read_table(file, columns=["k"]).column("k").to_pylist() == list(range(3000))
    assert stand.found[0].size == file.stat().st_size


def test_a_chunk_without_rows_has_a_file(tmp_path: Path) -> None:
    stand = Stand(tmp_path, lambda: iter(()))
    stand.run()
    assert [raw.rows for raw in stand.found] == [0]
    assert len(stand.files()) == 1


def test_a_disk_that_is_full_is_said_and_keeps_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def write_batch(_: Any, rows: pa.RecordBatch) -> None:
        written.append(rows.num_rows)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", write_batch)
    stand = Stand(tmp_path, lambda: (batch(number, 1) for number in range(5)))
    with pytest.raises(StorageFull):
        stand.run()
    assert len(written) == 2
    assert [type(error) for error in stand.failures] == [StorageFull]
    assert (stand.marks, stand.found, stand.files()) == (["L"], [], [])


def test_a_source_that_fails_keeps_no_file(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(0, 10)
        raise TidemarkError("gone")

    stand = Stand(tmp_path, batches)
    with pytest.raises(TidemarkError, match="gone"):
        stand.run()
    assert (stand.marks, stand.found, stand.files()) == (["L"], [], [])


def test_a_chunk_that_is_not_wanted_any_more_is_left_in_the_midst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.engine.snapshot.WANTED_SECONDS", 0.0)
    given: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(1000):
            stand.wants = number < 3
            given.append(number)
            yield batch(number, 1)

    stand = Stand(tmp_path, batches)
    stand.run()
    assert given == [0, 1, 2, 3]
    assert (stand.marks, stand.found, stand.failures, stand.files()) == (["L"], [], [], [])


@pytest.mark.parametrize("hurried", [True, False])
def test_only_who_is_hurried_gives_up_a_chunk_that_outlasts_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hurried: bool
) -> None:
    monkeypatch.setattr("replicator.engine.snapshot.WANTED_SECONDS", 0.0)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            stand.in_time = number < 3
            yield batch(number, 1)

    stand = Stand(tmp_path, batches)
    stand.todo.append(ChunkToRead(2, 1, TABLE, "a1", KeyRange(), keyless=False))
    stand.run(lambda: hurried and not stand.in_time)
    assert [raw.rows for raw in stand.found] == ([] if hurried else [10])
    assert len(stand.todo) == 1  # the next one is for the next slice


def test_what_is_read_and_not_written_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size, alive, most = QUEUE_BYTES // 4, threading.Semaphore(0), [0]
    write_batch = pq.ParquetWriter.write_batch

    def slow(writer: Any, rows: pa.RecordBatch) -> None:
        alive.acquire(timeout=0.2)  # the reader has much time to read ahead
        write_batch(writer, rows)
        most[0] -= 1

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(12):
            most[0] += 1
            assert most[0] <= 5  # four under way, and the one that is made
            yield batch(number, 1, size)

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", slow)
    stand = Stand(tmp_path, batches)
    stand.run()
    assert [raw.rows for raw in stand.found] == [12]


def test_behind_a_block_all_is_done_or_after_its_failure_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_thread, "LOOK_SECONDS", 0.01)
    done: list[int] = []
    with behind("chunk", 10) as thread:
        for number in range(50):
            thread.put(lambda number=number: done.append(number), 3)  # type: ignore[misc]
    assert done == list(range(50))
    going, go = threading.Event(), threading.Event()

    def waits() -> None:
        going.set()
        go.wait(10)
        done.append(-1)

    def fail() -> None:
        with behind("chunk", 10) as thread:
            thread.put(waits)
            thread.put(lambda: done.append(-2))
            going.wait(10)
            threading.Timer(0.1, go.set).start()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert done[50:] == [-1]
