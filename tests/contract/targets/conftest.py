"""The contract is kept by every target: one parameter each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.targets.places import PLACES, TargetPlace


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TargetPlace]:
    made = PLACES[request.param](request, tmp_path)
    yield made
    made.close()
