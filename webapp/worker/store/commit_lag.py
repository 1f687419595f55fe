"""How late every event of a target commit was, by the commit times in its segments' files (ADR 15)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from replicator.errors import StagingError
from replicator.state.journal import Applied, Segment, SegmentKind
from replicator.state.tables import TableState
from replicator.telemetry.commit_times import CommitTimes, read_commit_times
from webapp.monitoring.slo import lag_histograms
from webapp.replicators.models import ReplicatorTable
from webapp.replicators.staging import storage
from webapp.worker.store.applied_segments import AppliedBatch, Marked

LOGGER = logging.getLogger("tidemark.worker")


def read_times(segments: Iterable[Segment | Marked]) -> dict[str, CommitTimes]:
    """By path.  No file is opened of a segment whose events were all committed at once."""
    return {one.path: _times(one) for one in segments if _from_the_log(one)}


def count_late(
    table: ReplicatorTable, covered: AppliedBatch, result: Applied, times: Mapping[str, CommitTimes]
) -> None:
    """In the transaction of the mark; `times` of segments as far as they are known, the others' are read now."""
    late = lag_histograms.Lags()
    if table.table_state is TableState.LOADING:  # it has no objective yet: what waited is only counted
        late.unmeasured = covered.changes
    else:
        since = objective.since if (objective := getattr(table, "objective", None)) is not None else None
        for one in covered.segments:
            if _from_the_log(one):
                found = times[one.path] if one.path in times else _times(one)
                measured = found.from_moment(since)
                late.histogram.merge(measured.lags(result.queryable_at))
                late.unmeasured += found.events - measured.events
    lag_histograms.add(table, {result.queryable_at: late})


def _from_the_log(segment: Segment | Marked) -> bool:
    """Snapshot rows were committed at no time that is known: a chunk's file may have no such column at all."""
    return segment.kind == SegmentKind.LOG.value


def _times(segment: Segment | Marked) -> CommitTimes:
    first, last = segment.first_commit_ts, segment.last_commit_ts
    changes = segment.rows - segment.reads  # rows that a chunk read are among them where the log overtook these in part
    if first is None or last is None:
        return CommitTimes()
    if first == last:
        return CommitTimes.same(first, changes)
    try:
        return read_commit_times(storage(), segment.path)
    except StagingError as error:
        # The rows are in the target all the same: its figures are then too bad rather than too good.
        LOGGER.warning("The commit times of %s are unknown, its oldest is used: %s", segment.path, error.message)
        return CommitTimes.same(first, changes)
