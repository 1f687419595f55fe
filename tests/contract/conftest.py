"""The contract is kept by every source: one line each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest

from tests.contract.live import SOURCE, live_settings
from tests.contract.mariadb import MariaDbPlace
from tests.contract.oracle import OracleKeptPlace, OraclePlace
from tests.contract.place import Place
from tests.contract.postgres import PostgresPlace
from tests.contract.sqlserver import SqlServerPlace
from tests.plugins.sqlite_log.place import SqlitePlace

PLACES: Mapping[str, type[Place]] = {
    "mariadb": MariaDbPlace,
    "oracle": OraclePlace,
    "oracle_kept": OracleKeptPlace,
    "postgres": PostgresPlace,
    "sqlserver": SqlServerPlace,
    "sqlite_log": SqlitePlace,
}


_LONG = {"oracle_kept"}  # the same server in another mode
_PLAYED = [os.environ[SOURCE]] if SOURCE in os.environ else PLACES
# By source, tests that take long on its stand-in: `make test-long` runs them.
SLOW: Mapping[str, str] = {"sqlserver": "test_a_transaction_ends_with_one_commit_however_large_it_is"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Not at a real server."""
    played = [one for one in items if isinstance(one, pytest.Function) and hasattr(one, "callspec")]
    for item in played if SOURCE not in os.environ else ():
        if SLOW.get(item.callspec.params.get("place", "")) == item.originalname:
            item.add_marker(pytest.mark.long)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.long if name in _LONG else ()) for name in _PLAYED])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    kind = PLACES[request.param]
    opened = kind.live(live_settings()) if SOURCE in os.environ else kind.opened(request)
    yield opened
    opened.close()
