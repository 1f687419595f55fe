"""Desired becomes actual; queues are not flooded; failures of a whole stage are counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from replicator.errors import (
    SourceAuthenticationFailed,
    SourceBusy,
    SourcePermissionDenied,
    SourceUnreachable,
    SparkUnavailable,
    StorageFull,
    TableBusy,
    TableNotRead,
    TidemarkError,
)
from replicator.sources.base import KeyRange
from replicator.state.chunks import PlannedChunk
from replicator.state.journal import SchemaVersion
from tests.integration.control.conftest import ITEMS, ORDERS, Captured, MemorySource, schema_of, segment
from webapp.monitoring.models import Failure, Stage, TimelineEvent
from webapp.replicators import services
from webapp.replicators.models import Replicator, Status
from webapp.replicators.options import ReplicatorOptions
from webapp.worker.failure.failures import clear_stage_failure, stage_failed
from webapp.worker.failure.retry_policy import backoff, decide
from webapp.worker.lease.lease_store import OrmLeaseStore
from webapp.worker.models import Dispatch
from webapp.worker.store.chunk_store import OrmChunkStore
from webapp.worker.supervisor import COPIES, dispatch_taken, supervise
from webapp.worker.upkeep import replicator_deletion

pytestmark = pytest.mark.django_db


class Sent(list[tuple[str, int]]):
    """What would be in the queues."""

    def __call__(self, task: str, replicator_id: int) -> None:
        self.append((task.removeprefix("tidemark."), replicator_id))

    def round(self) -> list[str]:
        """One supervisor round; the tasks it sent."""
        self.clear()
        supervise(self)
        return [task for task, _ in self]


@pytest.fixture
def sent() -> Sent:
    return Sent()


def test_a_started_replicator_is_handed_to_capture_once(make: Any, sent: Sent) -> None:
    make()
    assert sent.round() == ["capture_slice"]
    assert sent.round() == []


def test_a_message_that_was_never_taken_is_sent_again(make: Any, sent: Sent) -> None:
    make()
    sent.round()
    Dispatch.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert sent.round() == ["capture_slice"]


def test_nothing_is_sent_while_somebody_holds_the_lease_and_again_when_it_ends(make: Any, sent: Sent) -> None:
    replicator = make()
    sent.round()
    lease = OrmLeaseStore().acquire(f"capture:{replicator.pk}", "worker")
    assert lease is not None
    dispatch_taken(f"capture:{replicator.pk}")
    assert sent.round() == []
    OrmLeaseStore().release(lease)
    assert sent.round() == ["capture_slice"]


def test_a_lost_lease_is_offered_to_several(make: Any, sent: Sent) -> None:
    """The owner that is gone for the metadata database may still take messages from the broker."""
    replicator = make()
    sent.round()
    assert OrmLeaseStore().acquire(f"capture:{replicator.pk}", "worker", 0.01) is not None
    dispatch_taken(f"capture:{replicator.pk}")
    time.sleep(0.05)
    assert sent.round() == ["capture_slice"] * COPIES


def test_snapshot_and_merge_are_woken_when_there_is_something_to_do(captured: Captured, sent: Sent) -> None:
    assert sent.round() == ["snapshot_slice"]
    services.set_snapshot_paused(replicator=captured.replicator, paused=True)
    Dispatch.objects.all().delete()
    assert sent.round() == []
    captured.commit(next_sequence=10, schemas=(SchemaVersion(1, schema_of(ORDERS)),), segments=(segment(ORDERS, 0, 9),))
    captured.row(ORDERS).runs.update(state="done")
    assert sent.round() == ["merge_slice"]


def test_a_replicator_that_does_not_run_gets_nothing(make: Any, sent: Sent) -> None:
    replicator = make()
    services.stop_replicator(replicator=replicator)
    assert sent.round() == []


def test_paused_is_said_when_nothing_of_it_runs_any_more(make: Any, sent: Sent) -> None:
    replicator = make()
    lease = OrmLeaseStore().acquire(f"capture:{replicator.pk}", "worker")
    assert lease is not None
    services.pause_replicator(replicator=replicator)
    sent.round()
    assert Replicator.objects.get().status == Status.STOPPING
    OrmLeaseStore().release(lease)
    sent.round()
    assert Replicator.objects.get().status == Status.PAUSED
    assert TimelineEvent.objects.filter(kind="settled").count() == 1


def test_a_retryable_failure_waits_and_is_counted_and_recovers(captured: Captured, sent: Sent) -> None:
    pk = captured.replicator.pk
    OrmLeaseStore().release(captured.lease)
    stage_failed(pk, Stage.CAPTURE, SourceUnreachable("no route"))
    stage_failed(pk, Stage.CAPTURE, SourceUnreachable("no route"))
    replicator = Replicator.objects.get()
    assert (replicator.status, replicator.attempt, replicator.error_code) == (Status.RETRYING, 2, "source_unreachable")
    assert replicator.next_retry_at > timezone.now()
    assert "capture_slice" not in sent.round()
    Failure.objects.update(next_retry_at=timezone.now() - timedelta(seconds=1))
    assert "capture_slice" in sent.round()
    clear_stage_failure(pk, Stage.CAPTURE)
    replicator = Replicator.objects.get()
    assert (replicator.status, replicator.attempt, replicator.error_message) == (Status.RUNNING, 0, "")


def test_a_stage_that_works_does_not_hide_one_that_does_not(make: Any) -> None:
    replicator = make()
    stage_failed(replicator.pk, Stage.APPLY, SparkUnavailable("no java"))
    clear_stage_failure(replicator.pk, Stage.CAPTURE)
    assert Replicator.objects.get().status == Status.RETRYING


def test_after_the_retry_time_the_replicator_stops_and_says_why(make: Any, sent: Sent) -> None:
    replicator = make()
    stage_failed(replicator.pk, Stage.CAPTURE, SourceUnreachable("no route"))
    Failure.objects.update(at=timezone.now() - timedelta(minutes=31))
    stage_failed(replicator.pk, Stage.CAPTURE, SourceUnreachable("no route"))
    replicator.refresh_from_db()
    assert (replicator.status, replicator.error_message, replicator.attempt) == (Status.FAILED, "no route", 2)
    assert replicator.error_remedy
    assert sent.round() == []


def test_a_wrong_password_stops_at_once(make: Any) -> None:
    replicator = make()
    stage_failed(replicator.pk, Stage.CAPTURE, SourceAuthenticationFailed("Access denied"))
    replicator.refresh_from_db()
    assert (replicator.status, replicator.error_code) == (Status.FAILED, "source_authentication")


def test_backoff_doubles_up_to_a_minute() -> None:
    assert [backoff(n, jitter=0) for n in (1, 2, 3, 6, 7, 50)] == [1, 2, 4, 32, 60, 60]
    assert backoff(3, jitter=1) == 2


def test_no_retry_time_means_stop_at_the_second_failure() -> None:
    now = timezone.now()
    options = ReplicatorOptions(retry_minutes=0)
    verdict = decide(SourceUnreachable("x"), options, attempt=0, first_failure_at=None, now=now)
    assert verdict.retry_at is None


@pytest.mark.parametrize("kind", [SourceBusy, TableBusy, StorageFull])
def test_what_ends_when_others_end_is_waited_for_without_end(kind: type[TidemarkError]) -> None:
    now, options = timezone.now(), ReplicatorOptions(retry_minutes=0)
    verdict = decide(kind("x"), options, attempt=500, first_failure_at=now - timedelta(days=9), now=now)
    assert verdict.retry_at is not None
    assert timedelta(seconds=30) <= verdict.retry_at - now <= timedelta(seconds=60)


def test_a_tables_error_is_retried_as_long_as_any() -> None:
    """Then the table fails, with what the server said."""
    now, options = timezone.now(), ReplicatorOptions(retry_minutes=30)
    for minutes, again in ((29, True), (30, False)):
        verdict = decide(
            TableNotRead("x"), options, attempt=40, first_failure_at=now - timedelta(minutes=minutes), now=now
        )
        assert (verdict.retry_at is not None) is again


def test_what_a_server_answers_is_believed_at_the_third_time() -> None:
    now, options, denied = timezone.now(), ReplicatorOptions(), SourcePermissionDenied("SELECT denied")
    denied.of_server = True
    verdicts = [decide(denied, options, attempt=attempt, first_failure_at=now, now=now) for attempt in range(3)]
    assert [verdict.retry_at is not None for verdict in verdicts] == [True, True, False]


def test_deletion_waits_for_the_workers_and_leaves_nothing(
    captured: Captured, sent: Sent, settings: Any, tmp_path: Any
) -> None:
    replicator = captured.replicator
    services.delete_replicator(replicator=replicator)
    assert sent.round() == []
    assert not replicator_deletion.delete(replicator.pk)
    OrmLeaseStore().release(captured.lease)
    assert sent.round() == ["delete_replicator"]
    assert replicator_deletion.delete(replicator.pk)
    assert not Replicator.objects.exists()
    assert sent.round() == []


def refusing(error: TidemarkError) -> Callable[[MemorySource], None]:
    """What the source does when it is to be cleared."""

    def remove(source: MemorySource) -> None:
        del source
        raise error

    return remove


def test_a_source_that_does_not_answer_is_asked_again_before_the_replicator_is_gone(
    captured: Captured, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicator = captured.replicator
    OrmLeaseStore().release(captured.lease)
    Replicator.objects.filter(pk=replicator.pk).update(captured_at=timezone.now())
    services.delete_replicator(replicator=replicator)
    with monkeypatch.context() as patched:
        patched.setattr(MemorySource, "remove", refusing(SourceUnreachable("away")))
        assert not replicator_deletion.delete(replicator.pk)
        assert sent.round() == []  # its retry time is not there
    replicator.failures.update(next_retry_at=timezone.now())
    assert sent.round() == ["delete_replicator"]
    assert replicator_deletion.delete(replicator.pk)
    assert not Replicator.objects.exists()


def test_a_source_that_refuses_stops_the_deletion_until_the_user_leaves_it_as_it_is(
    captured: Captured, sent: Sent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    replicator = captured.replicator
    OrmLeaseStore().release(captured.lease)
    Replicator.objects.filter(pk=replicator.pk).update(captured_at=timezone.now())
    monkeypatch.setattr(MemorySource, "remove", refusing(SourcePermissionDenied("may not drop the slot")))
    services.delete_replicator(replicator=replicator)
    assert not replicator_deletion.delete(replicator.pk)
    replicator.refresh_from_db()
    assert replicator.status == Status.FAILED
    assert "without cleaning up the source" in replicator.error_remedy
    assert sent.round() == []
    services.delete_replicator(replicator=replicator, leave_source=True)
    assert sent.round() == ["delete_replicator"]
    assert replicator_deletion.delete(replicator.pk)
    assert f"r{replicator.pk}-{replicator.uid}" in caplog.text
    assert "may not drop the slot" in caplog.text


def test_a_replicator_that_never_read_its_source_is_deleted_without_it(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemorySource, "remove", refusing(SourceUnreachable("away")))
    replicator = make()
    services.delete_replicator(replicator=replicator)
    assert replicator_deletion.delete(replicator.pk)


def test_every_queue_has_an_exchange_of_its_own() -> None:
    """With one exchange and key for all, Redis hands every message to every queue."""
    from webapp.celery import QUEUES, app

    bound = {(queue.exchange.name, queue.routing_key) for queue in app.amqp.queues.values()}
    assert bound == {(name, name) for name in QUEUES}


def test_a_snapshot_that_no_worker_takes_says_what_it_waits_for(make: Any, sent: Sent) -> None:
    busy, waiting = Captured(make("busy")), Captured(make("waiting", tables=(ITEMS,)))
    for one in (busy, waiting):
        one.begin()
    assert OrmLeaseStore().acquire(f"snapshot:{busy.replicator.pk}", "worker") is not None
    store = OrmChunkStore(busy.replicator.pk)
    store.planned([PlannedChunk(run.run, None, KeyRange(), done=True) for run in store.to_plan()])
    assert store.claim("worker/0") is not None
    sent.round()
    assert "snapshot_slice" in [task for task, one in sent if one == waiting.replicator.pk]
    waiting.replicator.refresh_from_db()
    assert waiting.replicator.snapshot_waits == ""
    Dispatch.objects.update(until=timezone.now() - timedelta(seconds=1))
    sent.round()
    waiting.replicator.refresh_from_db()
    assert waiting.replicator.snapshot_waits == "a free snapshot worker; at work: busy (shop.orders)"
