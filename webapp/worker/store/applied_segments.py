"""What a target commit newly covers: marked and returned in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db import connection

from webapp.replicators.models import ReplicatorTable

# Only what has no mark: each segment is returned once, even if a worker died before or after a target commit.
MARK = """
WITH events AS (
  UPDATE replicators_tableeventrow SET applied_at = statement_timestamp()
  WHERE table_id = %(table)s AND applied_at IS NULL AND sequence <= %(applied)s
)
UPDATE replicators_segmentrow SET applied_at = statement_timestamp()
WHERE table_id = %(table)s AND applied_at IS NULL
  AND (last_sequence <= %(applied)s OR (kind = 'chunk' AND last_sequence <= %(loaded)s))
RETURNING kind, path, rows, inserts, updates, deletes, reads, first_commit_ts, last_commit_ts, size
"""


class Marked(NamedTuple):
    """A segment that the target holds now (see `replicator.state.journal.Segment`)."""

    kind: str
    path: str
    rows: int
    inserts: int
    updates: int
    deletes: int
    reads: int
    first_commit_ts: datetime | None
    last_commit_ts: datetime | None
    size: int


@dataclass(frozen=True)
class AppliedBatch:
    """The segments of one target commit, and the sums of their row events."""

    segments: Sequence[Marked]
    inserts: int
    updates: int
    deletes: int
    reads: int

    @classmethod
    def of(cls, segments: Sequence[Marked]) -> AppliedBatch:
        """With the sums."""
        sums = [sum(column) for column in zip(*(one[3:7] for one in segments), strict=True)] or [0, 0, 0, 0]
        return cls(segments, *sums)

    @property
    def changes(self) -> int:
        """Without snapshot rows."""
        return self.inserts + self.updates + self.deletes

    @property
    def bytes(self) -> int:
        """Of the staged files."""
        return sum(one.size for one in self.segments)

    @property
    def last_commit_ts(self) -> datetime | None:
        """Of the log's newest change; None where there is none."""
        return max((one.last_commit_ts for one in self.segments if one.last_commit_ts is not None), default=None)


def mark_applied(row: ReplicatorTable, applied: int, loaded: int) -> AppliedBatch:
    """Up to these sequence numbers, in the transaction that saves the row.  Events are marked too."""
    with connection.cursor() as cursor:
        cursor.execute(MARK, {"table": row.pk, "applied": applied, "loaded": loaded})
        return AppliedBatch.of([Marked(*found) for found in cursor.fetchall()])
