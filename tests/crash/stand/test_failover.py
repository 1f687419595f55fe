"""The capturing worker is lost in each possible way; another one continues, and nothing is lost or doubled."""

from __future__ import annotations

import os
import random

import pytest
from django.conf import settings

from tests.crash.faults.failover import WAYS, Hosts, take_over
from tests.crash.faults.traffic import Traffic
from tests.crash.fleet import Fleet, until
from tests.crash.stand.test_fleet import tracebacks, until_current
from tests.integration.pipeline.lab import Lab
from webapp.monitoring.models import TimelineEvent

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
LOADED_SECONDS = 180.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "ways",
    [("cut off",), pytest.param(WAYS, marks=pytest.mark.long)],
    ids=["one", "all"],  # test_fleet kills workers
)
def test_another_worker_goes_on_in_whatever_way_the_owner_goes(
    fleet: Fleet, lab: Lab, database_url: str, ways: tuple[str, ...]
) -> None:
    dice = random.Random(7)
    with Hosts(fleet, {**os.environ, "DATABASE_URL": database_url}) as hosts, Traffic(lab) as traffic:
        replicator = lab.replicate().pk
        until(lambda: set(lab.states().values()) == {"streaming"}, LOADED_SECONDS, lab.states)
        traffic.count()
        for way in ways:
            owner = hosts.owner_for(way, replicator, dice)
            print(take_over(hosts, replicator, way, owner, settings.TIDEMARK_LEASE_SECONDS))
        traffic.stop.set()
        until_current(lab)
        lab.assert_equal(3)
        assert traffic.shown() == traffic.made
    told = TimelineEvent.objects.filter(replicator=replicator, kind="failover", detail__work="capture")
    assert told.count() >= len(set(ways) - {"told to stop"})  # which gives its lease back
    assert not (ours := tracebacks(fleet.logs())), ours[0]
