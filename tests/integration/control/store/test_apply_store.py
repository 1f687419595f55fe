"""The apply loop's view: what there is to do, marks, retries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from replicator.errors import FenceLost, TargetConflict, ValueDoesNotFit
from replicator.model.identifiers import TableId
from replicator.state.journal import Applied, EventKind, SchemaVersion, SegmentKind, TableEvent
from replicator.state.lease import Lease
from replicator.state.tables import TableState
from tests.integration.control.conftest import ITEMS, ORDERS, Captured, schema_of, segment
from webapp.monitoring.models import Failure, MetricMinute
from webapp.monitoring.slo.attainment import measure
from webapp.replicators.models import Replicator, ReplicatorTable, SegmentRow, TableEventRow
from webapp.worker.lease.lease_store import OrmLeaseStore
from webapp.worker.store.apply_store import OrmApplyStore, loads

pytestmark = pytest.mark.django_db
V1 = SchemaVersion(1, schema_of(ORDERS))


@pytest.fixture
def streaming(make: Any) -> Captured:
    """`shop.orders` streams; ten changes are journaled."""
    capture = Captured(make(initial_snapshot=False))
    capture.begin()
    capture.commit(next_sequence=10, schemas=(V1,), segments=(segment(ORDERS, 0, 9),))
    return capture


@pytest.fixture
def lease(streaming: Captured) -> Lease:
    found = OrmLeaseStore().acquire(f"merge:{streaming.replicator.pk}", "test")
    assert found is not None
    return found


def test_a_turn_that_does_not_fail_ends_what_had_failed(streaming: Captured, lease: Lease) -> None:
    """Also where it finds nothing to do: the table was made, empty, or all was applied, before the one that failed."""
    store = OrmApplyStore(streaming.replicator.pk)
    for applied in (False, True):
        store.tables()
        if applied:
            store.applied(lease, outcome(9))
        store.failed(lease, ORDERS, TargetConflict("in the way"))
        row = streaming.row(ORDERS)
        assert (row.attempt, row.retry_at is None) == (1, False)
        assert store.tables() == []
        ReplicatorTable.objects.update(retry_at=datetime.now(UTC) - timedelta(seconds=1))
        if not applied:
            TableEventRow.objects.all().delete()
            SegmentRow.objects.all().delete()
        assert [one.table for one in store.tables()] == [ORDERS]
        store.turned(lease, ORDERS)
        row = streaming.row(ORDERS)
        assert (row.attempt, row.retry_at, row.error_code, row.made_load) == (0, None, "", row.load)
        assert not Failure.objects.filter(resolved_at=None).exists()


@pytest.mark.parametrize(
    ("behind", "waited", "others_waited", "rows", "due"),
    [
        (120, 0, 0, 10, False),  # capture is two minutes behind, and more comes in
        (120, 5, 1, 10, False),
        (120, 11, 1, 10, True),  # long enough
        (120, 5, 2, 10, True),  # nothing more comes in
        (120, 0, 0, 50_000, True),  # enough
        (30, 0, 0, 10, True),  # fresh
    ],
)
def test_a_table_whose_capture_is_behind_waits_a_little_for_more(
    streaming: Captured, behind: float, waited: float, others_waited: float, rows: int, due: bool
) -> None:
    streaming.commit(next_sequence=20, schemas=(V1,), segments=(segment(ORDERS, 10, 19),))
    first, second = SegmentRow.objects.order_by("first_sequence")
    for row, seconds in ((first, waited), (second, others_waited)):
        row.created_at = datetime.now(UTC) - timedelta(seconds=seconds)
        row.last_commit_ts, row.rows = row.created_at - timedelta(seconds=behind), rows
        row.save()
    found = OrmApplyStore(streaming.replicator.pk, gather=True).tables()
    assert [one.table for one in found] == [ORDERS] * due
    assert OrmApplyStore(streaming.replicator.pk).tables()


def test_a_table_that_waits_for_more_keeps_no_other_from_its_turn(make: Any) -> None:
    capture = Captured(make(initial_snapshot=False, tables=(ORDERS, ITEMS)))
    capture.begin()
    both = V1, SchemaVersion(1, schema_of(ITEMS))
    capture.commit(next_sequence=20, schemas=both, segments=(segment(ORDERS, 0, 9), segment(ITEMS, 10, 19)))
    for row, behind in zip(SegmentRow.objects.order_by("first_sequence"), (120, 1), strict=True):
        row.last_commit_ts = row.created_at - timedelta(seconds=behind)
        row.save()
    found = OrmApplyStore(capture.replicator.pk, gather=True).tables(most=1)
    assert [one.table for one in found] == [ITEMS]


def outcome(applied: int, *, seconds_late: float = 2.0) -> Applied:
    return Applied(ORDERS, applied, -1, 0.5, "merge", datetime.now(UTC) + timedelta(seconds=seconds_late))


def test_a_table_with_pending_changes_has_something_to_do_until_they_are_applied(
    streaming: Captured, lease: Lease
) -> None:
    store = OrmApplyStore(streaming.replicator.pk)
    (table,) = store.tables()
    assert (table.table, table.target, table.schema_version) == (ORDERS, ("shop", "orders", ""), 1)
    assert [item.last_sequence for item in store.items(ORDERS, -1)] == [9]
    store.applied(lease, outcome(9))
    assert store.tables() == []
    row = streaming.row(ORDERS)
    assert (row.applied, row.rows_inserted) == (9, 10)
    assert row.queryable_at is not None
    late = row.queryable_at - row.applied_commit_ts
    assert late >= timedelta(seconds=1.9)
    assert abs((row.lag_ms or 0) - late / timedelta(milliseconds=1)) <= 1
    assert SegmentRow.objects.get().applied_at is not None
    metric = MetricMinute.objects.get(table=row)
    assert (metric.inserts, metric.merges, metric.events) == (10, 1, 10)
    tally = measure([streaming.replicator])[streaming.replicator.pk, None].tally("24h")
    assert (tally.good, tally.total) == (10, 10)


def test_every_event_is_counted_once_however_often_a_mark_is_made(streaming: Captured, lease: Lease) -> None:
    """A worker that died between the target's commit and the mark leaves the mark to the next one."""
    store = OrmApplyStore(streaming.replicator.pk)
    streaming.commit(next_sequence=20, segments=(segment(ORDERS, 10, 19),))
    store.tables()
    for applied in (9, 9, 19, 19):
        store.applied(lease, outcome(applied))
    row = streaming.row(ORDERS)
    assert row.rows_inserted == 20
    assert sum(metric.inserts for metric in MetricMinute.objects.filter(table=row)) == 20


