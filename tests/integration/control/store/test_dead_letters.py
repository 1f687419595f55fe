"""Rows that cannot be decoded: journaled with their entry, counted, decided about, forgotten after a while."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User

from replicator.errors import ValueDoesNotFit
from replicator.model.change import Operation, UndecodableRow
from replicator.model.identifiers import TableId
from replicator.state.journal import DeadLetter, EventKind, ReloadRequest, SchemaVersion, TableEvent
from replicator.state.lease import Lease
from replicator.state.tables import TableState
from tests.integration.control.conftest import ORDERS, Captured, schema_of
from webapp.monitoring import models
from webapp.monitoring.dead_letters.services import discard, keys_read, replay
from webapp.monitoring.models import Resolution, TimelineEvent
from webapp.replicators.models import ReplicatorTable, RunState
from webapp.replicators.services.partial_snapshots import read_keys
from webapp.worker.lease.lease_store import OrmLeaseStore
from webapp.worker.store.apply_store import OrmApplyStore
from webapp.worker.upkeep.garbage_collection import _old_rows

pytestmark = pytest.mark.django_db
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def dead_letters(table: TableId, sequence: int, message: str = "v is no text\0") -> DeadLetter:
    error = ValueDoesNotFit(message, remedy="Mend it.", column="v")
    row = UndecodableRow(sequence, Operation.UPDATE, AT, "0-1-7", "bin.000001:44", error, b"\0\xff bytes", 99)
    return DeadLetter(table, sequence, row)


def stream(captured: Captured, table: TableId = ORDERS) -> ReplicatorTable:
    """As if its first load were over."""
    row = captured.row(table)
    row.runs.update(state=RunState.DONE, start_sequence=0)
    ReplicatorTable.objects.filter(pk=row.pk).update(state=TableState.STREAMING.value, load_complete=True, live_from=-1)
    return captured.row(table)


def waiting(table: ReplicatorTable) -> list[int]:
    return sorted(table.dead_letter_rows.filter(resolved_at=None).values_list("sequence", flat=True))


def test_a_dead_letter_row_is_kept_with_all_that_is_known_of_it(captured: Captured) -> None:
    table = stream(captured)
    captured.commit(next_sequence=9, dead_letters=(dead_letters(ORDERS, 5), dead_letters(ORDERS, 7)))
    table.refresh_from_db()
    assert (table.state, table.dead_letters, table.last_sequence) == ("streaming", 2, -1)
    row = models.DeadLetterRow.objects.get(sequence=5)
    assert (row.operation, row.offset, row.txn_id, row.commit_ts) == ("UPDATE", "bin.000001:44", "0-1-7", AT)
    assert (row.code, row.column, row.message, row.remedy) == (
        "value_does_not_fit",
        "v",
        "v is no text\ufffd",
        "Mend it.",
    )
    assert (bytes(row.data), row.size) == (b"\0\xff bytes", 99)
    assert {one.table: one.dead_letters for one in captured.journal.plan().tracked} == {ORDERS: 2}


def test_the_timeline_is_told_now_and_then_not_of_each_row(captured: Captured) -> None:
    stream(captured)
    first = 0
    for rows in (2, 6, 4, 30, 60, 5):
        captured.commit(
            next_sequence=first + rows, dead_letters=tuple(dead_letters(ORDERS, first + n) for n in range(rows))
        )
        first += rows
    told = TimelineEvent.objects.filter(kind="dead_letter_rows").order_by("id").values_list("summary", flat=True)
    assert [summary.split(" ", 1)[0] for summary in told] == ["2", "12", "102"]
    assert "missing in the target table of shop.orders: v is no text" in told[0]


def test_rows_belong_to_the_table_that_their_name_meant_at_their_place(captured: Captured) -> None:
    orders, archive = stream(captured), TableId("shop", "archive")
    renaming = TableEvent(ORDERS, 5, EventKind.RENAME_TABLE, detail={"new": ["shop", "archive"]})
    captured.commit(
        next_sequence=9,
        events=(renaming,),
        renamed=((ORDERS, archive),),
        dead_letters=(dead_letters(ORDERS, 4), dead_letters(archive, 6), dead_letters(TableId("shop", "unknown"), 7)),
    )
    orders.refresh_from_db()
    assert (orders.name, orders.dead_letters, waiting(orders)) == ("archive", 2, [4, 6])


def test_what_goes_with_its_table_does_not_wait(captured: Captured) -> None:
    table = stream(captured)
    captured.commit(next_sequence=5, dead_letters=(dead_letters(ORDERS, 4),))
    drop = TableEvent(ORDERS, 7, EventKind.DROP_TABLE)
    captured.commit(next_sequence=9, events=(drop,), dropped=(ORDERS,), dead_letters=(dead_letters(ORDERS, 6),))
    table.refresh_from_db()
    assert (table.state, table.dead_letters) == ("dropped", 0)
    assert list(table.dead_letter_rows.values_list("sequence", "resolution")) == [(4, Resolution.GONE)]


@pytest.mark.parametrize(("renamed", "known"), [({}, True), ({"tmp": "id"}, False), ({"a": "v"}, True), (None, False)])
def test_keys_that_may_be_another_columns_are_not_read(
    captured: Captured, renamed: dict[str, str] | None, known: bool
) -> None:
    """None: the row's key is of another column."""
    table = stream(captured)
    row = replace(dead_letters(ORDERS, 3).row, keys=({"id" if renamed is not None else "code": "7"}, {"id": "8"}))
    captured.commit(
        next_sequence=5, schemas=(SchemaVersion(1, schema_of(ORDERS)),), dead_letters=(DeadLetter(ORDERS, 3, row),)
    )
    table.schemas.update(change={"renamed": renamed or {}})
    run = replay(table=table)
    assert (run.scope, run.start_sequence) == ("keys" if known else "whole", 5)
    if known:
        assert [chunk.keys for chunk in run.chunks.all()] == [[["7"], ["8"]]]


