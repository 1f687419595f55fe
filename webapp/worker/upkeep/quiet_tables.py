"""Target tables into which nothing is merged any more: what waits in their folders goes by the clock, too (ADR 34)."""

from __future__ import annotations

import logging
from contextlib import closing
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from replicator.errors import TidemarkError
from replicator.state.tables import TableState
from replicator.targets.base import TargetTable
from webapp.database import clock, stored
from webapp.replicators.models import Desired, Replicator, ReplicatorTable
from webapp.replicators.targets import kind_of
from webapp.worker.run import wiring

LOGGER = logging.getLogger("tidemark.worker")
QUIET = timedelta(hours=1)  # what was changed since is looked at by its merges
MARGIN = timedelta(days=1)  # after the last file's time, for looks that were missed


def keep_quiet_tables(only: Replicator | None = None) -> int:
    """Expire and delete what is due in tables that were changed lately, and not within the last hour; how many were
    looked at.
    """
    replicators = [only] if only is not None else list(_running())
    return sum(_keep(replicator) for replicator in replicators if kind_of(replicator).capabilities.upkeep)


@stored
def _running() -> QuerySet[Replicator]:
    return Replicator.objects.filter(desired=Desired.RUNNING).select_related("destination").order_by("id")


def _keep(replicator: Replicator) -> int:
    """A merge that comes in between makes one of the two begin again; so does any other trouble of a table, at the next
    round.
    """
    if not (tables := _quiet(replicator, clock())):
        return 0
    with closing(wiring.open_target(replicator)) as target:
        for name in tables:
            try:
                if done := target.maintain(name):
                    LOGGER.info("Idle table %s", done)
            except TidemarkError as error:
                LOGGER.warning("Maintenance of %s skipped: %s", name, error.message)
    return len(tables)


@stored
def _quiet(replicator: Replicator, now: datetime) -> list[TargetTable]:
    """Until their last snapshot is thinned out and its files have waited long enough."""
    steps, hours = settings.TIDEMARK_RETENTION_STEPS, settings.TIDEMARK_DELETION_GRACE_HOURS
    kept = replicator.parsed_options.retention(steps, hours)
    since = now - timedelta(seconds=kept.steps[-1].age + kept.grace) - MARGIN
    rows = ReplicatorTable.objects.filter(replicator=replicator, state=TableState.STREAMING.value)
    changed = rows.filter(queryable_at__gt=since, queryable_at__lt=now - QUIET)
    names = changed.order_by("id").values_list("target_namespace", "target_name")
    return [TargetTable(*name) for name in dict.fromkeys(names)]  # several may share one
