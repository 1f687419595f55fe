"""What Tidemark stops also stops at the source (invariant 10): its statement leaves the server's list in seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.conf import settings
from django.db import connections as databases

from replicator.sources.base import KeyRange
from replicator.sources.mysql import connection as mysql_connection
from replicator.sources.postgres import connection as postgres_connection
from replicator.state.chunks import PlannedChunk
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.connections import selectors as sources
from webapp.embedded.processes import Child, ProcessGroup
from webapp.installation.local import LocalMachine
from webapp.monitoring.models import Failure, Stage
from webapp.replicators import services
from webapp.replicators.models import ChunkRow, ChunkState, ReplicatorTable, Scope, SnapshotRun
from webapp.replicators.selection.entries import SelectionEntry
from webapp.worker.models import Lease
from webapp.worker.run.work_slice import lease_name, run_slice
from webapp.worker.store.chunk_store import OrmChunkStore

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
WITHIN = 20.0  # seconds: a busy machine; without a cancel they last 300


def wait(what: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@dataclass
class Slice:
    """A stage's slice in a thread."""

    stage: Stage
    replicator: int
    over: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            run_slice(
                self.stage, self.replicator, seconds=None, idle=None, over=self.over.is_set, stopped=self.stop.is_set
            )
        finally:
            databases.close_all()

    def end(self) -> None:
        self.stop.set()
        self.thread.join(WITHIN)
        assert not self.thread.is_alive()


@pytest.fixture(autouse=True)
def _any_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """None that is taken lasts long enough."""
    monkeypatch.setattr("replicator.sources.shared.key_ranges.condition_sql", lambda text, *_: text)


def slow(lab: Lab) -> str:
    """A condition that lasts for minutes on each row."""
    return "pg_sleep(300) IS NOT NULL" if isinstance(lab, PostgresLab) else "SLEEP(300) = 0"


def statements(lab: Lab) -> int:
    """How many slow statements the server is busy with."""
    if isinstance(lab, PostgresLab):
        sql = (
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(300)%' AND state = 'active' AND pid <>"
            " pg_backend_pid()"
        )
    else:
        sql = (
            "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%SLEEP(300)%' AND id <>"
            " CONNECTION_ID()"
        )
    with lab.sql.cursor() as cursor:
        cursor.execute(sql)
        return int((cursor.fetchone() or (0,))[0])


