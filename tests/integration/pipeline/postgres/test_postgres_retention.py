"""WAL that a Postgres keeps for a replicator: shown, warned of, released before the disk fills, and gone with the
replicator.
"""

from __future__ import annotations

import io
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections as databases

from tests.environment import HOME
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.monitoring.models import Stage, TimelineEvent
from webapp.replicators import services
from webapp.replicators.models import Replicator, Status
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.entries import SelectionEntry
from webapp.worker.failure.log_loss_recovery import MAX_PER_DAY
from webapp.worker.run import wiring
from webapp.worker.run.headless import HeadlessRun
from webapp.worker.run.work_slice import run_slice
from webapp.worker.tasks import watch_logs
from webapp.worker.upkeep.replicator_deletion import delete
from webapp.worker.upkeep.source_log_retention import watch

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
SEGMENT = 16 * 1024 * 1024
LIMIT_MB = 64


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgresSource]:
    """A separate server: these tests lose slots and stop the server."""
    one = EmbeddedPostgresSource(HOME / "postgres-retention", durable=False)
    one.start()
    yield one
    one.stop()


@pytest.fixture
def lab(server: EmbeddedPostgresSource, transactional_db: Any) -> Iterator[PostgresLab]:
    one = PostgresLab(server.address, f"lab_{uuid.uuid4().hex[:8]}")
    one.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT n, 'v' FROM generate_series(1, 500) n"
    )
    yield one
    one.execute("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")
    one.close()


def begun(lab: PostgresLab, *, limit_mb: int | None = None, **options: Any) -> Replicator:
    """Captured for a moment, so that there are a slot and a checkpoint."""
    lab.connection(**({} if limit_mb is None else {"retention_limit_mb": limit_mb}))
    replicator = lab.replicate("t", options=options)
    assert run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    replicator.refresh_from_db()
    assert replicator.checkpoint_offset is not None
    return replicator


def paused(replicator: Replicator) -> Replicator:
    services.pause_replicator(replicator=replicator)
    Replicator.objects.filter(pk=replicator.pk).update(
        status=Status.PAUSED
    )  # as the supervisor does, which does not run here
    return seen(replicator)


def seen(replicator: Replicator) -> Replicator:
    return Replicator.objects.get(pk=replicator.pk)


def write(lab: PostgresLab, segments: int) -> None:
    """Write this many segments of WAL."""
    for _ in range(segments):
        lab.execute("SELECT pg_logical_emit_message(false, 'other', 'x')", "SELECT pg_switch_wal()")


def rows(lab: PostgresLab, sql: str) -> list[tuple[Any, ...]]:
    with lab.sql.cursor() as cursor:
        cursor.execute(sql)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def slots(lab: PostgresLab) -> list[tuple[Any, ...]]:
    return rows(lab, "SELECT wal_status FROM pg_replication_slots")


def kinds(replicator: Replicator, *of: str) -> list[str]:
    events = TimelineEvent.objects.filter(replicator=replicator, kind__in=of)
    return list(events.order_by("id").values_list("kind", flat=True))


def drop(lab: PostgresLab) -> None:
    """As an administrator does in need."""
    until(lambda: not rows(lab, "SELECT FROM pg_replication_slots WHERE active"))
    lab.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


def lose(lab: PostgresLab) -> None:
    """The server gives its slots up."""
    lab.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'", "SELECT pg_reload_conf()")
    for _ in range(20):
        write(lab, 3)
        lab.execute("CHECKPOINT")
        if slots(lab) == [("lost",)]:
            return
    raise AssertionError(slots(lab))


@contextmanager
def capturing(replicator: Replicator) -> Iterator[list[bool]]:
    """A slice in a thread, until the end of the block; what it returned is then in the list."""
    stop, result = threading.Event(), list[bool]()

    def work() -> None:
        result.append(run_slice(Stage.CAPTURE, replicator.pk, seconds=None, stopped=stop.is_set))
        databases.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield result
    finally:
        stop.set()
        thread.join(30)


