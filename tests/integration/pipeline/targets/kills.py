"""A replicator whose workers are killed between two steps, while its source goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.pipeline.lab import Lab

ROOT = Path(__file__).resolve().parents[4]
POINTS = ("apply.publish.before", "apply.publish.after", "apply.mark.before")


def source_rows(lab: Lab, name: str) -> Counter[Any]:
    with lab.sql.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {name}")
        return Counter(cursor.fetchall())


def make_tables(lab: Lab) -> None:
    """`t` has a key, `k` has none."""
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE k (v INT)")
    lab.execute("INSERT INTO t SELECT seq, seq FROM seq_1_to_300", "INSERT INTO k SELECT seq % 5 FROM seq_1_to_50")


def kill_twice(lab: Lab, environment: Mapping[str, str], point: str) -> None:
    """At this fault point; another worker goes on each time, and `t` is called `renamed` at the end."""
    for hit in (1, 3):
        done = subprocess.run(
            [sys.executable, "manage.py", "run", lab.name, "--until-current", "--timeout", "120"], cwd=ROOT,
            check=False, env={**environment, "TIDEMARK_FAULTS": f"{point}=kill@{hit}"}, capture_output=True,
            timeout=200,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, done.stdout.decode() + done.stderr.decode()
        lab.execute(
            f"UPDATE t SET v = v + {hit} WHERE id % 3 = 0", f"DELETE FROM t WHERE id % 50 = {hit}",
            "INSERT INTO k VALUES (1), (9)", "DELETE FROM k WHERE v = 3 LIMIT 1", "UPDATE k SET v = 7 WHERE v = 2",
            "ALTER TABLE t MODIFY v BIGINT",
        )  # fmt: skip
    lab.run(timeout=200)
    lab.assert_equal(2)
    lab.execute("RENAME TABLE t TO renamed", "INSERT INTO renamed VALUES (999, 1)")
    lab.run(timeout=200)
    lab.assert_equal(2)
