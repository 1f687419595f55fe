"""Broker and metadata database go away and come back: nothing waits longer than it must, and the count is honest."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connection
from kombu.exceptions import OperationalError as BrokerUnreachable

from webapp.monitoring.models import Failure, Stage
from webapp.replicators.models import Replicator, Status
from webapp.worker import tasks
from webapp.worker.lease.lease_store import live_leases
from webapp.worker.models import Dispatch
from webapp.worker.run import headless, work_slice
from webapp.worker.supervisor import supervise

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_could_not_be_sent_is_sent_in_the_next_round(make: Any) -> None:
    replicator = make()

    def away(task: str, replicator_id: int) -> None:
        raise BrokerUnreachable("Connection refused")

    with pytest.raises(BrokerUnreachable):
        supervise(away)
    assert not Dispatch.objects.exists()
    sent: list[tuple[str, int]] = []
    supervise(lambda *message: sent.append(message))
    assert sent == [("tidemark.capture_slice", replicator.pk)]


def test_a_round_without_a_broker_ends_in_one_line(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    make()  # the tests' REDIS_URL leads nowhere
    tasks.supervise()
    assert [(record.levelname, record.exc_info) for record in caplog.records] == [("ERROR", None)]
    assert caplog.records[0].getMessage().startswith("Supervisor round: ")


def test_a_channel_that_breaks_inside_kombu_is_a_broker_that_is_away(
    make: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Seen when Redis was killed while a message was on its way: kombu's closed channel has no connection to ask."""
    make()

    def broken(*_: object, **__: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'client'")

    monkeypatch.setattr(tasks.app, "send_task", broken)
    tasks.supervise()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert (
        caplog.records[0]
        .getMessage()
        .startswith("Supervisor round: The broker did not accept tidemark.capture_slice: AttributeError")
    )
    assert not Dispatch.objects.exists()


def test_a_cut_connection_is_a_counted_failure_with_its_right_name(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    replicator = make()

    def cut(*_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    monkeypatch.setitem(work_slice.WORK, Stage.SNAPSHOT, cut)
    assert work_slice.run_slice(Stage.SNAPSHOT, replicator.pk) is False
    failure = Failure.objects.get(replicator=replicator)
    assert (failure.stage, failure.code, failure.attempt) == ("snapshot", "state", 1)
    assert failure.next_retry_at is not None
    replicator.refresh_from_db()
    assert replicator.status == Status.RETRYING
    assert live_leases() == set()


def test_a_headless_run_that_ends_while_the_database_is_away_settles_when_it_is_back(make: Any) -> None:
    replicator = make()
    Replicator.objects.update(status=Status.RUNNING)
    run = headless.HeadlessRun(replicator)
    with connection.cursor() as cursor, pytest.raises(OperationalError):
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert not run._settled()
    assert run._settled()
    assert Replicator.objects.get().status == Status.STOPPED
