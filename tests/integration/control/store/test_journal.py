"""One journal entry is one transaction, and means what it says."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import UnsupportedDdl
from replicator.model.identifiers import TableId
from replicator.sources.base import KeyRange
from replicator.staging.storage import Storage
from replicator.state.chunks import PlannedChunk
from replicator.state.journal import (
    ClosedChunk,
    EventKind,
    ReloadRequest,
    SchemaVersion,
    SegmentKind,
    TableEvent,
)
from replicator.state.tables import TableState
from tests.integration.control.conftest import ITEMS, ORDERS, Captured, schema_of, segment
from webapp.monitoring.models import Failure, MetricMinute
from webapp.replicators import services
from webapp.replicators.models import (
    ChunkRow,
    ChunkState,
    Replicator,
    ReplicatorTable,
    RunState,
    SegmentRow,
    SnapshotRun,
    TableEventRow,
)
from webapp.replicators.models import SchemaVersion as SchemaVersionRow
from webapp.replicators.selection.entries import SelectionEntry
from webapp.replicators.services.tables import skip_table
from webapp.worker.run import wiring
from webapp.worker.store import journal_commit
from webapp.worker.store.chunk_store import OrmChunkStore
from webapp.worker.store.journal import OrmJournal
from webapp.worker.upkeep import garbage_collection
from webapp.worker.upkeep.garbage_collection import collect

pytestmark = pytest.mark.django_db
V1 = SchemaVersion(1, schema_of(ORDERS))


def test_the_first_plan_has_no_checkpoint_and_the_next_one_resumes(captured: Captured) -> None:
    captured.commit(next_sequence=7)
    plan = captured.journal.plan()
    assert plan.wanted
    assert plan.checkpoint is not None
    assert (plan.checkpoint.next_sequence, plan.checkpoint.identity) == (7, "server-1")


def test_a_followed_table_gets_its_initial_load(captured: Captured) -> None:
    row = captured.row(ORDERS)
    assert (row.state, row.tracked, row.live_from) == ("loading", True, -1)
    run = row.runs.get()
    assert (run.state, run.rows_estimate) == (RunState.PLANNING, 10)


def test_without_initial_snapshot_a_followed_table_streams_at_once(make: Any) -> None:
    capture = Captured(make(initial_snapshot=False))
    capture.commit(next_sequence=5)
    capture.begin()
    row = capture.row(ORDERS)
    assert (row.state, row.live_from, row.runs.count()) == ("streaming", 4, 0)


def test_tables_of_a_whole_database_are_found_once_there_is_a_checkpoint(make: Any) -> None:
    replicator = make(tables=(TableId("shop", ""),))
    capture = Captured(replicator)
    assert capture.journal.plan().tracked == ()
    capture.begin()
    assert {row.table_id for row in replicator.tables.all()} == {ORDERS, ITEMS}
    assert all(row.tracked for row in replicator.tables.all())


def test_discovery_changes_the_plan_version_so_that_capture_starts_over(make: Any) -> None:
    capture = Captured(make(tables=(TableId("shop", ""),)))
    capture.commit(next_sequence=0)
    plan = capture.journal.plan()
    assert capture.journal.plan_version() > plan.version
    again = capture.journal.plan()
    assert capture.journal.plan_version() == again.version


def test_segments_schemas_and_checkpoint_are_written_together(captured: Captured) -> None:
    captured.commit(next_sequence=10, schemas=(V1,), segments=(segment(ORDERS, 0, 9),))
    row = captured.row(ORDERS)
    assert (row.last_sequence, row.schema_version, row.keyless) == (9, 1, False)
    assert SegmentRow.objects.get().table == row
    assert SchemaVersionRow.objects.get().parsed == V1.schema
    assert MetricMinute.objects.get(table=None).events == 10


def test_a_commit_that_fails_late_leaves_nothing_behind(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Replicator.objects.get()

    def fail(*_: object) -> None:
        message = "the last step"
        raise RuntimeError(message)

    monkeypatch.setattr(journal_commit, "count_captured", fail)
    with pytest.raises(RuntimeError):
        captured.commit(next_sequence=10, schemas=(V1,), segments=(segment(ORDERS, 0, 9),))
    after = Replicator.objects.get()
    assert (after.checkpoint_offset, after.next_sequence) == (before.checkpoint_offset, before.next_sequence)
    assert not SegmentRow.objects.exists()
    assert captured.row(ORDERS).last_sequence == -1


def test_commits_of_capture_do_not_change_its_plan(captured: Captured) -> None:
    version = captured.journal.plan_version()
    error = UnsupportedDdl("what is this", table=str(ORDERS))
    captured.commit(next_sequence=1, schemas=(V1,), segments=(segment(ORDERS, 0, 0),), failures=((ORDERS, error),))
    assert captured.journal.plan_version() == version


def test_a_failure_stops_its_table_with_reason_and_remedy(captured: Captured) -> None:
    error = UnsupportedDdl("what is this", remedy="do that", table=str(ORDERS))
    captured.commit(next_sequence=1, failures=((ORDERS, error),))
    row = captured.row(ORDERS)
    assert (row.state, row.error_code, row.error_message, row.error_remedy) == (
        "failed", "unsupported_ddl", "what is this", "do that",
    )  # fmt: skip
    assert Failure.objects.get().table == row
    assert SnapshotRun.objects.get().state == RunState.CANCELLED
    plan = captured.journal.plan()
    assert ORDERS not in plan.tables
    assert plan.tracked == ()
    assert Replicator.objects.get().status != "failed"


def test_a_table_that_came_and_cannot_be_replicated_is_shown_with_the_reason(captured: Captured) -> None:
    """No row is there that it could be the failure of; one that is not selected (any more) gets none."""
    came, other = TableId("shop", "came"), TableId("elsewhere", "came")
    services.add_tables(replicator=captured.replicator, selection=[SelectionEntry("shop")])
    error = UnsupportedDdl("what is this", remedy="do that")
    captured.commit(next_sequence=1, failures=((came, error), (other, error)))
    row = captured.row(came)
    assert (row.state, row.error_message, row.error_remedy) == ("failed", "what is this", "do that")
    assert not ReplicatorTable.objects.filter(database="elsewhere").exists()


def test_a_failure_stops_the_replicator_where_its_option_says_so(make: Any) -> None:
    capture = Captured(make(on_table_failure="stop"))
    capture.begin()
    capture.commit(next_sequence=1, failures=((ORDERS, UnsupportedDdl("what is this", table=str(ORDERS))),))
    replicator = Replicator.objects.get()
    assert (replicator.status, replicator.error_message) == ("failed", "what is this")
    assert not capture.journal.plan().wanted


def test_created_again_after_a_drop_in_one_entry_means_created(captured: Captured) -> None:
    events = (
        TableEvent(ORDERS, 3, EventKind.DROP_TABLE),
        TableEvent(ORDERS, 4, EventKind.CREATE_TABLE, 2),
    )
    captured.commit(
        next_sequence=5,
        schemas=(SchemaVersion(2, schema_of(ORDERS)),),
        events=events,
        created=(ORDERS,),
        dropped=(ORDERS,),
    )
    row = captured.row(ORDERS)
    assert (row.state, row.live_from, row.tracked) == ("streaming", 4, True)
    assert not row.runs.exclude(state=RunState.CANCELLED).exists()


def test_what_a_dropped_table_had_goes_with_it_where_another_takes_its_name_in_the_same_entry(make: Any) -> None:
    ghost = TableId("shop", "ghost")
    capture = Captured(make(tables=(ORDERS, ghost), initial_snapshot=False))
    capture.begin()
    kept = capture.row(ghost).pk
    events = (
        TableEvent(ORDERS, 5, EventKind.DROP_TABLE),
        TableEvent(ghost, 10, EventKind.RENAME_TABLE, detail={"new": ["shop", "orders"]}),
    )
    capture.commit(
        next_sequence=20,
        schemas=(V1, SchemaVersion(1, schema_of(ghost))),
        segments=(segment(ORDERS, 0, 4), segment(ghost, 6, 9), segment(ORDERS, 12, 15)),
        events=events,
        dropped=(ORDERS,),
        renamed=((ghost, ORDERS),),
    )
    assert [row.pk for row in ReplicatorTable.objects.all()] == [kept]
    assert list(SegmentRow.objects.order_by("first_sequence").values_list("first_sequence", flat=True)) == [6, 12]
    (event,) = TableEventRow.objects.all()
    assert (event.table_id, event.detail["replaces_dropped"]) == (kept, True)


def test_a_dropped_table_waits_for_the_apply_loop(captured: Captured) -> None:
    captured.commit(next_sequence=4, events=(TableEvent(ORDERS, 3, EventKind.DROP_TABLE),), dropped=(ORDERS,))
    row = captured.row(ORDERS)
    assert (row.state, row.last_sequence) == ("dropped", 3)


def test_a_table_swap_in_one_statement_keeps_every_row_with_its_own_table(make: Any) -> None:
    """RENAME TABLE orders TO old, ghost TO orders, with changes before and after it in the same entry."""
    ghost, old = TableId("shop", "ghost"), TableId("shop", "old")
    capture = Captured(make(tables=(ORDERS, ghost), initial_snapshot=False))
    capture.begin()
    was_orders, was_ghost = capture.row(ORDERS).pk, capture.row(ghost).pk
    renames = (
        TableEvent(ORDERS, 10, EventKind.RENAME_TABLE, detail={"new": ["shop", "old"]}),
        TableEvent(ghost, 11, EventKind.RENAME_TABLE, detail={"new": ["shop", "orders"]}),
    )
    capture.commit(
        next_sequence=20,
        schemas=(V1, SchemaVersion(1, schema_of(ghost, extra=("note",)))),
        segments=(
            segment(ORDERS, 0, 4), segment(ghost, 5, 9),
            segment(ORDERS, 12, 15, version=1), segment(old, 16, 19),
        ),
        events=renames,
        renamed=((ORDERS, old), (ghost, ORDERS)),
    )  # fmt: skip
    assert (capture.row(old).pk, capture.row(ORDERS).pk) == (was_orders, was_ghost)
    firsts = {
        pk: sorted(SegmentRow.objects.filter(table_id=pk).values_list("first_sequence", flat=True))
        for pk in (was_orders, was_ghost)
    }
    assert firsts == {was_orders: [0, 16], was_ghost: [5, 12]}
    assert TableEventRow.objects.get(sequence=10).name == "orders"
    assert SchemaVersionRow.objects.get(table_id=was_ghost).parsed.names == ("id", "name", "note")
    assert old in capture.journal.plan().tables


def test_a_reload_of_a_loading_table_starts_its_load_over(captured: Captured) -> None:
    before = captured.row(ORDERS)
    captured.commit(next_sequence=9, schemas=(V1,), reloads=(ReloadRequest(ORDERS, 8, fresh=True, reason="ALTER"),))
    row = captured.row(ORDERS)
    assert (row.state, row.live_from) == ("loading", 8)
    assert row.load != before.load
    assert [run.state for run in row.runs.order_by("id")] == [RunState.CANCELLED, RunState.PLANNING]


def test_a_reload_of_a_streaming_table_keeps_it_readable(make: Any) -> None:
    capture = Captured(make(initial_snapshot=False))
    capture.begin()
    before = capture.row(ORDERS)
    capture.commit(next_sequence=9, schemas=(V1,), reloads=(ReloadRequest(ORDERS, 8, fresh=False, reason="ALTER"),))
    row = capture.row(ORDERS)
    assert (row.state, row.load, row.runs.get().start_sequence) == ("reloading", before.load, 8)


def _swapped(captured: Captured, first: int) -> None:
    swap = TableId(ORDERS.database, "swap")
    moves = ((ORDERS, swap), (ITEMS, ORDERS), (swap, ITEMS))
    events = tuple(
        TableEvent(old, first + n, EventKind.RENAME_TABLE, detail={"new": [new.database, new.name]})
        for n, (old, new) in enumerate(moves)
    )
    captured.commit(next_sequence=first + 3, events=events, renamed=moves)


@pytest.mark.parametrize("times", [1, 2])
def test_a_reload_planned_by_a_name_that_meant_another_table_is_planned_anew(make: Any, times: int) -> None:
    """Its end key was the other table's: no row was read, and the sweep took what was in the target."""
    capture = Captured(make(tables=(ORDERS, ITEMS), initial_snapshot=False))
    capture.begin()
    requests = tuple(ReloadRequest(table, 8, fresh=False, reason="ALTER") for table in (ORDERS, ITEMS))
    capture.commit(next_sequence=9, schemas=(V1, SchemaVersion(1, schema_of(ITEMS))), reloads=requests)
    row = capture.row(ORDERS)
    planned = row.runs.get()
    OrmChunkStore(row.replicator_id).planned([PlannedChunk(planned.pk, ("32",), KeyRange(None, ("32",)), done=True)])
    for n in range(times):  # back and forth: the name is right again, the bounds are not
        _swapped(capture, 10 + 10 * n)
    row.refresh_from_db()
    assert (row.name, row.state, row.load_complete) == ("items" if times == 1 else "orders", "reloading", True)
    planned.refresh_from_db()
    assert planned.state == RunState.CANCELLED
    assert planned.chunks.get().state == ChunkState.CANCELLED
    anew = row.runs.exclude(state=RunState.CANCELLED).get()
    assert (anew.state, anew.started, anew.end_key) == (RunState.PLANNING, False, None)


