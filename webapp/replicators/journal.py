"""The journal's rows as the engine knows them."""

from __future__ import annotations

from replicator.model.identifiers import TableId
from replicator.state.journal import Segment, SegmentKind
from webapp.replicators import models


def segment_of(table: TableId, row: models.SegmentRow) -> Segment:
    """The journal's row as the engine knows it."""
    return Segment(
        table=table,
        kind=SegmentKind(row.kind),
        schema_version=row.schema_version,
        first_sequence=row.first_sequence,
        last_sequence=row.last_sequence,
        path=row.path,
        rows=row.rows,
        size=row.size,
        inserts=row.inserts,
        updates=row.updates,
        deletes=row.deletes,
        reads=row.reads,
        first_commit_ts=row.first_commit_ts,
        last_commit_ts=row.last_commit_ts,
        bare=row.bare,
        without=tuple(row.without),
        journaled_at=row.created_at,
    )
