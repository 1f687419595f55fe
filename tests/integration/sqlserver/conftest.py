"""A database of the emulator for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from tests.contract.sqlserver import SqlServerPlace
from tests.integration.sqlserver.emulated import Database

_NUMBERS = itertools.count(1)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[SqlServerPlace]:
    opened = SqlServerPlace.opened(request)
    yield opened
    opened.close()


@pytest.fixture
def database(sqlserver: EmbeddedSQLServer) -> Iterator[Database]:
    """It has change data capture, and allows snapshot isolation."""
    name = f"emulated{next(_NUMBERS)}"
    with closing(sqlserver.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    made = Database(sqlserver, name)
    made.run("EXEC sys.sp_cdc_enable_db", "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
    yield made
    made.close()
    with closing(sqlserver.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture
def session(database: Database) -> Iterator[Callable[..., Database]]:
    """More sessions of the database."""
    made: list[Database] = []

    def new() -> Database:
        made.append(Database(database.server, database.name))
        return made[-1]

    yield new
    for one in made:
        one.close()