def test_a_load_whose_table_is_renamed_behind_captures_back_begins_anew(captured: Captured) -> None:
    before = captured.row(ORDERS)
    new = TableId("shop", "new")
    event = TableEvent(ORDERS, 5, EventKind.RENAME_TABLE, detail={"new": ["shop", "new"]})
    captured.commit(next_sequence=6, events=(event,), renamed=((ORDERS, new),))
    row = captured.row(new)
    assert (row.state, row.live_from) == ("loading", 5)
    assert row.load != before.load
    assert [run.state for run in row.runs.order_by("id")] == [RunState.CANCELLED, RunState.PLANNING]


def test_a_keyless_table_is_always_loaded_afresh(make: Any) -> None:
    capture = Captured(make(initial_snapshot=False))
    capture.begin()
    keyless = SchemaVersion(1, schema_of(ORDERS, key=()))
    capture.commit(next_sequence=1, schemas=(keyless,))
    capture.commit(next_sequence=9, reloads=(ReloadRequest(ORDERS, 8, fresh=False, reason="ALTER"),))
    assert capture.row(ORDERS).table_state is TableState.LOADING


def test_a_reload_of_an_unknown_table_makes_its_row(captured: Captured) -> None:
    captured.commit(
        next_sequence=12,
        schemas=(SchemaVersion(1, schema_of(ITEMS)),),
        segments=(segment(ITEMS, 9, 11),),
        reloads=(ReloadRequest(ITEMS, 8, fresh=True, reason="came by a race"),),
    )
    row = captured.row(ITEMS)
    assert (row.state, row.tracked, row.schema_version, row.last_sequence) == ("loading", True, 1, 11)


