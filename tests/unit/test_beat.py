"""Beat sleeps until there is something to do."""

from __future__ import annotations

import time
from pathlib import Path

from celery import Celery

from webapp.beat import SteadyScheduler

SECONDS, EVERY = 1.0, 0.2


def test_the_scheduler_is_asked_twice_for_a_task_and_no_more(tmp_path: Path) -> None:
    app = Celery("beat", broker="memory://", set_as_current=False)
    app.conf.beat_schedule = {"one": {"task": "one", "schedule": EVERY}}
    scheduler = SteadyScheduler(app=app, schedule_filename=str(tmp_path / "schedule"))
    asked, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        interval = scheduler.tick()
        asked += 1
        if interval and interval > 0:
            time.sleep(interval)
    scheduler.close()
    assert SECONDS / EVERY <= asked <= 3 * SECONDS / EVERY
