"""Compaction of small files, and deletion of files that no version needs that is kept."""

from __future__ import annotations

from replicator.model.retention import Retention
from replicator.targets.delta.table import OpenTable


def maintain(table: OpenTable, retention: Retention) -> str:
    """A sentence of what was done; empty where nothing was due."""
    del table, retention
    return ""
