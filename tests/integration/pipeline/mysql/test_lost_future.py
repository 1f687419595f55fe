"""A source set back to a backup, after a snapshot was planned in the future that it lost with that.

Capture has met nothing of that future, so its past is the same, and rightly goes on.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from replicator.state.tables import TableState
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from tests.integration.regressions_of_other_tools.conftest import small_chunks
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.monitoring.models import Stage
from webapp.replicators.models import RunState, SnapshotRun
from webapp.replicators.services import partial_snapshots
from webapp.worker.failure import retry_policy
from webapp.worker.run import work_slice

__all__ = ["small_chunks"]
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("small_chunks")]
SERVERS: dict[str, Callable[[Path], EmbeddedMariaDB | EmbeddedPostgresSource]] = {
    "mariadb": EmbeddedMariaDB,
    "postgres": lambda folder: EmbeddedPostgresSource(folder, durable=False),
}
REKEY = {
    "mariadb": "ALTER TABLE k DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)",
    "postgres": "ALTER TABLE k DROP CONSTRAINT k_pkey, ADD PRIMARY KEY (v, id)",
}


class SetBack:
    """A lab on a separate server, whose data folder is copied and put back."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.server = SERVERS[kind](folder)
        self.server.start()
        name = f"lab_{uuid.uuid4().hex[:8]}"
        self.lab: Lab = (PostgresLab if kind == "postgres" else Lab)(self.server.address, name)

    def move(self, source: str, to: str) -> None:
        """A cold copy of the data folder; the server goes on."""
        self.lab.sql.close()
        self.server.stop()
        folder = self.server.folder
        shutil.rmtree(folder / to, ignore_errors=True)
        shutil.copytree(folder / source, folder / to, copy_function=shutil.copy2)
        owner = (folder / source).stat()
        for path in (folder / to, *(folder / to).rglob("*")):
            shutil.chown(path, owner.st_uid, owner.st_gid)
        (folder / to).chmod(0o700)
        self.server.start()
        if self.kind == "mariadb":
            self.lab.sql.select_db(self.lab.database)

    def capture_until(self, done: Callable[[], bool]) -> None:
        """Without a reader or a merge beside it."""
        assert work_slice.run_slice(
            Stage.CAPTURE, self.lab.replicator.pk, seconds=60, idle=None, over=done, stopped=done
        )
        assert done()

    def plan(self) -> None:
        """Runs are planned and chunks are read, and capture is not there to see it."""
        runs = SnapshotRun.objects.filter(table__replicator=self.lab.replicator, state=RunState.PLANNING)
        begun = lambda: not runs.filter(started=False).exists()
        assert work_slice.run_slice(Stage.SNAPSHOT, self.lab.replicator.pk, seconds=60, idle=0.1, over=begun)
        assert begun()


@pytest.fixture(params=["mariadb", pytest.param("postgres", marks=pytest.mark.long)])
def source(request: pytest.FixtureRequest, tmp_path: Path, transactional_db: Any) -> Iterator[SetBack]:
    one = SetBack(request.param, tmp_path / "server")
    yield one
    one.server.stop()


def test_an_end_that_was_planned_in_a_lost_future(source: SetBack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows beyond it were never read, though the log had said nothing of them; another key's bounds stopped the
    table.
    """
    monkeypatch.setattr(retry_policy, "ANNOUNCED_WINDOW", timedelta(seconds=3))
    lab = source.lab
    rows = ", ".join(f"({n}, {n % 7})" for n in range(1, 201))
    for name in "tk":
        lab.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT NOT NULL)", f"INSERT INTO {name} VALUES {rows}")
    lab.replicate("t", "k")
    source.capture_until(lambda: set(lab.states().values()) == {TableState.LOADING.value})
    source.move("data", "copy")
    lab.execute("DELETE FROM t WHERE id > 50", REKEY[source.kind])
    source.plan()
    lost = {run.table.name: run for run in SnapshotRun.objects.select_related("table")}
    assert "50" in lost["t"].end_key[0]
    assert len(lost["k"].end_key or ()) == 2
    source.move("copy", "data")
    lab.run()
    assert lab.assert_equal(2) == 400
    for run in lost.values():
        run.refresh_from_db()
        assert run.state == RunState.CANCELLED
    assert lab.states() == {"t": "streaming", "k": "streaming"}


def test_a_part_that_was_planned_in_a_lost_future(source: SetBack) -> None:
    lab = source.lab
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    lab.execute("INSERT INTO t VALUES " + ", ".join(f"({n}, {n % 7})" for n in range(1, 101)))
    lab.replicate("t")
    assert lab.run_and_compare(1) == 100
    source.move("data", "copy")
    lab.execute("DELETE FROM t WHERE id > 50")
    partial_snapshots.read_rows(table=lab.table("t"), condition="v < 3")
    source.plan()
    source.move("copy", "data")
    lab.run()
    assert lab.assert_equal(1) == 100
    first, lost = SnapshotRun.objects.exclude(condition="").order_by("-id")
    assert "50" in lost.end_key[0]
    assert (lost.state, first.state) == (RunState.CANCELLED, RunState.DONE)
    assert first.rows_read == len([n for n in range(1, 101) if n % 7 < 3])
