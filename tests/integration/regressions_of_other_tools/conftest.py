"""What the regressions stand on: the pipeline's lab, and chunks of a handful of rows."""

from __future__ import annotations

import pytest

from replicator.snapshot import sizing
from tests.integration.pipeline.conftest import lab, process_environment
from webapp.replicators.models import SnapshotRun

__all__ = ["lab", "process_environment", "small_chunks"]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Read snapshots in chunks of this many rows."""
    rows = 7
    monkeypatch.setattr(sizing, "START_ROWS", rows)
    monkeypatch.setattr(sizing, "MAX_ROWS", rows)
    monkeypatch.setattr(SnapshotRun._meta.get_field("chunk_rows"), "default", rows)
    return rows