def test_changes_of_a_table_removed_meanwhile_are_left_out(captured: Captured) -> None:
    ReplicatorTable.objects.all().delete()
    captured.commit(next_sequence=10, schemas=(V1,), segments=(segment(ORDERS, 0, 9),))
    assert not SegmentRow.objects.exists()
    assert Replicator.objects.get().next_sequence == 10


@pytest.mark.parametrize("how", ["made", "read again"])
def test_a_table_that_an_entry_brings_back_after_it_was_taken_out_is_a_new_one(make: Any, how: str) -> None:
    """The entry was under way: changes between its end and the table's return are not read."""
    captured = Captured(make(tables=(ORDERS, ITEMS)))
    captured.begin()
    services.remove_table(replicator=captured.replicator, table=ORDERS)
    if how == "made":
        made = TableEvent(ORDERS, 5, EventKind.CREATE_TABLE, 2)
        schemas = (SchemaVersion(2, schema_of(ORDERS), 5),)
        captured.commit(next_sequence=10, schemas=schemas, events=(made,), created=(ORDERS,))
    else:
        captured.commit(next_sequence=10, reloads=(ReloadRequest(ORDERS, 9, fresh=True, reason="a race"),))
    assert captured.row(ORDERS).tracked
    assert [one.table for one in captured.journal.plan().tracked] == [ITEMS]
    services.add_tables(replicator=captured.replicator, selection=[SelectionEntry(ORDERS.database, ORDERS.name)])
    row = captured.row(ORDERS)
    assert (row.table_state, row.tracked, row.last_sequence) == (TableState.WAITING, False, -1)