def test_a_read_of_keys_resolves_the_dead_letters_of_them_before(captured: Captured) -> None:
    table = stream(captured)
    of = [({"id": "7"},), ({"id": "7"}, {"id": "8"}), ({"id": "9"},), (), ({"id": "7"},)]
    rows = [replace(dead_letters(ORDERS, n).row, keys=keys) for n, keys in enumerate(of)]
    first = tuple(DeadLetter(ORDERS, n, row) for n, row in enumerate(rows[:4]))
    captured.commit(next_sequence=4, schemas=(SchemaVersion(1, schema_of(ORDERS)),), dead_letters=first)
    run = read_keys(table=table, keys=[7, 8], tried=False)
    captured.commit(next_sequence=9, dead_letters=(DeadLetter(ORDERS, 4, rows[4]),))
    keys_read(captured.row(ORDERS), {run.pk})
    assert waiting(table) == [0, 1, 2, 3, 4]  # it is not over
    table.runs.filter(pk=run.pk).update(state=RunState.DONE)
    keys_read(captured.row(ORDERS), {run.pk})
    assert (waiting(table), captured.row(ORDERS).dead_letters) == ([2, 3, 4], 3)


@pytest.mark.parametrize("whole", [True, False])
def test_a_snapshot_resolves_the_dead_letters_before_it_began(captured: Captured, whole: bool) -> None:
    table = stream(captured)
    captured.commit(next_sequence=5, dead_letters=(dead_letters(ORDERS, 3), dead_letters(ORDERS, 4)))
    user = User.objects.create_superuser("ada")
    replay(table=table, user=user)
    run = table.runs.order_by("id").last()
    assert run is not None
    assert run.start_sequence == 5
    assert run.reason == "replay of its dead-letter rows, as a whole: the key of a dead-letter row is unknown."
    captured.commit(next_sequence=9, dead_letters=(dead_letters(ORDERS, 6),))
    table.refresh_from_db()
    assert (table.state, table.dead_letters) == ("reloading", 3)
    assert [one.dead_letters for one in captured.journal.plan().tracked] == [1]
    if not whole:
        from webapp.replicators.services import cancel_snapshot

        cancel_snapshot(table=table)
        assert waiting(table) == [3, 4, 6]
        return
    table.runs.filter(pk=run.pk).update(state=RunState.DONE)
    end_load(captured)
    table.refresh_from_db()
    assert (table.state, table.dead_letters, waiting(table)) == ("streaming", 1, [6])
    assert set(table.dead_letter_rows.exclude(resolved_at=None).values_list("resolution", flat=True)) == {"read_anew"}
    assert TimelineEvent.objects.get(kind="dead_letters_resolved").summary.startswith(
        "2 dead-letter rows of shop.orders resolved by"
    )


def end_load(captured: Captured) -> None:
    """As the apply loop does."""
    replicator = captured.row(ORDERS).replicator
    store = OrmApplyStore(replicator.pk)
    lease: Lease | None = OrmLeaseStore().acquire(f"merge:{replicator.pk}", "w", 60)
    assert lease is not None
    ReplicatorTable.objects.update(last_sequence=8)
    assert ORDERS in {one.table for one in store.tables()}
    store.move(lease, ORDERS, TableState.STREAMING)


def test_a_load_that_capture_asks_for_resolves_them_too(captured: Captured) -> None:
    table = stream(captured)
    captured.commit(next_sequence=5, dead_letters=(dead_letters(ORDERS, 3),))
    request = ReloadRequest(ORDERS, 6, fresh=True, reason="a statement")
    captured.commit(
        next_sequence=9, reloads=(request,), dead_letters=(dead_letters(ORDERS, 5), dead_letters(ORDERS, 8))
    )
    table.runs.filter(state=RunState.PLANNING).update(state=RunState.DONE)
    end_load(captured)
    table.refresh_from_db()
    assert (table.state, table.dead_letters, waiting(table)) == ("streaming", 1, [8])


def test_discarding_says_who_and_when(captured: Captured) -> None:
    table = stream(captured)
    captured.commit(next_sequence=9, dead_letters=tuple(dead_letters(ORDERS, number) for number in range(4)))
    user, version = User.objects.create_superuser("ada"), captured.journal.plan_version()
    first = table.dead_letter_rows.get(sequence=0)
    assert discard(table=table, rows=[first.pk], user=user) == 1
    assert discard(table=table, rows=[first.pk], user=user) == 0
    first.refresh_from_db()
    assert (first.resolution, first.resolved_by, first.resolved_at is not None) == ("discarded", user, True)
    assert captured.journal.plan_version() > version
    assert discard(table=table) == 3
    table.refresh_from_db()
    assert (table.dead_letters, TimelineEvent.objects.filter(kind="dead_letters_discarded").count()) == (0, 2)


def test_decided_ones_are_forgotten_after_a_while_and_waiting_ones_never(captured: Captured) -> None:
    table = stream(captured)
    captured.commit(next_sequence=9, dead_letters=tuple(dead_letters(ORDERS, number) for number in range(3)))
    discard(table=table, rows=[table.dead_letter_rows.get(sequence=0).pk])
    discard(table=table, rows=[table.dead_letter_rows.get(sequence=1).pk])
    now = datetime.now(UTC)
    models.DeadLetterRow.objects.update(at=now - timedelta(days=900))
    models.DeadLetterRow.objects.filter(sequence=0).update(resolved_at=now - timedelta(days=800))
    _old_rows(now)
    assert sorted(models.DeadLetterRow.objects.values_list("sequence", flat=True)) == [1, 2]