def test_a_pass_covers_what_was_journaled_when_it_began(streaming: Captured) -> None:
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    streaming.commit(next_sequence=20, segments=(segment(ORDERS, 10, 19),))
    assert [item.last_sequence for item in store.items(ORDERS, -1)] == [9]
    store.tables()
    assert [item.last_sequence for item in store.items(ORDERS, -1)] == [9, 19]


def test_items_come_in_the_order_of_the_log(streaming: Captured) -> None:
    event = TableEvent(ORDERS, 10, EventKind.TRUNCATE_TABLE)
    streaming.commit(next_sequence=15, segments=(segment(ORDERS, 11, 14),), events=(event,))
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    kinds = [item.kind for item in store.items(ORDERS, -1)]
    assert kinds == [SegmentKind.LOG, EventKind.TRUNCATE_TABLE, SegmentKind.LOG]
    assert store.items(ORDERS, -1, chunks_only=True) == []


def test_a_stale_merge_worker_marks_nothing(streaming: Captured, lease: Lease) -> None:
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    OrmLeaseStore().release(lease)
    with pytest.raises(FenceLost):
        store.applied(lease, outcome(9))
    assert streaming.row(ORDERS).applied == -1


def test_a_failed_merge_is_tried_again_later_and_every_attempt_is_counted(streaming: Captured, lease: Lease) -> None:
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    for _ in range(2):
        store.failed(lease, ORDERS, TargetConflict("another writer"))
    row = streaming.row(ORDERS)
    assert (row.state, row.attempt, row.error_code) == ("streaming", 2, "target_conflict")
    assert store.tables() == []
    assert [f.attempt for f in Failure.objects.order_by("id")] == [1, 2]
    assert Failure.objects.first().last_sequence == 9
    ReplicatorTable.objects.update(retry_at=datetime.now(UTC) - timedelta(seconds=1))
    store.tables()
    store.applied(lease, outcome(9))
    row = streaming.row(ORDERS)
    assert (row.attempt, row.error_code) == (0, "")
    assert not Failure.objects.filter(resolved_at=None).exists()