@pytest.mark.parametrize("how", ["made", "made again", "read again"])
def test_a_table_that_waits_to_be_taken_otherwise_waits_on_beyond_an_entry_under_way(make: Any, how: str) -> None:
    """Else rows that were read under the selection before, without its masks, would stay in the target."""
    captured = Captured(make(tables=(ORDERS, ITEMS), initial_snapshot=False))
    captured.begin()
    line = SelectionEntry(ORDERS.database, ORDERS.name, excluded_columns=("name",))
    services.add_tables(replicator=captured.replicator, selection=[line])
    assert (captured.row(ORDERS).tracked, captured.row(ORDERS).state) == (False, "reloading")
    schemas = (SchemaVersion(2, schema_of(ORDERS), 5),)
    if how == "read again":
        captured.commit(next_sequence=10, reloads=(ReloadRequest(ORDERS, 9, fresh=True, reason="a statement"),))
    else:
        again, kinds = how == "made again", {4: EventKind.DROP_TABLE, 5: EventKind.CREATE_TABLE}
        events = tuple(TableEvent(ORDERS, at, kind, 2) for at, kind in kinds.items() if again or at == 5)
        dropped = (ORDERS,) if again else ()
        captured.commit(next_sequence=10, schemas=schemas, events=events, created=(ORDERS,), dropped=dropped)
    row = captured.row(ORDERS)
    assert (row.tracked, row.table_state, row.load_complete) == (False, TableState.LOADING, False)
    captured.begin()
    row = captured.row(ORDERS)
    assert (row.tracked, row.live_from) == (True, 9)
    assert row.runs.get(state=RunState.PLANNING).start_sequence == 10


