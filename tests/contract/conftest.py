"""The contract is kept by every source: one line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.contract.mariadb import MariaDbPlace
from tests.contract.oracle import OracleKeptPlace, OraclePlace
from tests.contract.place import Place
from tests.contract.postgres import PostgresPlace
from tests.plugins.sqlite_log.place import SqlitePlace

PLACES: Mapping[str, type[Place]] = {
    "mariadb": MariaDbPlace,
    "oracle": OraclePlace,
    "oracle_kept": OracleKeptPlace,
    "postgres": PostgresPlace,
    "sqlite_log": SqlitePlace,
}


_LONG = {"oracle_kept"}  # the same server in another mode


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.long if name in _LONG else ()) for name in PLACES])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    opened = PLACES[request.param].opened(request)
    yield opened
    opened.close()
