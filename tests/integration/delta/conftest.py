from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator import faults
from tests.integration.delta.lake import DeltaLake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[DeltaLake]:
    yield DeltaLake.at(tmp_path)
    faults.disarm()
