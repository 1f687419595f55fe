"""The contract is kept by every target: one parameter each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.targets.live import DESTINATION, live_place
from tests.contract.targets.places import LONG, PLACES, TargetPlace

LIVE = "live"
NAMES = [LIVE] if DESTINATION in os.environ else sorted(PLACES)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in NAMES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TargetPlace]:
    made = live_place(tmp_path) if request.param == LIVE else PLACES[request.param](request, tmp_path)
    yield made
    made.close()
