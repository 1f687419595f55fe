"""Disk is given back of tables that nothing is merged into any more."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import psycopg2
import pytest

from replicator.targets.iceberg.upkeep import maintenance
from tests.integration.pipeline.lab import Lab
from webapp.destinations.lakes import catalog_url
from webapp.worker.run import headless
from webapp.worker.run.headless import HeadlessRun
from webapp.worker.upkeep import quiet_tables

pytestmark = pytest.mark.integration
OPTIONS = {"retention_steps": "2s/1s", "deletion_grace_hours": 1 / 3600}
LEFT = 12  # files of a table with one state


def data_files(lab: Lab) -> int:
    """In the folder of `t`, without metadata files, which have an hour."""
    with psycopg2.connect(catalog_url()) as catalog, catalog.cursor() as cursor:
        cursor.execute("SELECT metadata_location FROM iceberg_tables WHERE table_namespace = %s", (lab.database,))
        [(location,)] = cursor.fetchall()
    folder = Path(unquote(location.removeprefix("file://").removeprefix("file:"))).parent.parent
    return sum(1 for file in folder.rglob("*") if file.is_file() and not file.name.endswith(".metadata.json"))


def changed(lab: Lab) -> None:
    """Some merges."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_20")
    lab.replicate(options=OPTIONS)
    for _ in range(5):
        lab.run()
        lab.execute("UPDATE t SET v = v + 1")
    lab.run()


def test_files_of_a_quiet_table_go_without_a_merge(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(lab)
    assert quiet_tables.keep_quiet_tables() == 0  # changed a moment ago: its merges look after it
    before = data_files(lab)
    assert before > LEFT
    monkeypatch.setattr(quiet_tables, "QUIET", timedelta(0))
    monkeypatch.setattr(maintenance, "EXPIRY_SECONDS", 0)
    monkeypatch.setattr(maintenance, "DELETION_SECONDS", 0)
    deadline = time.monotonic() + 60
    while data_files(lab) > LEFT:
        assert time.monotonic() < deadline, data_files(lab)
        assert quiet_tables.keep_quiet_tables() == 1
        time.sleep(0.5)
    assert lab.assert_equal(1) == 20
    monkeypatch.setattr(
        quiet_tables, "MARGIN", timedelta(days=-1)
    )  # as if that were long ago: nothing of it is left to be done
    assert quiet_tables.keep_quiet_tables() == 0


def test_a_run_without_workers_tidies_by_itself(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(lab)
    monkeypatch.setattr(quiet_tables, "QUIET", timedelta(0))
    monkeypatch.setattr(maintenance, "EXPIRY_SECONDS", 0)
    monkeypatch.setattr(maintenance, "DELETION_SECONDS", 0)
    monkeypatch.setattr(headless, "TIDY_SECONDS", 0.5)
    with HeadlessRun(lab.replicator):
        deadline = time.monotonic() + 60
        while data_files(lab) > LEFT:
            assert time.monotonic() < deadline
            time.sleep(0.2)
