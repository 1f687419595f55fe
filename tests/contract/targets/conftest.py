"""The contract is kept by every target: one parameter each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.targets.places import LONG, PLACES, TargetPlace


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in sorted(PLACES)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TargetPlace]:
    made = PLACES[request.param](request, tmp_path)
    yield made
    made.close()
