"""Automatic restart where the source no longer has the log: every table is resnapshotted."""

from __future__ import annotations

from datetime import timedelta

from replicator.errors import ConfigurationError, LogPurged
from webapp.database import clock
from webapp.monitoring.models import TimelineEvent
from webapp.replicators.models import Replicator
from webapp.replicators.services import STARTED_BY_ITSELF, start_anew

MAX_PER_DAY = 3  # a source that keeps too little would be read whole again and again
DAY = timedelta(days=1)


def recovered(replicator_id: int, error: LogPurged) -> bool:
    """True where `on_log_lost` says so, and it was not done too often; the replicator has then started again.

    Of a paused or stopped one the next start begins again.  `error.remedy` says where it was done too often.
    """
    replicator = Replicator.objects.filter(pk=replicator_id).first()
    if replicator is None or replicator.parsed_options.on_log_lost != "start_anew":
        return False
    begun = TimelineEvent.objects.filter(replicator=replicator, kind=STARTED_BY_ITSELF, at__gte=clock() - DAY)
    if begun.count() >= MAX_PER_DAY:
        error.remedy += f" It has already restarted automatically {MAX_PER_DAY} times within a day."
        return False
    try:
        start_anew(replicator=replicator, lost=error.message)
    except ConfigurationError:  # it is being deleted
        return False
    return True
