"""`manage.py verify` beside a running replicator: it waits for changes under way, and reports lost rows at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command

from replicator.verification.target import open_catalog
from tests.integration.pipeline.lab import Lab
from webapp.destinations.lakes import catalog_config
from webapp.worker.run.headless import HeadlessRun
from webapp.worker.store.copy_progress import CopyProgress

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def verify(lab: Lab, wait: float = 600) -> dict[str, dict[str, Any]]:
    out = StringIO()
    with suppress(SystemExit):
        call_command("verify", lab.name, "--json", "--wait", str(wait), stdout=out)
    return {table["table"].partition(".")[2]: table for table in json.loads(out.getvalue())["tables"]}


def lose(lab: Lab, table: str, where: str) -> None:
    """Behind the product's back: rows of the copy."""
    catalog = open_catalog(catalog_config())
    row = lab.table(table)
    with warnings.catch_warnings():  # that it writes files again where it could write a delete
        warnings.simplefilter("ignore", UserWarning)
        catalog.load_table((row.target_namespace, row.target_name)).delete(where)


def test_what_is_lost_is_told_as_soon_as_the_log_was_read_past_the_look(
    any_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[set[str]] = []
    real = CopyProgress.wait

    def noted(progress: CopyProgress) -> Any:
        waits.append({name.partition(".")[2] for name in real(progress)})
        return {f"{any_lab.database}.{name}" for name in waits[-1]}

    monkeypatch.setattr(CopyProgress, "wait", noted)
    for name in ("a", "b", "c"):
        any_lab.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, v int)", f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3)"
        )
    any_lab.replicate()
    any_lab.run()
    assert all(table["equal"] for table in verify(any_lab).values())
    assert not waits
    lose(any_lab, "a", "id = 2")
    lose(any_lab, "b", "id < 3")
    found = verify(any_lab)  # no worker runs: verify does not wait
    assert (not waits, found["a"]["missing"], found["b"]["missing"], found["c"]["equal"]) == (True, 1, 2, True)
    replicator = any_lab.replicator
    with HeadlessRun(replicator) as run:
        run.wait(None, 1)
        any_lab.execute("INSERT INTO c VALUES (4, 4)")
        found = verify(any_lab)
    assert (found["a"]["missing"], found["b"]["missing"], found["c"]["equal"]) == (1, 2, True)
    first = next(number for number, settled in enumerate(waits) if settled)
    assert {"a", "b"} <= waits[first]
    assert [found[name]["rechecks"] for name in ("a", "b")] == [first, first]  # of 300 that were allowed


def test_a_verification_ends_at_once_at_ctrl_c(lab: Lab, process_environment: dict[str, str]) -> None:
    """While it waits for the source; with a sentence."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    lab.replicate()
    lab.run()
    lab.execute("LOCK TABLES t WRITE")
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "verify", lab.name]
    process = subprocess.Popen(
        command, env=process_environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
    with lab.connect() as other, other.cursor() as cursor:
        while not cursor.execute(waiting) or cursor.fetchone() == (0,):
            assert process.poll() is None
            time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    lab.execute("UNLOCK TABLES")
    assert (process.returncode, said.strip().splitlines()[-1]) == (130, "verify was interrupted.")
    assert "Traceback" not in said