@contextmanager
def reading(lab: Lab, *, planned: bool, part: bool = False) -> Iterator[tuple[Slice, SnapshotRun]]:
    """A snapshot whose statement lasts: the one that plans its bounds, or the one that reads its rows; of a `part` of a
    table that streams.
    """
    lab.execute("CREATE TABLE t (id int PRIMARY KEY, name varchar(10))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    replicator = lab.replicate("t")
    capture = Slice(Stage.CAPTURE, replicator.pk)
    wait(ReplicatorTable.objects.filter(tracked=True, state="loading").exists)
    capture.end()
    run = SnapshotRun.objects.get()
    SnapshotRun.objects.update(condition=slow(lab), scope=Scope.ROWS if part else Scope.WHOLE)
    ReplicatorTable.objects.update(state="streaming" if part else "loading")
    if planned:
        OrmChunkStore(replicator.pk).planned([PlannedChunk(run.pk, None, KeyRange(), done=True)])
    one = Slice(Stage.SNAPSHOT, replicator.pk)
    try:
        wait(lambda: part or statements(lab))
        yield one, run
    finally:
        one.end()


def lost(lab: Lab) -> None:
    """Another worker has the lease."""
    Lease.objects.filter(name=lease_name(Stage.SNAPSHOT, lab.replicator.pk)).update(owner="another", fence=99)


ENDINGS: dict[str, Callable[[Lab], object]] = {
    "stop": lambda lab: services.stop_replicator(replicator=lab.replicator),
    "pause": lambda lab: services.pause_replicator(replicator=lab.replicator),
    "delete": lambda lab: services.delete_replicator(replicator=lab.replicator, drop_target=False),
    "pause snapshots": lambda lab: services.set_snapshot_paused(replicator=lab.replicator, paused=True),
    "read anew": lambda lab: services.resnapshot_table(table=lab.table("t")),
    "remove": lambda lab: services.skip_table(table=lab.table("t")),
    "lost lease": lost,
}


@pytest.mark.parametrize("planned", [False, True], ids=["planning", "reading"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_snapshots_statement_ends_at_the_source_with_what_asked_for_it(
    any_lab: Lab, ending: str, planned: bool
) -> None:
    """Seen: 382 s after "stopped" on Postgres, 438 s on MariaDB."""
    with reading(any_lab, planned=planned) as (_, run):
        ENDINGS[ending](any_lab)
        wait(lambda: not statements(any_lab), WITHIN)
    assert not Failure.objects.exists()
    run.refresh_from_db()
    assert (run.attempt, run.retry_at) == (0, None)
    assert not ChunkRow.objects.filter(run=run).exclude(failures=0).exists()
    assert not ChunkRow.objects.filter(state__in=[ChunkState.READ, ChunkState.DONE]).exists()


@pytest.mark.parametrize("planned", [False, True], ids=["planning", "reading"])
def test_a_search_by_a_condition_ends_after_its_time(
    any_lab: Lab, planned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the source, too; the table is none the worse for it."""
    monkeypatch.setattr("replicator.engine.snapshot.CONDITION_SECONDS", 0.6)
    with reading(any_lab, planned=planned, part=True) as (_, run):
        wait(SnapshotRun.objects.filter(pk=run.pk, state="cancelled").exists, WITHIN)
        wait(lambda: not statements(any_lab), WITHIN)
    run.refresh_from_db()
    assert "The search was stopped" in run.error
    assert any_lab.table("t").state == "streaming"


def test_a_worker_that_is_told_to_stop_leaves_no_statement(any_lab: Lab) -> None:
    with reading(any_lab, planned=True) as (one, _):
        one.end()
        wait(lambda: not statements(any_lab), WITHIN)


def test_a_page_does_not_wait_for_the_source_for_ever(any_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its statement ends at the source, too."""
    any_lab.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    monkeypatch.setitem(sources.ATTENDED, "statement_timeout", 1)
    with sources.opened(any_lab.connection()) as source:
        asked: Any = source
        with asked._open().cursor() as cursor, pytest.raises(asked._open().Error, match=r"timeout|max_statement_time"):
            cursor.execute(f"SELECT 1 FROM {any_lab.database}.t WHERE {slow(any_lab)}")
    wait(lambda: not statements(any_lab), WITHIN)  # the client sees the end before the server's list does


def test_what_capture_asks_the_source_ends_when_it_is_told_to_stop(
    any_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    any_lab.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")

    def asks(_: object, __: object, source: Any, ___: object) -> None:
        connection = source._source._open()
        with translated_of(any_lab)("the source"), connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {any_lab.database}.t WHERE {slow(any_lab)}")

    monkeypatch.setattr("webapp.worker.run.work_slice._begin_log", asks)
    replicator = any_lab.replicate("t")
    capture = Slice(Stage.CAPTURE, replicator.pk)
    wait(lambda: statements(any_lab))
    services.stop_replicator(replicator=replicator)
    wait(lambda: not statements(any_lab), WITHIN)
    capture.end()
    assert not Failure.objects.exists()


@contextmanager
def snapshot_worker(environment: dict[str, str], redis_url: str, folder: Path) -> Iterator[Child]:
    """The process of `manage.py up`; it takes any condition."""
    group = ProcessGroup(folder)
    any_condition = (
        "from replicator.sources.shared import conditions\nconditions.condition_sql = lambda text, *_: text\n"
    )
    (folder / "sitecustomize.py").write_text(any_condition)
    paths = f"{folder}:{settings.BASE_DIR}"
    more = {"REDIS_URL": redis_url, "PYTHONPATH": paths, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    try:
        yield group.start("snapshot", LocalMachine(port=0).command("snapshot"), environment | more)
    finally:
        group.stop()


def test_two_statements_that_last_do_not_stop_the_snapshots_of_others(
    lab: Lab, redis_url: str, process_environment: dict[str, str], tmp_path: Path
) -> None:
    """Two worker processes were all that there were."""
    made = []
    for name in ("a", "b", "c"):
        lab.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")
        selection = [SelectionEntry(lab.database, name)]
        made.append(
            services.create_replicator(
                name=f"{lab.name}_{name}", connection=lab.connection(), selection=selection, start=True
            )
        )
        capture = Slice(Stage.CAPTURE, made[-1].pk)
        wait(made[-1].tables.filter(tracked=True, state="loading").exists)
        capture.end()
    *lasting, other = made
    SnapshotRun.objects.filter(table__replicator__in=lasting).update(condition=slow(lab))
    broker = Celery(broker=redis_url)
    with snapshot_worker(process_environment, redis_url, tmp_path) as worker:
        for one in lasting:
            broker.send_task("tidemark.snapshot_slice", args=[one.pk], queue="snapshot")
        wait(lambda: statements(lab) == 2 or not worker.alive, 120)
        assert worker.alive, worker.tail()
        broker.send_task("tidemark.snapshot_slice", args=[other.pk], queue="snapshot")
        wait(ChunkRow.objects.filter(run__table__replicator=other, state=ChunkState.READ).exists)
        assert statements(lab) == 2
        for one in lasting:
            services.stop_replicator(replicator=one)
        wait(lambda: not statements(lab), WITHIN)
    broker.close()


def translated_of(lab: Lab) -> Any:
    return postgres_connection.translated if isinstance(lab, PostgresLab) else mysql_connection.translated
