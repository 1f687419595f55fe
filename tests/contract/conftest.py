"""The contract is kept by every source: one parameter each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator.sources.registry import source_kind
from tests.contract.place import Place


@pytest.fixture(params=["mariadb", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "mariadb":
        server = request.getfixturevalue("mariadb")
        session = server.connect()
        session.autocommit(False)
        place = Place(source_kind("mysql"), server.address, session)
    else:
        server = request.getfixturevalue("postgres_source")
        session = server.connect()
        session.autocommit = False
        place = Place(source_kind("postgres"), server.address | {"database": server.database}, session)
    yield place
    place.close()
