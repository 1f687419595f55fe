"""Snapshots that the source itself asks for, and a pace that changes while they run: live, and compared row by row."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Self

import pytest

from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from tests.integration.pipeline.tables.test_parts import KEYED, differing, fill, hide
from webapp.monitoring.models import TimelineEvent
from webapp.replicators import services
from webapp.replicators.models import ChunkRow, Replicator, RunState, SnapshotRun
from webapp.worker.run.headless import HeadlessRun

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
SIGNALS = "CREATE TABLE signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data TEXT NULL)"
PATIENCE = 90.0


@pytest.fixture
def lab(any_lab: Lab) -> Lab:
    return any_lab


def send(lab: Lab, kind: str, data: Any = None) -> None:
    text = data if isinstance(data, str) else json.dumps(data or {})
    with lab.sql.cursor() as cursor:
        cursor.execute("INSERT INTO signals VALUES (%s, %s, %s)", (uuid.uuid4().hex, kind, text))


def execute(lab: Lab, **more: Any) -> dict[str, Any]:
    return {"data-collections": [f"{lab.database}.t"], "type": "incremental", **more}


def test_signals_are_obeyed_once_and_the_table_of_them_is_not_copied(
    lab: Lab, process_environment: dict[str, str]
) -> None:
    lab.execute(KEYED, SIGNALS)
    fill(lab, 500)
    lab.replicate("t", options={"signal_table": f"{lab.database}.signals"})
    lab.run_and_compare(1)
    hide(lab, "DELETE FROM t WHERE id < 10", "UPDATE t SET s = 'hidden' WHERE id BETWEEN 100 AND 119")
    send(lab, "execute-snapshot", execute(lab, keys=list(range(10))))
    lab.run()
    assert differing(lab) == 20
    condition = {"data-collection": f"{lab.database}\\..*", "filter": "id > 99 AND id < 110"}
    send(lab, "execute-snapshot", execute(lab, **{"additional-conditions": [condition]}))
    for fault in ("capture.journal.before=kill", "capture.journal.after=kill"):
        command = [sys.executable, "manage.py", "run", lab.name]
        process = subprocess.Popen(command, env=process_environment | {"TIDEMARK_FAULTS": fault})
        assert process.wait(180) == -signal.SIGKILL
    lab.run()
    assert differing(lab) == 10
    assert SnapshotRun.objects.filter(scope="rows").count() == 1
    for wrong in ("{", {"data-collections": ["nothing"]}, execute(lab, keys=["x"])):
        send(lab, "execute-snapshot", wrong)
    send(lab, "what-is-this")
    send(lab, "stop-snapshot")
    send(lab, "execute-snapshot", execute(lab))
    lab.run_and_compare(1)
    assert TimelineEvent.objects.filter(kind="signal_refused").count() == 4
    assert SnapshotRun.objects.filter(scope="whole", state=RunState.DONE).count() == 2
    assert lab.states() == {"t": "streaming"}


def test_a_signalling_table_that_is_missing_wrong_or_dropped_stops_nothing(lab: Lab) -> None:
    lab.execute(KEYED)
    fill(lab, 10)
    lab.replicate("t", options={"signal_table": f"{lab.database}.signals"})
    lab.run_and_compare(1)
    lab.execute("CREATE TABLE signals (id INT PRIMARY KEY, other INT)", "INSERT INTO signals VALUES (1, 1)")
    lab.run_and_compare(1)
    lab.execute("DROP TABLE signals", SIGNALS)
    lab.run()  # the source's log knows it from here on
    send(lab, "execute-snapshot", execute(lab, keys=[1]))
    lab.execute("INSERT INTO t VALUES (11, 1, 'new')")
    lab.run_and_compare(1)
    assert SnapshotRun.objects.get(scope="keys").state == RunState.DONE
    assert lab.states() == {"t": "streaming"}


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def change(lab: Lab, **options: Any) -> None:
    replicator = Replicator.objects.get(name=lab.name)
    services.update_options(replicator=replicator, options=replace(replicator.parsed_options, **options))


def chunks(**wanted: Any) -> int:
    return ChunkRow.objects.filter(run__scope="rows", **wanted).count()


def test_the_pace_changes_while_a_snapshot_runs(lab: Lab) -> None:
    lab.execute(KEYED)
    fill(lab, 3000)
    lab.replicate("t", options={"snapshot_parallel": 1})
    lab.run_and_compare(1)
    change(lab, snapshot_chunk_rows=20, snapshot_delay_seconds=1.0)
    run = services.read_rows(table=lab.table("t"), condition="id >= 0")
    with HeadlessRun(lab.replicator):
        until(lambda: chunks(state="done") >= 2)
        assert ChunkRow.objects.filter(run=run, state="done").exclude(rows=20).count() == 0
        assert chunks(state="done") < 40
        change(lab, snapshot_chunk_rows=400, snapshot_delay_seconds=0, snapshot_parallel=3)
        until(lambda: SnapshotRun.objects.get(pk=run.pk).state == RunState.DONE)
    rows = list(ChunkRow.objects.filter(run=run).order_by("number").values_list("rows", flat=True))
    assert sum(rows) == 3000
    assert max(rows) == 400
    lab.run_and_compare(1)


def test_a_snapshot_gives_way_to_a_busy_source_and_stops_all_the_same(lab: Lab) -> None:
    lab.execute(KEYED)
    fill(lab, 1000)
    lab.replicate("t")
    lab.run_and_compare(1)
    sleep = "SELECT pg_sleep(600)" if isinstance(lab, PostgresLab) else "SELECT SLEEP(600)"
    change(lab, snapshot_most_running=4)
    with ExitStack() as stack:
        busy = [stack.enter_context(Busy(lab, sleep)) for _ in range(6)]
        run = services.read_keys(table=lab.table("t"), keys=list(range(1000)))
        with HeadlessRun(lab.replicator):
            until(lambda: "the limit is 4" in Replicator.objects.get(name=lab.name).snapshot_waits)
            assert SnapshotRun.objects.get(pk=run.pk).rows_read == 0
            assert services.stop_snapshots(table=lab.table("t")) == 1
            run = services.read_keys(table=lab.table("t"), keys=list(range(1000)))
            until(lambda: Replicator.objects.get(name=lab.name).snapshot_waits)
            for one in busy:
                one.end()
            until(lambda: SnapshotRun.objects.get(pk=run.pk).state == RunState.DONE)
            assert Replicator.objects.get(name=lab.name).snapshot_waits == ""
    lab.run_and_compare(1)


class Busy:
    """A statement of another session, until it is ended."""

    def __init__(self, lab: Lab, statement: str) -> None:
        self._lab, self._statement, self._postgres = lab, statement, isinstance(lab, PostgresLab)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._ready, self._pid = threading.Event(), 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def _work(self) -> None:
        with suppress(Exception), self._lab.connect().cursor() as cursor:  # it is ended
            cursor.execute("SELECT pg_backend_pid()" if self._postgres else "SELECT CONNECTION_ID()")
            (self._pid,) = cursor.fetchone()
            self._ready.set()
            cursor.execute(self._statement)

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if self._thread.is_alive():
            kill = f"SELECT pg_terminate_backend({self._pid})" if self._postgres else f"KILL {self._pid}"
            self._lab.execute(kill)
            self._thread.join(30)
