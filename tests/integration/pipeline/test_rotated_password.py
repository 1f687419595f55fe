"""What stopped because of its connection resumes automatically once that is put right."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from replicator.errors import LogPurged, SourceAuthenticationFailed, SourcePermissionDenied, SourceUnreachable
from replicator.sources.base import CheckResult, CheckStatus
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.test_stopping import Slice, wait
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.database import clock
from webapp.monitoring.models import LogLine, Stage, TimelineEvent
from webapp.replicators import services
from webapp.replicators.models import Replicator, Status
from webapp.worker.failure.failures import fail_table, retry_ahead, stage_failed
from webapp.worker.run.work_slice import run_slice

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def user(lab: Lab) -> Any:
    """A separate user of the source."""
    name = lab.name
    lab.execute(f"CREATE USER {name} IDENTIFIED BY 'first'", f"GRANT ALL ON *.* TO {name}")
    yield name
    lab.execute(f"DROP USER {name}")


def failed(lab: Lab, user: str) -> Replicator:
    """Its password was rotated behind its back."""
    lab.execute("CREATE TABLE t (id int PRIMARY KEY)")
    lab.connection(user=user, password="first")
    replicator = lab.replicate("t")
    lab.execute(f"ALTER USER {user} IDENTIFIED BY 'second'")
    while not retry_ahead(replicator.pk, Stage.CAPTURE, clock()) and lab.replicator.status != Status.FAILED:
        assert not run_slice(Stage.CAPTURE, replicator.pk, seconds=1)
    while lab.replicator.status != Status.FAILED:
        run_slice(Stage.CAPTURE, replicator.pk, seconds=1)
    return lab.replicator


def captures(replicator: Replicator) -> None:
    capture = Slice(Stage.CAPTURE, replicator.pk)
    wait(Replicator.objects.filter(pk=replicator.pk, status=Status.RUNNING).exists)
    capture.end()


def test_it_goes_on_with_the_new_password(lab: Lab, user: str) -> None:
    replicator = failed(lab, user)
    assert "resumes automatically once the connection" in replicator.error_remedy
    line = LogLine.objects.filter(replicator=replicator, level="error").latest("id")
    assert "resumes automatically" in line.detail["remedy"]
    assert line.detail["next"].startswith("stopped")
    connection = replicator.connection
    connections.update_connection(connection=connection, config={**connection.config, "password": "second"})
    assert lab.replicator.status == Status.STARTING
    assert TimelineEvent.objects.filter(kind="retried", summary__contains="was changed").exists()
    captures(replicator)


def test_it_goes_on_when_the_source_takes_the_old_password_again_and_the_test_passes(lab: Lab, user: str) -> None:
    replicator = failed(lab, user)
    connection = replicator.connection
    connections.test_connection(kind=connection.kind, config={}, connection=connection)
    assert lab.replicator.status == Status.FAILED
    lab.execute(f"ALTER USER {user} IDENTIFIED BY 'first'")
    connections.test_connection(kind=connection.kind, config={"port": "1", "password": "first"}, connection=connection)
    assert lab.replicator.status == Status.FAILED
    connections.test_connection(kind=connection.kind, config={}, connection=connection)
    assert lab.replicator.status == Status.STARTING
    captures(replicator)


def checked(replicator: Replicator, name: str) -> CheckResult:
    """One line of the connection test of a replicator that exists."""
    connection = Connection.objects.get(pk=replicator.connection_id)
    results = connections.test_connection(kind=connection.kind, config={}, connection=connection)
    return next(result for result in results if result.name == name)


def test_the_test_of_a_connection_is_of_the_tables_that_are_read_too(lab: Lab) -> None:
    lab.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE denied (id int PRIMARY KEY, secret int)",
        f"CREATE USER {lab.name} IDENTIFIED BY 'least'",
        f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {lab.name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON tidemark.* TO {lab.name}",
        f"GRANT SELECT ON {lab.database}.t TO {lab.name}",
    )  # fmt: skip
    try:
        connection = lab.connection(user=lab.name, password="least")
        connections.test_connection(kind=connection.kind, config={}, connection=connection)
        connection.refresh_from_db()
        assert "skipped" in {line["status"] for line in connection.last_check if line["of_tables"]}
        replicator = lab.replicate("t", "denied")
        with transaction.atomic():
            fail_table(replicator.tables.get(name="denied"), Stage.SNAPSHOT, SourcePermissionDenied("No SELECT."))
        replicator.tables.filter(name="t").update(state="streaming")
        found = checked(replicator, "grant_select")
        assert (found.status, found.of_tables) == (CheckStatus.FAILED, True)
        assert found.remedy == f"GRANT SELECT ON `{lab.database}`.`denied` TO `{lab.name}`@`%`;"
        assert Connection.objects.get(pk=connection.pk).check_status == "warning"
        lab.execute(found.remedy.rstrip(";"))
        assert checked(replicator, "grant_select").status is CheckStatus.OK
        assert replicator.tables.get(name="denied").state == "loading"
    finally:
        lab.execute(f"DROP USER {lab.name}")


def test_what_waits_for_its_next_attempt_is_tried_at_once_when_the_connection_is_changed(lab: Lab) -> None:
    replicator = lab.replicate("t")
    stage_failed(replicator.pk, Stage.CAPTURE, SourceUnreachable("away"))
    assert retry_ahead(replicator.pk, Stage.CAPTURE, clock())
    connection = replicator.connection
    connections.update_connection(connection=connection, config={**connection.config})
    assert not retry_ahead(replicator.pk, Stage.CAPTURE, clock())


@pytest.mark.parametrize("stopped", ["by the user", "by its log"])
def test_what_stopped_for_another_reason_stays_so(lab: Lab, stopped: str) -> None:
    replicator = lab.replicate("t")
    for _ in range(5):
        stage_failed(
            replicator.pk, Stage.CAPTURE, LogPurged("gone") if "log" in stopped else SourceAuthenticationFailed("no")
        )
    if stopped == "by the user":
        services.stop_replicator(replicator=lab.replicator)
    before = lab.replicator.status
    connection = replicator.connection
    connections.update_connection(connection=connection, config={**connection.config})
    assert lab.replicator.status == before
