"""The stand itself."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

from tests.crash.harness import Stand

pytestmark = pytest.mark.integration


def test_a_source_that_a_trial_restarted_outlives_its_thread(tmp_path: Path) -> None:
    stand = Stand(tmp_path, "mariadb")
    stand.source.server.start()
    try:
        trial = threading.Thread(target=stand.break_source, args=(lambda: stand.source.server.restart(signal.SIGKILL),))
        trial.start()
        trial.join()
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            stand.source.server.connect().close()
    finally:
        stand.source.server.stop(signal.SIGKILL)