def test_after_the_retry_time_the_table_fails(streaming: Captured, lease: Lease) -> None:
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    store.failed(lease, ORDERS, TargetConflict("another writer"))
    ReplicatorTable.objects.update(first_failure_at=datetime.now(UTC) - timedelta(minutes=31))
    store.failed(lease, ORDERS, TargetConflict("another writer"))
    row = streaming.row(ORDERS)
    assert (row.state, row.needs_reload) == ("failed", True)
    assert Replicator.objects.get().status != "failed"


def test_a_value_that_does_not_fit_fails_the_table_at_once(streaming: Captured, lease: Lease) -> None:
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    version = streaming.journal.plan_version()
    store.failed(lease, ORDERS, ValueDoesNotFit("too long", table=str(ORDERS)))
    assert streaming.row(ORDERS).state == "failed"
    assert streaming.journal.plan_version() > version


def test_a_table_renamed_during_a_pass_is_still_found(streaming: Captured, lease: Lease) -> None:
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    event = TableEvent(ORDERS, 10, EventKind.RENAME_TABLE, detail={"new": ["shop", "items"]})
    streaming.commit(next_sequence=11, events=(event,), renamed=((ORDERS, ITEMS),))
    store.applied(lease, outcome(9))
    assert streaming.row(ITEMS).applied == 9
    store.tables()
    (item,) = store.items(ITEMS, 9)
    assert isinstance(item, TableEvent)
    assert item.table == ORDERS


def test_a_load_announces_itself_before_there_is_anything_to_apply(captured: Captured) -> None:
    assert loads(captured.replicator.pk)
    ReplicatorTable.objects.update(state=TableState.STREAMING.value)
    assert not loads(captured.replicator.pk)


def test_the_end_of_a_load_moves_the_table_on(captured: Captured) -> None:
    lease = OrmLeaseStore().acquire(f"merge:{captured.replicator.pk}", "test")
    assert lease is not None
    store = OrmApplyStore(captured.replicator.pk)
    captured.commit(next_sequence=1, schemas=(V1,))
    captured.row(ORDERS).runs.update(state="done", planned_all=True)
    (table,) = store.tables()
    assert table.run_complete
    store.move(lease, ORDERS, TableState.STREAMING)
    row = captured.row(ORDERS)
    assert (row.state, row.load_complete) == ("streaming", True)


def test_the_end_of_a_load_that_was_started_over_moves_nothing(captured: Captured) -> None:
    from webapp.replicators import services

    lease = OrmLeaseStore().acquire(f"merge:{captured.replicator.pk}", "test")
    assert lease is not None
    store = OrmApplyStore(captured.replicator.pk)
    captured.commit(next_sequence=1, schemas=(V1,))
    captured.row(ORDERS).runs.update(state="done", planned_all=True)
    store.tables()
    services.resnapshot_table(table=captured.row(ORDERS))
    store.move(lease, ORDERS, TableState.STREAMING)
    assert captured.row(ORDERS).state == "loading"


