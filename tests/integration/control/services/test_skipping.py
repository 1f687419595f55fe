"""A table that a user skips is not captured, does not fail, and comes back only when it is resumed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from replicator.errors import (
    ConfigurationError,
    SourcePermissionDenied,
    SourceReplaced,
    TargetConflict,
    TargetError,
    TargetTableGone,
    TargetUnauthorized,
    TidemarkError,
    UnsupportedDdl,
    UnsupportedType,
    ValueDoesNotFit,
    ValuesLost,
)
from replicator.model.masks import parse_masks
from replicator.sources.base import KeyRange
from replicator.state.chunks import PlannedChunk
from replicator.state.journal import ReloadRequest
from replicator.state.tables import TableState
from tests.integration.control.conftest import ITEMS, ORDERS, Captured
from webapp.monitoring.models import Failure, Stage, TimelineEvent
from webapp.replicators import services
from webapp.replicators.models import RunState, SnapshotRun
from webapp.replicators.selection.entries import SelectionEntry
from webapp.replicators.selectors import is_current, table_set
from webapp.replicators.services.replicators import go_on
from webapp.worker.failure.failures import READ_ANEW, fail_table, stop_replicator, table_attempt_failed
from webapp.worker.lease.lease_store import OrmLeaseStore
from webapp.worker.store.apply_store import OrmApplyStore
from webapp.worker.store.chunk_store import OrmChunkStore

pytestmark = [pytest.mark.django_db, pytest.mark.integration]


def state(captured: Captured) -> tuple[str, bool]:
    row = captured.row(ORDERS)
    return row.state, row.tracked


@pytest.fixture
def skipped(captured: Captured, user: User) -> Captured:
    fail_table(captured.row(ORDERS), Stage.APPLY, TargetError("no"))
    services.skip_table(table=captured.row(ORDERS), user=user)
    return captured


def test_a_skipped_table_is_neither_captured_nor_read_nor_counted_as_failed(skipped: Captured) -> None:
    assert state(skipped) == ("skipped", False)
    plan = skipped.journal.plan()
    assert (plan.tracked, ORDERS in table_set(skipped.replicator)) == ((), False)
    assert set(SnapshotRun.objects.values_list("state", flat=True)) == {RunState.CANCELLED}
    assert OrmChunkStore(skipped.replicator.pk).to_plan() == []
    assert Failure.objects.get().resolved_at is not None
    assert skipped.row(ORDERS).error_message == ""
    assert is_current(skipped.replicator)
    told = TimelineEvent.objects.get(kind="table_skipped")
    assert (told.table, told.user and told.user.username) == ("shop.orders", "ann")


def test_what_capture_still_has_to_say_of_it_changes_nothing(skipped: Captured) -> None:
    skipped.commit(next_sequence=20, reloads=(ReloadRequest(ORDERS, 10, fresh=True, reason="a statement changed it"),))
    skipped.commit(next_sequence=30, failures=((ORDERS, UnsupportedType("no")),))
    assert state(skipped) == ("skipped", False)
    assert Failure.objects.count() == 1


def test_what_a_turn_under_way_says_of_it_changes_nothing(captured: Captured) -> None:
    captured.replicator.tables.update(
        state=TableState.STREAMING.value, schema_version=1, load_complete=True, last_sequence=20
    )
    store = OrmApplyStore(captured.replicator.pk)
    (turn,) = store.tables(set())
    services.skip_table(table=captured.row(ORDERS))
    lease = OrmLeaseStore().acquire(f"merge:{captured.replicator.pk}", "test")
    assert lease is not None
    store.failed(lease, turn.table, UnsupportedType("no"))
    assert state(captured) == ("skipped", False)
    assert not Failure.objects.exists()


def test_only_resuming_brings_it_back_and_reads_it_anew(skipped: Captured, user: User) -> None:
    services.retry_replicator(replicator=skipped.replicator)
    services.start_anew(replicator=skipped.replicator)
    assert state(skipped) == ("skipped", False)
    services.resume_table(table=skipped.row(ORDERS), user=user)
    assert state(skipped) == ("loading", False)
    run = SnapshotRun.objects.order_by("-id")[0]
    assert (run.state, run.reason) == (RunState.PLANNING, "it was skipped and is resumed")
    skipped.begin()
    assert state(skipped) == ("loading", True)
    with pytest.raises(ConfigurationError, match="is not skipped"):
        services.resume_table(table=skipped.row(ORDERS))


def test_a_whole_copy_stays_readable_when_it_is_resumed(captured: Captured) -> None:
    captured.replicator.tables.update(state=TableState.STREAMING.value, load_complete=True)
    services.skip_table(table=captured.row(ORDERS))
    services.resume_table(table=captured.row(ORDERS))
    assert state(captured)[0] == "reloading"


def test_what_masks_a_column_of_a_skipped_table_makes_its_copy_again(captured: Captured) -> None:
    """In the modes that keep older rows their plain values would stay for ever."""
    captured.replicator.tables.update(state=TableState.STREAMING.value, load_complete=True, mode="history")
    services.skip_table(table=captured.row(ORDERS))
    masked = SelectionEntry(ORDERS.database, ORDERS.name, masks=parse_masks({"name": "null"}))
    services.add_tables(replicator=captured.replicator, selection=[masked])
    services.resume_table(table=captured.row(ORDERS))
    assert state(captured)[0] == "loading"


@pytest.mark.parametrize(
    ("stage", "error", "again"),
    [
        (Stage.APPLY, ValueDoesNotFit("too long"), "loading"),
        (Stage.APPLY, UnsupportedDdl("no such column"), "loading"),
        (Stage.APPLY, TargetTableGone("gone"), "reloading"),
        (Stage.APPLY, TargetError("away"), "reloading"),
        (Stage.CAPTURE, UnsupportedDdl("stopped by policy"), "reloading"),
    ],
)
def test_what_cannot_be_applied_is_passed_by_another_copy_only(
    captured: Captured, stage: Stage, error: TidemarkError, again: str
) -> None:
    """It stays in the journal, before all that a resnapshot brings."""
    for act in (
        lambda: services.resnapshot_table(table=captured.row(ORDERS)),
        lambda: services.retry_table(table=captured.row(ORDERS)),
        lambda: (
            services.skip_table(table=captured.row(ORDERS)),
            services.resume_table(table=captured.row(ORDERS)),
        ),
    ):
        captured.replicator.tables.update(state=TableState.STREAMING.value, load_complete=True)
        fail_table(captured.row(ORDERS), stage, error)
        act()
        assert state(captured)[0] == again


def test_what_another_copy_loses_is_said(captured: Captured) -> None:
    captured.replicator.tables.update(state=TableState.STREAMING.value, load_complete=True, mode="history")
    fail_table(captured.row(ORDERS), Stage.APPLY, ValueDoesNotFit("too long", remedy="Shorten it, then resnapshot."))
    assert captured.row(ORDERS).error_remedy == (
        "Shorten it, then resnapshot. A resnapshot then makes the copy again: its earlier versions are lost."
    )


def test_another_mode_makes_the_copy_of_a_failed_table_again(captured: Captured) -> None:
    captured.replicator.tables.update(state=TableState.STREAMING.value, load_complete=True)
    fail_table(captured.row(ORDERS), Stage.CAPTURE, UnsupportedDdl("its key is gone"))
    services.change_mode(table=captured.row(ORDERS), mode="changelog", confirmed=True)
    assert (state(captured), captured.row(ORDERS).error_code) == (("loading", False), "")


def test_the_others_go_on(make: Any) -> None:
    capture = Captured(make(tables=(ORDERS, ITEMS)))
    capture.begin()
    services.skip_table(table=capture.row(ORDERS))
    assert [one.table for one in capture.journal.plan().tracked] == [ITEMS]
    (run,) = OrmChunkStore(capture.replicator.pk).to_plan()
    assert run.table == ITEMS


def test_what_is_gone_cannot_be_skipped(captured: Captured) -> None:
    captured.replicator.tables.update(state=TableState.DROPPED.value)
    with pytest.raises(ConfigurationError, match="no longer exists in the source"):
        services.skip_table(table=captured.row(ORDERS))


def test_a_chunk_that_is_being_read_is_not_wanted_any_more(captured: Captured) -> None:
    store = OrmChunkStore(captured.replicator.pk)
    (run,) = store.to_plan()
    store.planned([PlannedChunk(run.run, ("9",), KeyRange(None, ("9",)), done=True)])
    chunk = store.claim("w/1")
    assert chunk is not None
    services.skip_table(table=captured.row(ORDERS))
    assert not store.wanted(chunk)


def test_what_is_no_longer_retried_does_not_say_that_it_is(captured: Captured) -> None:
    long_ago = timezone.now() - timedelta(minutes=31)
    captured.replicator.tables.update(state=TableState.STREAMING.value, attempt=9, first_failure_at=long_ago)
    table_attempt_failed(captured.row(ORDERS), Stage.APPLY, TargetConflict("Another writer."))
    row = captured.row(ORDERS)
    assert (row.state, "Retried automatically" in row.error_remedy) == ("failed", False)
    assert row.error_remedy.endswith(
        "Retries ended after 30 minutes: select Retry once the cause is gone. It resumes automatically once the"
        " destination Lakehouse is changed or its test passes."
    )


def test_a_table_that_was_read_anew_too_often_says_so(captured: Captured) -> None:
    captured.replicator.tables.update(state=TableState.STREAMING.value, load_complete=True)
    for _ in range(READ_ANEW + 1):
        assert captured.row(ORDERS).state != "failed"
        table_attempt_failed(captured.row(ORDERS), Stage.APPLY, ValuesLost("no value"))
    row = captured.row(ORDERS)
    assert (row.state, row.error_remedy) == (
        "failed", "It was resnapshotted 10 times within an hour. Resnapshot it once the cause is gone."
    )  # fmt: skip


def test_a_replicator_whose_source_was_replaced_goes_on_when_its_connection_is_right_again(captured: Captured) -> None:
    stop_replicator(captured.replicator, SourceReplaced("Another server answers."), Stage.CAPTURE)
    fresh = captured.replicator
    fresh.refresh_from_db()
    assert "resumes automatically once the connection" in fresh.error_remedy
    go_on(endpoint=fresh.connection, why="its test passes")
    fresh.refresh_from_db()
    assert (fresh.status, fresh.error_code) == ("starting", "")


@pytest.mark.parametrize(
    ("stage", "error", "place"),
    [
        (Stage.APPLY, TargetConflict("Another writer."), "destination"),
        (Stage.APPLY, ConfigurationError("The bucket is missing."), "destination"),
        (Stage.SNAPSHOT, SourcePermissionDenied("No SELECT."), "connection"),
    ],
)
def test_tables_that_failed_for_an_endpoint_are_read_again_when_it_is_right_again(
    captured: Captured, stage: Stage, error: TidemarkError, place: str
) -> None:
    captured.replicator.tables.update(state=TableState.STREAMING.value, load_complete=True)
    fail_table(captured.row(ORDERS), stage, error)
    replicator = captured.replicator
    other = replicator.connection if place == "destination" else replicator.destination
    go_on(endpoint=other, why="its test passes")
    assert state(captured)[0] == ("failed" if error.code != ConfigurationError.code else "reloading")
    go_on(endpoint=getattr(replicator, place), why="its test passes")
    assert (state(captured)[0], captured.row(ORDERS).error_code) == ("reloading", "")
    event = TimelineEvent.objects.filter(kind="retried").latest("id")
    assert (event.summary, event.detail) == ("Resumed automatically: its test passes", {"tables": [str(ORDERS)]})


def test_a_replicator_that_its_destination_stopped_goes_on_when_that_is_right_again(captured: Captured) -> None:
    stop_replicator(captured.replicator, TargetUnauthorized("The token has expired."), Stage.APPLY)
    go_on(endpoint=captured.replicator.connection, why="its test passes")
    captured.replicator.refresh_from_db()
    assert captured.replicator.status == "failed"
    go_on(endpoint=captured.replicator.destination, why="its test passes")
    captured.replicator.refresh_from_db()
    assert captured.replicator.status == "starting"


def test_what_failed_for_a_reason_of_its_own_is_left_alone(captured: Captured) -> None:
    fail_table(captured.row(ORDERS), Stage.APPLY, ValueDoesNotFit("too long"))
    for endpoint in (captured.replicator.connection, captured.replicator.destination):
        go_on(endpoint=endpoint, why="its test passes")
    assert state(captured)[0] == "failed"


def test_a_setting_that_is_corrected_tries_the_tables_again_that_failed_for_it(captured: Captured) -> None:
    captured.replicator.tables.update(state=TableState.STREAMING.value, load_complete=True)
    fail_table(captured.row(ORDERS), Stage.APPLY, ConfigurationError("partition_by names a column that is not there."))
    services.update_target(replicator=captured.replicator, target={"sort_by": "shop.orders: id"})
    assert (state(captured)[0], captured.row(ORDERS).error_message) == ("reloading", "")
    fail_table(captured.row(ORDERS), Stage.APPLY, UnsupportedType("no"))
    services.update_target(replicator=captured.replicator, target={"sort_by": "shop.orders: name"})
    assert state(captured)[0] == "failed"


def test_a_target_that_stops_a_replicator_is_not_said_to_be_the_connections(captured: Captured) -> None:
    stop_replicator(captured.replicator, ConfigurationError("The bucket is missing."), Stage.APPLY)
    fresh = captured.replicator
    fresh.refresh_from_db()
    assert fresh.error_remedy == (
        f"{ConfigurationError.default_remedy} It resumes automatically once the destination Lakehouse is changed or its"
        " test passes."
    )
