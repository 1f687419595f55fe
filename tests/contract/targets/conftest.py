"""The contract is kept by every target: one parameter each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import pytest

from tests.contract.targets.live import DESTINATION, live_place
from tests.contract.targets.places import FORMS, LONG, PLACES, SHARED, TargetPlace

HERE = Path(__file__).parent
LIVE = "live"
NAMES = [LIVE] if DESTINATION in os.environ else sorted(PLACES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test of the contract in one of FORMS, in all in `make test-long`; those of parts where tables have any."""
    items[:] = [one for one in items if "parts" not in _fixtures(one) or _place(one) in (*SHARED, LIVE)]
    for item in items:
        place = _place(item)
        if place in FORMS and FORMS[crc32(item.name.replace(place, "").encode()) % len(FORMS)] != place:
            item.add_marker(pytest.mark.long)


def _fixtures(item: pytest.Item) -> Sequence[str]:
    """Of a test of the contract."""
    return item.fixturenames if isinstance(item, pytest.Function) and item.path.parent == HERE else ()


def _place(item: pytest.Item) -> str:
    """Empty where the test is of no place."""
    return str(item.callspec.params.get("place", "")) if hasattr(item, "callspec") else ""


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in NAMES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TargetPlace]:
    made = live_place(tmp_path) if request.param == LIVE else PLACES[request.param](request, tmp_path)
    yield made
    made.close()