def test_what_a_load_that_was_started_over_had_brought_is_not_the_new_one_s(captured: Captured) -> None:
    """Else the new load would look for these rows in the target, and say that they are lost (`TargetPosition`)."""
    from webapp.replicators import services

    lease = OrmLeaseStore().acquire(f"merge:{captured.replicator.pk}", "test")
    assert lease is not None
    store = OrmApplyStore(captured.replicator.pk)
    captured.commit(next_sequence=10, schemas=(V1,), segments=(segment(ORDERS, 0, 9, kind=SegmentKind.CHUNK),))
    store.tables()
    services.resnapshot_table(table=captured.row(ORDERS))
    store.applied(lease, Applied(ORDERS, -1, 9, 0.5, "append", datetime.now(UTC)))
    row = captured.row(ORDERS)
    assert (row.state, row.loaded, row.rows_read) == ("loading", -1, 10)
    assert SegmentRow.objects.get().applied_at is not None


def test_an_empty_new_table_is_made_once(streaming: Captured, lease: Lease) -> None:
    store = OrmApplyStore(streaming.replicator.pk)
    store.tables()
    store.applied(lease, outcome(9))
    streaming.commit(
        next_sequence=11,
        schemas=(SchemaVersion(1, schema_of(ITEMS)),),
        events=(TableEvent(ITEMS, 10, EventKind.CREATE_TABLE, 1),),
        created=(ITEMS,),
    )
    assert [table.table for table in store.tables()] == [ITEMS]
    store.turned(lease, ITEMS)
    assert store.tables() == []
    assert TableEventRow.objects.count() == 1


def test_a_table_that_was_dropped_and_created_again_during_its_turn_is_made_anew(
    streaming: Captured, lease: Lease
) -> None:
    """It is empty then, and no change would ever bring it up again."""
    store = OrmApplyStore(streaming.replicator.pk)
    (before,) = store.tables()
    streaming.commit(
        next_sequence=12,
        schemas=(SchemaVersion(2, schema_of(ORDERS)),),
        events=(TableEvent(ORDERS, 10, EventKind.DROP_TABLE), TableEvent(ORDERS, 11, EventKind.CREATE_TABLE, 2)),
        dropped=(ORDERS,),
        created=(ORDERS,),
    )
    store.applied(lease, outcome(9))
    store.turned(lease, ORDERS)
    (after,) = store.tables()
    assert after.load != before.load
    store.turned(lease, ORDERS)
    assert store.tables() == []


def test_the_end_of_a_load_does_not_bring_back_a_table_that_was_dropped_during_its_pass(captured: Captured) -> None:
    lease = OrmLeaseStore().acquire(f"merge:{captured.replicator.pk}", "test")
    assert lease is not None
    store = OrmApplyStore(captured.replicator.pk)
    captured.commit(next_sequence=1, schemas=(V1,))
    captured.row(ORDERS).runs.update(state="done", planned_all=True)
    store.tables()
    captured.commit(next_sequence=2, events=(TableEvent(ORDERS, 1, EventKind.DROP_TABLE),), dropped=(ORDERS,))
    store.move(lease, ORDERS, TableState.STREAMING)
    assert captured.row(ORDERS).state == "dropped"


@pytest.fixture
def two(make: Any) -> Captured:
    """`shop.orders` and `shop.items` stream; ten changes of each are journaled, those of `orders` first."""
    capture = Captured(make(initial_snapshot=False, tables=(ORDERS, ITEMS)))
    capture.begin()
    schemas = (V1, SchemaVersion(1, schema_of(ITEMS)))
    capture.commit(next_sequence=20, schemas=schemas, segments=(segment(ORDERS, 0, 9), segment(ITEMS, 10, 19)))
    SegmentRow.objects.filter(first_sequence=10).update(created_at=datetime.now(UTC) + timedelta(seconds=1))
    return capture


