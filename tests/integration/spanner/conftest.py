from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator import faults
from testing.servers.spanner import EmbeddedSpanner
from tests.integration.spanner.copies import SpannerCopies

NAMES = itertools.count(1)


@pytest.fixture
def copies(spanner_server: EmbeddedSpanner, tmp_path: Path) -> Iterator[SpannerCopies]:
    """Tables in a schema of their own."""
    made = SpannerCopies(spanner_server, tmp_path, f"copies_{next(NAMES)}")
    yield made
    faults.disarm()
    made.close()