def test_a_table_that_was_skipped_meanwhile_stays_so(captured: Captured) -> None:
    services.add_tables(replicator=captured.replicator, selection=[SelectionEntry(ITEMS.database, ITEMS.name)])
    skip_table(table=captured.row(ORDERS))
    made = TableEvent(ORDERS, 5, EventKind.CREATE_TABLE, 2)
    captured.commit(
        next_sequence=10, schemas=(SchemaVersion(2, schema_of(ORDERS), 5),), events=(made,), created=(ORDERS,)
    )
    assert captured.row(ORDERS).table_state is TableState.SKIPPED


def _chunk(captured: Captured, **values: Any) -> ChunkRow:
    run = captured.row(ORDERS).runs.get()
    SnapshotRun.objects.filter(pk=run.pk).update(state=RunState.READING, planned_all=True)
    return ChunkRow.objects.create(
        run=run, number=1, state=ChunkState.READ, attempt="a1", rows=3, path="r/raw", **values
    )


def test_an_admitted_chunk_enters_the_journal_and_ends_its_run(captured: Captured) -> None:
    chunk = _chunk(captured)
    rows = segment(ORDERS, 0, 2, kind=SegmentKind.CHUNK)
    captured.commit(next_sequence=3, schemas=(V1,), closed=(ClosedChunk(chunk.pk, chunk.run_id, "a1", rows),))
    run = SnapshotRun.objects.get()
    assert (run.state, run.rows_read) == (RunState.DONE, 3)
    assert SegmentRow.objects.get().kind == "chunk"
    assert captured.row(ORDERS).last_chunk_sequence == 2
    assert captured.journal.remaining_chunks(run.pk) == 0


