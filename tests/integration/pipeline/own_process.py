"""Tidemark in a separate process, for what is fixed when a process starts: the environment, the JVM, pyspark's kind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings

from tests.integration.pipeline.lab import Lab
from webapp.monitoring.models import LogLine
from webapp.replicators.models import Replicator

MANAGE = Path(settings.BASE_DIR) / "manage.py"


def run(lab: Lab, environment: dict[str, str]) -> None:
    """Run until current, in a separate process."""
    command = [sys.executable, str(MANAGE), "run", lab.name, "--until-current", "--timeout", "800"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=850, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{said(lab.replicator)}"


@contextmanager
def running(lab: Lab, environment: dict[str, str], log: Path) -> Iterator[None]:
    """A process that follows the source until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(MANAGE), "run", lab.name], env=environment, stdout=output, stderr=output
        )
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"it did not stop:\n{log.read_text()}")


def said(replicator: Replicator) -> list[str]:
    return list(LogLine.objects.filter(replicator=replicator).values_list("message", flat=True))


def until(true: Callable[[], object], seconds: float = 400) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.5)