def until(true: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_a_paused_replicator_keeps_is_seen_and_warned_of_once(lab: PostgresLab) -> None:
    replicator = paused(begun(lab, limit_mb=160, retention_warn_percent=50))
    watch_logs()
    at_first = seen(replicator)
    assert (at_first.log_held_status, at_first.log_concern) == ("reserved", "")
    assert at_first.log_held_bytes < SEGMENT
    assert at_first.log_held_most == 160 * 1024 * 1024
    write(lab, 6)
    watch()
    watch()
    later = seen(replicator)
    assert (later.log_concern, later.status, len(slots(lab))) == ("large", Status.PAUSED, 1)
    assert 6 * SEGMENT <= later.log_held_bytes + SEGMENT <= 8 * SEGMENT
    assert kinds(replicator, "log_large", "log_safe") == ["log_large"]
    out = io.StringIO()
    call_command("status", lab.name, json=True, stdout=out)
    said = json.loads(out.getvalue())["log_kept"]
    assert (said["bytes"], said["status"], said["concern"]) == (later.log_held_bytes, "reserved", "large")
    assert "MiB of its log for this replicator" in said["message"]
    lab.execute("SELECT pg_log_standby_snapshot()")  # where a slot's beginning can move to
    write(lab, 1)
    lab.execute("SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots")
    watch()
    assert seen(replicator).log_concern == ""
    assert kinds(replicator, "log_large", "log_safe") == ["log_large", "log_safe"]


def test_beyond_the_limit_the_slot_of_a_paused_replicator_is_dropped_and_it_stops_when_resumed(
    lab: PostgresLab,
) -> None:
    replicator = paused(begun(lab, limit_mb=LIMIT_MB))
    write(lab, 6)
    watch()
    watch()
    found = seen(replicator)
    assert slots(lab) == []
    assert (found.status, found.log_held_status, found.log_concern) == (Status.PAUSED, "missing", "lost")
    assert kinds(replicator, "log_given_up", "log_lost") == ["log_given_up", "log_lost"]
    services.resume_replicator(replicator=found)
    assert not run_slice(Stage.CAPTURE, replicator.pk, seconds=5)
    found = seen(replicator)
    assert (found.status, found.error_code) == (Status.FAILED, "log_purged")
    services.start_anew(replicator=found)
    assert run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    watch()
    assert (slots(lab), seen(replicator).log_concern) == ([("reserved",)], "")


def test_beyond_the_limit_a_slot_that_is_read_is_dropped_too(lab: PostgresLab) -> None:
    """A transaction that stays open keeps its log, though capture is at the end of it."""
    replicator = begun(lab, limit_mb=LIMIT_MB)
    session = lab.connect()
    with capturing(replicator) as result, session.cursor() as cursor:
        until(lambda: rows(lab, "SELECT active FROM pg_replication_slots") == [(True,)])
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (1000, 'open')")
        write(lab, 6)
        watch()
        until(lambda: bool(result))
    session.close()
    assert slots(lab) == []
    assert kinds(replicator, "log_given_up", "log_lost") == ["log_given_up", "log_lost"]
    run_slice(Stage.CAPTURE, replicator.pk, seconds=5)
    assert seen(replicator).error_code == "log_purged"


@pytest.mark.spark
def test_a_lost_log_is_recovered_from_by_reading_anew(lab: PostgresLab) -> None:
    lab.connection()
    replicator = lab.replicate("t", options={"on_log_lost": "start_anew"})
    assert lab.run_and_compare(1) == 500
    assert seen(replicator).log_concern == ""
    services.pause_replicator(replicator=replicator)
    lab.execute(
        "DELETE FROM t WHERE id % 3 = 0", "UPDATE t SET v = 'later' WHERE id % 5 = 0", "INSERT INTO t VALUES (777, '')"
    )
    lose(lab)
    watch()
    assert (seen(replicator).log_held_status, seen(replicator).log_concern) == ("lost", "lost")
    services.resume_replicator(replicator=replicator)
    lab.run_and_compare(1)
    assert kinds(replicator, "started_anew_by_itself", "failed") == ["started_anew_by_itself"]
    watch()
    assert seen(replicator).log_concern == ""
    lab.execute("UPDATE t SET v = 'last' WHERE id < 100")
    lab.run_and_compare(1)


def test_a_log_that_is_lost_again_and_again_stops_the_replicator(lab: PostgresLab) -> None:
    replicator = begun(lab, on_log_lost="start_anew")
    for _ in range(MAX_PER_DAY):
        drop(lab)
        assert not run_slice(Stage.CAPTURE, replicator.pk, seconds=5)
        found = seen(replicator)
        assert (found.status, found.checkpoint_offset) == (Status.STARTING, None)
        assert run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    drop(lab)
    assert not run_slice(Stage.CAPTURE, replicator.pk, seconds=5)
    found = seen(replicator)
    assert (found.status, found.error_code) == (Status.FAILED, "log_purged")
    assert "3 times within a day" in found.error_remedy


def test_a_pause_outlives_the_loss_of_the_log(lab: PostgresLab) -> None:
    """Capture finds it gone in the moment in which the user pauses."""
    replicator = begun(lab, on_log_lost="start_anew")
    drop(lab)
    services.start_anew(replicator=paused(replicator), lost="It is gone.")
    found = seen(replicator)
    assert (found.desired, found.status, found.checkpoint_offset) == ("paused", Status.PAUSED, None)
    services.resume_replicator(replicator=found)
    assert run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    assert slots(lab) == [("reserved",)]


def test_another_server_is_not_taken_for_a_lost_log(lab: PostgresLab) -> None:
    """Starting again from it would replace the copy by another server's rows."""
    replicator = begun(lab, on_log_lost="start_anew")
    Replicator.objects.filter(pk=replicator.pk).update(identity="postgres-1-elsewhere")
    drop(lab)
    assert not run_slice(Stage.CAPTURE, replicator.pk, seconds=5)
    assert seen(replicator).error_code == "source_replaced"
    Replicator.objects.filter(pk=replicator.pk).update(identity=replicator.identity)


def test_a_slot_that_the_user_has_brought_is_never_dropped(lab: PostgresLab) -> None:
    lab.execute("SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')")
    lab.connection(retention_limit_mb=LIMIT_MB, slot="theirs")
    replicator = lab.replicate("t")
    assert run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    paused(replicator)
    write(lab, 6)
    watch()
    assert slots(lab) == [("reserved",)]
    assert seen(replicator).log_concern == "large"
    assert kinds(replicator, "log_given_up") == []
    lab.execute("SELECT pg_drop_replication_slot('theirs')")


def test_a_quiet_database_keeps_no_log_of_others(lab: PostgresLab) -> None:
    replicator = begun(lab)
    other = lab.connect()
    with capturing(replicator), wiring.opened_source(replicator) as source, other.cursor() as cursor:
        write(lab, 4)
        log = source.log(wiring.label(replicator))

        def little() -> bool:
            cursor.execute("SELECT pg_log_standby_snapshot()")  # the server does so every 15 seconds
            held = log.held(None)
            return held is not None and held.bytes is not None and held.bytes < SEGMENT

        until(little)
    other.close()


def test_a_source_that_hangs_delays_no_other(lab: PostgresLab) -> None:
    replicator = paused(begun(lab))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {**lab.connection().config, "port": silent.getsockname()[1], "password": "x"}
        hanging = connections.create_connection(name="hanging", kind="postgres", config=config, user=None)
        selection = [SelectionEntry("public", "t")]
        unlucky = services.create_replicator(name="unlucky", connection=hanging, selection=selection, start=True)
        began = time.monotonic()
        watch(3)
        assert time.monotonic() - began < 5
        assert seen(replicator).log_held_at is not None
        assert (seen(unlucky).log_held_at, seen(unlucky).error_code) == (None, "")
    time.sleep(0.5)  # its thread ends with the socket


def test_nothing_is_left_behind_though_the_source_was_down_at_first(
    lab: PostgresLab, server: EmbeddedPostgresSource
) -> None:
    replicator = begun(lab)
    assert rows(lab, "SELECT failover, two_phase FROM pg_replication_slots") == [(True, False)]
    assert len(rows(lab, "SELECT FROM pg_publication")) == 1
    services.delete_replicator(replicator=replicator)
    lab.sql.close()
    server.stop()
    try:
        assert not delete(replicator.pk)
        assert seen(replicator).failures.get(stage=Stage.CONTROL).code == "source_unreachable"
    finally:
        server.start()
    assert delete(replicator.pk)
    assert rows(lab, "SELECT slot_name FROM pg_replication_slots") == []
    assert rows(lab, "SELECT pubname FROM pg_publication") == []
    assert not Replicator.objects.filter(pk=replicator.pk).exists()
    assert Connection.objects.filter(name=lab.name).exists()


def test_a_run_without_workers_looks_too(lab: PostgresLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.worker.run.headless.WATCH_SECONDS", 0.5)
    replicator = begun(lab)
    assert replicator.log_held_at is None
    with HeadlessRun(replicator):
        until(lambda: seen(replicator).log_held_status == "reserved")


def test_options_say_what_is_wrong() -> None:
    with pytest.raises(Exception, match="on_log_lost must be one of stop, start_anew, not 'wait'"):
        ReplicatorOptions.from_dict({"on_log_lost": "wait"})
    with pytest.raises(Exception, match="retention_warn_percent must be a number between 1 and 100, not 0"):
        ReplicatorOptions.from_dict({"retention_warn_percent": 0})


def test_a_slot_of_the_user_that_is_lost_is_made_again_by_the_sql_that_is_shown(lab: PostgresLab) -> None:
    """Restarting from scratch drops no slot that is not ours: it used to end in the same failure, again and again."""
    create = "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')"
    lab.execute(create)
    lab.connection(slot="mine")
    replicator = lab.replicate("t")
    assert run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    lose(lab)
    run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    assert seen(replicator).error_code == "log_purged"
    services.start_anew(replicator=replicator)
    run_slice(Stage.CAPTURE, replicator.pk, seconds=2)
    failed = seen(replicator)
    assert failed.error_code == "source_misconfigured"
    sql = failed.error_remedy.partition(" It resumes")[0]
    assert sql == f"SELECT pg_drop_replication_slot('mine'); {create};"
    lab.execute("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()", *sql.strip(";").split("; "))
    services.retry_replicator(replicator=replicator)
    lab.run_and_compare(1)
    services.delete_replicator(replicator=replicator)
    drop(lab)
