"""Chunks are claimed once, belong to one attempt, and stop when they are no longer wanted."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection as database
from django.db import transaction
from django.utils import timezone

from replicator.errors import SourceUnreachable, TableDisappeared, UnsupportedType
from replicator.snapshot.sizing import GROWTH, START_ROWS
from replicator.sources.base import KeyRange
from replicator.state.chunks import ChunkToRead, PlannedChunk, RawChunk
from tests.integration.control.conftest import ORDERS, Captured, schema_of
from webapp.replicators import services
from webapp.replicators.models import ChunkRow, ChunkState, Replicator, RunState, SnapshotRun
from webapp.worker.store import chunk_store
from webapp.worker.store.chunk_store import (
    MERGED_AHEAD,
    MERGED_ROWS,
    READ_AHEAD,
    READ_AHEAD_BYTES,
    OrmChunkStore,
    has_work,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def store(captured: Captured) -> OrmChunkStore:
    return OrmChunkStore(captured.replicator.pk)


def plan(store: OrmChunkStore, count: int = 3, *, done: bool = True) -> int:
    """`count` chunks of the one run; its id."""
    (run,) = store.to_plan()
    keys = [None, *((str(n),) for n in range(1, count + 1))]
    for n in range(count):
        bounds = KeyRange(keys[n], keys[n + 1])
        store.planned([PlannedChunk(run.run, (str(count),), bounds, done=done and n == count - 1)])
    return run.run


def raw(chunk: ChunkToRead, rows: int = 10) -> RawChunk:
    return RawChunk(chunk, f"r/chunks/{chunk.attempt}", rows, 100, 0.5, schema_of(ORDERS))


def test_a_run_is_planned_from_where_it_stands(store: OrmChunkStore) -> None:
    (run,) = store.to_plan()
    assert (run.started, run.position, run.chunk_rows, run.ahead) == (False, None, START_ROWS, 0)
    plan(store, 2, done=False)
    (run,) = store.to_plan()
    assert (run.started, run.position, run.end, run.ahead) == (True, ("2",), ("2",), 2)


def test_two_planners_of_one_place_store_it_once(store: OrmChunkStore) -> None:
    run = plan(store, 2, done=False)
    store.planned([PlannedChunk(run, ("9",), KeyRange(None, ("1",)), done=False)])
    store.planned([PlannedChunk(run, ("9",), KeyRange(("1",), ("2",)), done=False)])
    assert ChunkRow.objects.count() == 2


def test_an_untracked_table_is_not_planned(store: OrmChunkStore, captured: Captured) -> None:
    captured.replicator.tables.update(tracked=False)
    assert store.to_plan() == []
    assert not has_work(captured.replicator.pk)


@pytest.mark.django_db(transaction=True)
def test_threads_claim_every_chunk_once(store: OrmChunkStore) -> None:
    plan(store, 12)
    claimed: list[int] = []

    def work(owner: str) -> None:
        try:
            while (chunk := store.claim(owner)) is not None:
                claimed.append(chunk.chunk)
        finally:
            database.close()

    threads = [threading.Thread(target=work, args=(f"lease/{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == sorted(ChunkRow.objects.values_list("id", flat=True))


def test_a_chunk_whose_reader_is_gone_is_claimed_again_under_another_attempt(store: OrmChunkStore) -> None:
    plan(store, 1)
    first = store.claim("lease/a", seconds=-1)
    second = store.claim("lease/b")
    assert first is not None
    assert second is not None
    assert second.chunk == first.chunk
    assert second.attempt != first.attempt
    assert not store.wanted(first)
    assert not store.read(raw(first))
    assert store.read(raw(second))


def test_no_more_chunks_are_handed_out_while_capture_has_enough_to_admit(store: OrmChunkStore) -> None:
    plan(store, READ_AHEAD + 2)
    for _ in range(READ_AHEAD):
        chunk = store.claim("lease/a")
        assert chunk is not None
        store.read(replace(raw(chunk), size=READ_AHEAD_BYTES // READ_AHEAD))
    assert store.claim("lease/a") is None


def test_more_chunks_are_handed_out_where_they_are_small(store: OrmChunkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 3 * READ_AHEAD
    monkeypatch.setattr(chunk_store, "MAX_READ_AHEAD", most)
    plan(store, most + READ_AHEAD)
    claimed = 0
    while (chunk := store.claim("lease/a")) is not None:
        store.read(raw(chunk))
        claimed += 1
    assert most <= claimed < most + READ_AHEAD // 2


def test_chunk_size_follows_the_reading(store: OrmChunkStore) -> None:
    run = plan(store, 1)
    chunk = store.claim("lease/a")
    assert chunk is not None
    store.read(replace(raw(chunk, rows=START_ROWS), seconds=0.01))
    assert SnapshotRun.objects.get(pk=run).chunk_rows == START_ROWS * GROWTH


@pytest.mark.parametrize("fresh", [True, False])
def test_what_is_merged_among_changes_is_read_as_fast_as_it_is_merged(
    store: OrmChunkStore, captured: Captured, *, fresh: bool
) -> None:
    """A first load is appended, and nothing waits behind it."""
    run = plan(store, 3)
    SnapshotRun.objects.filter(pk=run).update(fresh=fresh, chunk_rows=MERGED_ROWS)
    row = captured.row(ORDERS)
    first = store.claim("lease/a")
    assert first is not None
    store.read(replace(raw(first, rows=MERGED_ROWS), seconds=0.01))
    assert (SnapshotRun.objects.get(pk=run).chunk_rows > MERGED_ROWS) == fresh
    segment = {"kind": "chunk", "schema_version": 1, "path": "x", "size": 1}  # beside `first`, which is on its way
    row.segments.create(first_sequence=50, last_sequence=99, rows=MERGED_AHEAD - MERGED_ROWS, **segment)
    assert (store.claim("lease/a") is not None) == fresh
    assert has_work(captured.replicator.pk, "lease") == fresh
    type(row).objects.filter(pk=row.pk).update(applied=99)
    assert store.claim("lease/a") is not None


@pytest.mark.parametrize("how", [services.pause_replicator, services.stop_replicator])
def test_a_paused_replicator_wants_no_chunk(store: OrmChunkStore, captured: Captured, how: Any) -> None:
    plan(store, 2)
    chunk = store.claim("lease/a")
    assert chunk is not None
    how(replicator=captured.replicator)
    assert not store.wanted(chunk)
    assert store.claim("lease/a") is None
    assert ChunkRow.objects.get(pk=chunk.chunk).state == ChunkState.PLANNED


def test_paused_snapshots_wait_while_capture_goes_on(store: OrmChunkStore, captured: Captured) -> None:
    plan(store, 2)
    services.set_snapshot_paused(replicator=captured.replicator, paused=True)
    assert store.claim("lease/a") is None
    assert captured.journal.plan().wanted
    services.set_snapshot_paused(replicator=captured.replicator, paused=False)
    assert store.claim("lease/a") is not None


def test_a_resnapshot_cancels_what_is_being_read(store: OrmChunkStore, captured: Captured) -> None:
    plan(store, 2)
    chunk = store.claim("lease/a")
    assert chunk is not None
    services.resnapshot_table(table=captured.row(ORDERS))
    assert not store.wanted(chunk)
    assert not store.read(raw(chunk))


@pytest.mark.django_db(transaction=True)
def test_chunks_whose_planner_commits_while_their_run_is_cancelled_go_with_it(
    store: OrmChunkStore, captured: Captured
) -> None:
    """Seen: one stayed PLANNED, was claimed and read, and its rows were appended beside those of the run that took its
    place.
    """
    planned = threading.Event()

    def work() -> None:
        try:
            with transaction.atomic():
                plan(store, 2)
                planned.set()
                wait_for_a_lock()
        finally:
            database.close()

    planner = threading.Thread(target=work)
    planner.start()
    assert planned.wait(10)
    services.resnapshot_table(table=captured.row(ORDERS))
    planner.join()
    assert set(ChunkRow.objects.values_list("state", flat=True)) == {ChunkState.CANCELLED}


def wait_for_a_lock() -> None:
    """Until some other connection waits for what this one holds."""
    deadline = time.monotonic() + 10
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    while time.monotonic() < deadline:
        with database.cursor() as cursor:
            cursor.execute(waiting)
            if cursor.fetchone()[0]:
                return
        time.sleep(0.01)
    raise AssertionError("Nobody waits.")


def test_an_unreachable_source_is_not_the_tables_fault(store: OrmChunkStore, captured: Captured) -> None:
    plan(store, 1)
    chunk = store.claim("lease/a")
    assert chunk is not None
    store.failed(chunk, SourceUnreachable("gone"))
    row = ChunkRow.objects.get()
    assert (row.state, row.failures) == (ChunkState.PLANNED, 0)
    assert row.retry_at is not None
    assert captured.row(ORDERS).state == "loading"
    assert store.blamed == []


def test_an_unsupported_type_stops_the_table(store: OrmChunkStore, captured: Captured) -> None:
    plan(store, 1)
    chunk = store.claim("lease/a")
    assert chunk is not None
    error = UnsupportedType("what is a FROB?", table=str(ORDERS))
    store.failed(chunk, error)
    row = captured.row(ORDERS)
    assert (row.state, row.error_message) == ("failed", "what is a FROB?")
    assert SnapshotRun.objects.get().state == RunState.CANCELLED
    assert store.blamed == [error]


def test_a_table_that_disappeared_may_still_be_dropped_by_the_log(store: OrmChunkStore, captured: Captured) -> None:
    (run,) = store.to_plan()
    store.run_failed(run, TableDisappeared("where is it?", table=str(ORDERS)))
    assert captured.row(ORDERS).state == "loading"
    assert store.to_plan() == []
    SnapshotRun.objects.update(first_failure_at=timezone.now() - timedelta(seconds=31), retry_at=None)
    (run,) = store.to_plan()
    store.run_failed(run, TableDisappeared("where is it?", table=str(ORDERS)))
    assert captured.row(ORDERS).state == "loading"  # capture has not read that far: the DROP may still come
    Replicator.objects.update(source_ts=timezone.now())
    SnapshotRun.objects.update(retry_at=None)
    (run,) = store.to_plan()
    store.run_failed(run, TableDisappeared("where is it?", table=str(ORDERS)))
    assert captured.row(ORDERS).state == "failed"


def test_a_chunk_whose_high_mark_was_never_written_is_read_again(store: OrmChunkStore, captured: Captured) -> None:
    plan(store, 1)
    chunk = store.claim("lease/a")
    assert chunk is not None
    store.read(raw(chunk))
    assert store.claim("lease/b") is None
    now = timezone.now()
    ChunkRow.objects.update(read_at=now - timedelta(minutes=5))
    Replicator.objects.update(source_ts=now - timedelta(minutes=6))
    assert store.claim("lease/b") is None  # capture has not read that far yet
    Replicator.objects.update(source_ts=now)
    assert store.claim("lease/b") is not None


def test_a_new_holder_of_the_lease_takes_over_at_once_what_was_being_read(store: OrmChunkStore) -> None:
    plan(store, 1)
    first = store.claim("dead/0")
    second = store.claim("lease/0")
    assert first is not None
    assert second is not None
    assert (second.chunk, second.staged) == (first.chunk, False)
    assert not store.read(raw(first))


def test_a_new_holder_of_the_lease_marks_what_was_staged_once_more(store: OrmChunkStore, captured: Captured) -> None:
    """Whether its reader lived to write the high mark is not known; without it the chunk would never be admitted."""
    plan(store, 1)
    first = store.claim("dead/0")
    assert first is not None
    store.read(raw(first))
    assert store.claim("lease/0") is None  # it may be on its way through the log
    ChunkRow.objects.update(read_at=timezone.now() - timedelta(seconds=4))
    assert has_work(captured.replicator.pk)
    assert has_work(captured.replicator.pk, "lease")
    assert not has_work(captured.replicator.pk, "dead")
    second = store.claim("lease/0")
    assert second is not None
    assert (second.attempt, second.staged) == (first.attempt, True)
    assert store.claim("lease/1") is None
    assert ChunkRow.objects.get().state == ChunkState.READ


def test_what_a_reader_brings_that_slept_for_long_is_not_taken(store: OrmChunkStore) -> None:
    """Its file is so old that it may be taken for garbage between the journal's row and the segment's."""
    plan(store, 1)
    chunk = store.claim("lease/0")
    assert chunk is not None
    ChunkRow.objects.update(claimed_until=timezone.now() - timedelta(minutes=16))
    assert not store.read(raw(chunk))
    assert store.claim("lease/0") is not None