def test_the_table_whose_changes_wait_longest_comes_first(two: Captured) -> None:
    lease = OrmLeaseStore().acquire(f"merge:{two.replicator.pk}", "test")
    assert lease is not None
    two.commit(next_sequence=30, segments=(segment(ORDERS, 20, 29),))
    SegmentRow.objects.filter(first_sequence=20).update(created_at=datetime.now(UTC) + timedelta(seconds=2))
    store = OrmApplyStore(two.replicator.pk)
    assert [one.table for one in store.tables()] == [ORDERS, ITEMS]
    assert [one.table for one in store.tables(most=1)] == [ORDERS]
    assert [one.table for one in store.tables(without={ORDERS})] == [ITEMS]
    store.tables()
    store.applied(lease, outcome(9))
    assert [one.table for one in store.tables()] == [ITEMS, ORDERS]


def test_what_a_load_has_appended_already_does_not_wait(two: Captured) -> None:
    """A table that is loaded for hours would come before the others' changes every time."""
    old = ReplicatorTable.objects.filter(name="orders")
    old.update(state="loading", loaded=9, last_chunk_sequence=29)
    two.commit(next_sequence=30, segments=(segment(ORDERS, 20, 29, kind=SegmentKind.CHUNK),))
    SegmentRow.objects.filter(first_sequence=20).update(created_at=datetime.now(UTC) + timedelta(seconds=2))
    store = OrmApplyStore(two.replicator.pk)
    assert [one.table for one in store.tables()] == [ITEMS, ORDERS]
    old.update(loaded=-1)
    assert [one.table for one in store.tables()] == [ORDERS, ITEMS]


def test_a_turn_covers_what_was_journaled_when_it_began_whatever_turns_begin_meanwhile(
    streaming: Captured, lease: Lease
) -> None:
    store = OrmApplyStore(streaming.replicator.pk)
    assert [one.table for one in store.tables()] == [ORDERS]
    streaming.commit(next_sequence=20, segments=(segment(ORDERS, 10, 19),))
    assert store.tables({ORDERS}) == []
    assert [item.last_sequence for item in store.items(ORDERS, -1)] == [9]
    store.applied(lease, outcome(9))
    assert [one.applied for one in store.tables()] == [9]
    assert [item.last_sequence for item in store.items(ORDERS, 9)] == [19]


def test_no_turn_begins_beside_those_that_knew_other_tables(two: Captured) -> None:
    """Two tables would not agree about who has which name."""
    store = OrmApplyStore(two.replicator.pk)
    assert [one.table for one in store.tables(most=1)] == [ORDERS]
    ReplicatorTable.objects.filter(name="orders").update(made_load="the one wanted")
    assert [one.table for one in store.tables({ORDERS})] == [ITEMS]
    ReplicatorTable.objects.filter(name="items").update(load="another")
    assert store.tables({ORDERS}) == []
    (orders, items) = store.tables()
    assert (orders.table, items.load) == (ORDERS, "another")
    assert "another" in orders.others
    assert not any(load in orders.others for load in (orders.load, "the one wanted", ""))


def test_of_tables_that_share_a_target_table_one_has_a_turn_at_a_time(streaming: Captured) -> None:
    common = {"database": "shop", "state": TableState.STREAMING.value, "last_sequence": 9, "target_namespace": "lake"}
    names = [*(f"shard{n}" for n in range(20)), "other", "plain1", "plain2"]
    ReplicatorTable.objects.bulk_create(
        ReplicatorTable(
            replicator=streaming.replicator, name=name, target_name=name if name.startswith("plain") else "all",
            target_part="" if name.startswith("plain") else f"x={name}", **common,
        )
        for name in names
    )  # fmt: skip
    store = OrmApplyStore(streaming.replicator.pk)
    found = [table.table.name for table in store.tables(most=4)]
    assert sorted(found) == ["orders", "plain1", "plain2", "shard0"]
    assert "all" not in {table.target[1] for table in store.tables({TableId("shop", "shard0")}, most=4)}
    without = {TableId("shop", f"shard{n}") for n in range(3)}
    assert "shard3" in {table.table.name for table in store.tables(without=without, most=4)}
