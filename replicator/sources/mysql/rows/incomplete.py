"""Rows in the log that lack values."""

from __future__ import annotations

from replicator.errors import RowImageIncomplete

_REMEDY = "SET GLOBAL binlog_row_image = 'FULL'; then reconnect the writing sessions and resnapshot the table."


def incomplete(message: str, table: str | None = None) -> RowImageIncomplete:
    """With the server's own statement as the remedy."""
    return RowImageIncomplete(message, table=table, remedy=_REMEDY)
