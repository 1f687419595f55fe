"""The contract is kept by every source: one line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.contract.mariadb import MariaDbPlace
from tests.contract.place import Place
from tests.contract.postgres import PostgresPlace

PLACES: Mapping[str, type[Place]] = {
    "mariadb": MariaDbPlace,
    "postgres": PostgresPlace,
}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    opened = PLACES[request.param].opened(request)
    yield opened
    opened.close()