@pytest.mark.parametrize(("path", "discarded"), [("r/other", ["r/raw"]), ("r/raw", [])])
def test_a_raw_file_goes_where_its_rows_were_written_anew(
    captured: Captured, path: str, discarded: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    """And stays where it is the segment itself: the journal says how its rows are numbered."""
    found: list[str] = []
    captured.journal = OrmJournal(captured.replicator.pk, discard=found.append)
    chunk = _chunk(captured)
    rows = replace(segment(ORDERS, 0, 2, kind=SegmentKind.CHUNK), path=path, bare=not discarded, without=(1,))
    with django_capture_on_commit_callbacks(execute=True):
        captured.commit(next_sequence=3, schemas=(V1,), closed=(ClosedChunk(chunk.pk, chunk.run_id, "a1", rows),))
    assert found == discarded
    row = SegmentRow.objects.get()
    assert (row.path, row.bare, row.without) == (path, not discarded, [1])


def test_an_admitted_chunks_file_is_no_garbage_and_a_cancelled_ones_is(
    captured: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, old = Storage(tmp_path.as_uri()), time.time() - 7200
    monkeypatch.setattr(garbage_collection, "storage", lambda: storage)
    label = wiring.label(captured.replicator)
    for name in ("raw", "admitted", "cancelled"):
        file = tmp_path / label / "chunks" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (old, old))
    chunk = _chunk(captured)
    ChunkRow.objects.filter(pk=chunk.pk).update(path=f"{label}/chunks/admitted")
    run = {"run": chunk.run, "attempt": "a1", "rows": 3}
    ChunkRow.objects.create(**run, number=2, state=ChunkState.READ, path=f"{label}/chunks/raw")
    ChunkRow.objects.create(**run, number=3, state=ChunkState.CANCELLED, path=f"{label}/chunks/cancelled")
    rows = replace(segment(ORDERS, 0, 2, kind=SegmentKind.CHUNK), path=f"{label}/chunks/admitted", bare=True)
    captured.commit(next_sequence=3, schemas=(V1,), closed=(ClosedChunk(chunk.pk, chunk.run_id, "a1", rows),))
    assert collect()["files"] == 1
    assert sorted(file.name for file in (tmp_path / label / "chunks").iterdir()) == ["admitted", "raw"]


def test_rows_of_a_reading_that_is_no_longer_wanted_do_not_enter_the_journal(captured: Captured) -> None:
    chunk = _chunk(captured)
    rows = segment(ORDERS, 0, 2, kind=SegmentKind.CHUNK)
    captured.commit(next_sequence=3, schemas=(V1,), closed=(ClosedChunk(chunk.pk, chunk.run_id, "older", rows),))
    chunk.refresh_from_db()
    assert chunk.state == ChunkState.READ
    assert not SegmentRow.objects.exists()


def test_a_reopened_chunk_is_planned_again(captured: Captured) -> None:
    chunk = _chunk(captured)
    captured.commit(next_sequence=0, reopened=((chunk.pk, "a1"),))
    chunk.refresh_from_db()
    assert (chunk.state, chunk.attempt) == (ChunkState.PLANNED, "")


def test_a_keyless_chunk_gets_the_place_its_rows_stand_for(captured: Captured) -> None:
    chunk = _chunk(captured, keyless=True)
    captured.commit(next_sequence=6, bases={(chunk.run_id, "a1"): 5})
    chunk.refresh_from_db()
    assert chunk.base_sequence == 5
    assert captured.row(ORDERS).live_from == 5


def test_a_keyless_chunk_may_get_its_place_and_be_admitted_in_one_entry(captured: Captured) -> None:
    """Else the log's changes before that place would be applied on top of rows that hold them already."""
    chunk = _chunk(captured, keyless=True)
    rows = segment(ORDERS, 6, 8, kind=SegmentKind.CHUNK)
    captured.commit(
        next_sequence=9,
        schemas=(SchemaVersion(1, schema_of(ORDERS, key=())),),
        segments=(segment(ORDERS, 0, 5),),
        bases={(chunk.run_id, "a1"): 5, (chunk.run_id, "a0"): 8},  # of a reader that had stood still, and came last
        closed=(ClosedChunk(chunk.pk, chunk.run_id, "a1", rows),),
    )
    row = captured.row(ORDERS)
    assert (row.live_from, row.keyless) == (5, True)
    assert SnapshotRun.objects.get().state == RunState.DONE


def test_a_version_belongs_to_the_table_that_had_its_name_where_it_began(captured: Captured) -> None:
    """Two tables swap names in one entry, so that one name has a version 2 of either table."""
    captured.commit(next_sequence=3, events=(TableEvent(ITEMS, 2, EventKind.CREATE_TABLE),), created=(ITEMS,))
    one, other = captured.row(ORDERS).pk, captured.row(ITEMS).pk
    swap = TableId(ORDERS.database, "swap")
    moves = ((ORDERS, swap), (ITEMS, ORDERS), (swap, ITEMS))
    events = tuple(
        TableEvent(old, 10 + n, EventKind.RENAME_TABLE, detail={"new": [new.database, new.name]})
        for n, (old, new) in enumerate(moves)
    )
    versions = (
        SchemaVersion(2, schema_of(ORDERS, extra=("first",)), begins=5),
        SchemaVersion(2, schema_of(ORDERS, extra=("second",)), begins=12),
    )
    captured.commit(next_sequence=20, schemas=versions, events=events, renamed=moves)
    found = {row.table_id: row.parsed.names[-1] for row in SchemaVersionRow.objects.filter(version=2)}
    assert found == {one: "first", other: "second"}
