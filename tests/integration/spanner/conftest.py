from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.warehouse.copies import Copies
from tests.integration.warehouse.places import opened


@pytest.fixture
def copies(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copies]:
    """Tables in a separate schema."""
    with opened("spanner", request, tmp_path) as made:
        yield made
