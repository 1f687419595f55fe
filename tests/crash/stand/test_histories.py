"""The shorter cut of `make test-long`: the same few histories with their faults in every run, or those of a seed of
your own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HISTORIES = {"mariadb": 1, "postgres": 1}
SEED = os.environ.get("TIDEMARK_CRASH_SEED", "2026112104")


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", HISTORIES)
def test_random_histories_end_equal_whatever_was_broken_on_the_way(tmp_path: Path, source: str) -> None:
    count = HISTORIES[source]
    what = [f"--histories={count}", f"--seed={SEED}", f"--source={source}"]
    command = [sys.executable, "-m", "tests.crash", *what, f"--findings={tmp_path}", "--shrink=0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=580)
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    assert done.returncode == 0, f"python -m tests.crash {' '.join(what)}\n{done.stdout}\n{done.stderr[-3000:]}"
    assert last.startswith(f"histories {count}, events "), last
    assert last.endswith("differences 0"), last
