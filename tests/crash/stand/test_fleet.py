"""The production shape under attack: Redis emptied and killed, workers, pool children and beat killed, Postgres
restarted.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from django.db import connections
from django.utils import timezone

from tests.crash.faults.traffic import Traffic
from tests.crash.fleet import PARTS, Fleet, until
from tests.environment import POSTGRES
from tests.integration.pipeline.lab import Lab
from webapp.embedded.redis import EmbeddedRedis
from webapp.monitoring.models import Failure, LogLine
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, Status
from webapp.replicators.services.tables import resnapshot_table
from webapp.worker.lease.lease_store import live_leases
from webapp.worker.models import Dispatch
from webapp.worker.run.headless import captured, source_position
from webapp.worker.supervisor import last_round

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ATTACK_SECONDS = 40.0
# Mostly 10 to 30: a lease runs out, a worker starts, and a Spark.  On a machine with much else to do it takes longer.
CURRENT_SECONDS = 200.0
PAUSE_SECONDS = 12.0
STOP_SECONDS = 25.0
# What an attempt may fail of while the metadata database is away, and how long it may take to notice.
OUTAGE_CODES = {"state", "target", "spark_unavailable"}
NOTICED = timedelta(seconds=30)


@pytest.mark.timeout(900)
def test_everything_that_can_die_dies_and_the_target_ends_equal(fleet: Fleet, lab: Lab) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    outages: list[datetime] = []
    with Traffic(lab) as traffic:
        lab.replicate()
        attack(fleet, lab, traffic, random.Random(seed), outages)
    seconds = until_current(lab)
    print(f"current {seconds:.1f} s after the last blow")
    until(lambda: sorted(fleet.parts()) == sorted(PARTS), 20, lambda: f"not started again: {sorted(fleet.parts())}")
    lab.assert_equal(3)
    assert traffic.shown() == traffic.made
    assert_honest(lab.replicator, outages)
    until(lambda: not fleet.left_behind(), 15, fleet.left_behind)
    assert_nothing_holds_on(fleet, lab)
    assert not (ours := tracebacks(fleet.logs())), ours[0]


def tracebacks(logs: str) -> list[str]:
    """Return tracebacks with a frame of ours; Celery logs others where a child is killed before its worker is up."""
    stacks = [part.partition('"}')[0][:5000] for part in logs.split("Traceback (most recent call last)")[1:]]
    return [stack for stack in stacks if "/webapp/" in stack or "/replicator/" in stack]


def attack(fleet: Fleet, lab: Lab, traffic: Traffic, dice: random.Random, outages: list[datetime]) -> None:
    """Each blow once, in any order, at random moments; the cheap ones again for as long as it goes on."""
    blows: dict[str, Callable[[], object]] = {
        "Redis emptied": lambda: empty(fleet.redis),
        "pool child": fleet.kill_child,
        **{
            f"{queue} worker": (lambda queue=queue: fleet.kill(queue))
            for queue in ("control", "capture", "snapshot", "merge")
        },
        "beat": lambda: fleet.kill("beat"),
        "Redis killed": lambda: restart_redis(fleet.redis, dice.uniform(0, 2)),
        "Postgres restarted": lambda: restart_metadata(outages),
    }
    often = ["Redis emptied", "pool child", "capture worker", "snapshot worker", "beat", "Redis killed"]
    queue, ends = dice.sample(sorted(blows), len(blows)), time.monotonic() + ATTACK_SECONDS
    until(lambda: len(fleet.parts()) == len(PARTS), 60, lambda: f"only {sorted(fleet.parts())} were started")
    while queue or time.monotonic() < ends:
        time.sleep(dice.uniform(0.5, 4.0))
        traffic.count()
        name = queue.pop() if queue else dice.choice(often)
        if name in {"pool child", "snapshot worker"}:
            with suppress(Exception):  # not while it is still loading
                resnapshot_table(table=lab.table("keyed"))
        struck = blows[name]() is not False
        print(f"{timezone.now():%H:%M:%S} {name}{'' if struck else ': it was not there'}")
        if not struck and time.monotonic() < ends:
            queue.insert(0, name)  # it is being started again: later


def empty(broker: EmbeddedRedis) -> None:
    with redis.Redis.from_url(broker.url) as client:
        client.flushall()


def restart_redis(broker: EmbeddedRedis, away: float) -> None:
    """It keeps nothing."""
    broker.stop(signal.SIGKILL)
    time.sleep(away)
    broker.start()


def restart_metadata(outages: list[datetime]) -> None:
    """Immediate: every connection is cut, the server recovers."""
    connections.close_all()
    outages.append(timezone.now())
    POSTGRES.stop(signal.SIGQUIT)
    POSTGRES.start()


def until_current(lab: Lab) -> float:
    """Everything that the source has now is in the target; seconds that it took."""
    replicator = lab.replicator
    reached = source_position(replicator)

    def current() -> bool:
        replicator.refresh_from_db()
        assert "failed" not in lab.states().values(), standing(replicator, reached)
        return captured(replicator, reached) and selectors.is_current(replicator)

    return until(current, CURRENT_SECONDS, lambda: standing(replicator, reached))


def standing(replicator: Replicator, reached: Mapping[str, Any]) -> str:
    """What it waits for."""
    figures = ("name", "state", "last_sequence", "applied", "live_from", "loaded", "attempt", "error_message")
    return "\n".join(
        [
            f"{replicator.status} {replicator.error_message} at {replicator.checkpoint_offset}, not at {dict(reached)}",
            *(str(row) for row in selectors.tables_of(replicator).values_list(*figures)),
            (
                f"leases {sorted(live_leases())}, dispatched {list(Dispatch.objects.values_list())}, last round"
                f" {last_round()}"
            ),
        ]
    )


def assert_honest(replicator: Replicator, outages: list[datetime]) -> None:
    """Failures are shown only where something had failed, and all are over."""
    until(
        lambda: not Failure.objects.filter(replicator=replicator, resolved_at=None).exists(), 30,
        lambda: list(Failure.objects.filter(resolved_at=None).values()),
    )  # fmt: skip
    replicator.refresh_from_db()
    assert (replicator.status, replicator.attempt, replicator.error_code) == (Status.RUNNING, 0, "")
    assert [(str(table), table.error_code) for table in selectors.tables_of(replicator) if table.attempt] == []
    failures = list(Failure.objects.filter(replicator=replicator).order_by("id"))
    for one in failures:
        print(f"{one.at:%H:%M:%S} {one.stage} {one.code} attempt {one.attempt}: {one.message[:150]}")
    unexplained = [
        f"{one.at} {one.stage} {one.code}: {one.message}"
        for one in failures
        if one.code not in OUTAGE_CODES or not any(at <= one.at <= at + NOTICED for at in outages)
    ]
    assert unexplained == []
    said = LogLine.objects.filter(replicator=replicator, level="error")
    assert not said.filter(detail__code="internal").exists()


def assert_nothing_holds_on(fleet: Fleet, lab: Lab) -> None:
    """Paused within seconds, so no lease is held by the dead; and stopped within seconds."""
    replicator = services.pause_replicator(replicator=lab.replicator)

    def paused() -> bool:
        replicator.refresh_from_db()
        return replicator.status == Status.PAUSED

    until(paused, PAUSE_SECONDS, lambda: (replicator.status, live_leases()))
    assert not [name for name in live_leases() if name.endswith(f":{replicator.pk}")]
    assert fleet.stop(STOP_SECONDS) == 0, fleet.logs()
