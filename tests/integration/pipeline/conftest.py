"""A lab per test: its own database on a live server, and a replicator of it."""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as installed
from django.db import connection

from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres_source import EmbeddedPostgresSource

SOURCES = ("mariadb", "postgres")


@pytest.fixture
def lab(mariadb: EmbeddedMariaDB, transactional_db: Any) -> Iterator[Lab]:
    one = Lab(mariadb.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What `any_lab` proves is not of one source: `make test` runs each such test on one of the two, half of them on
    either, and `make test-long` on the other.
    """
    for item in items:
        if isinstance(item, pytest.Function) and "any_lab" in item.fixturenames:
            kept = SOURCES[zlib.crc32(item.originalname.encode()) % len(SOURCES)]
            if item.callspec.params["any_lab"] != kept:
                item.add_marker(pytest.mark.long)


@pytest.fixture(params=SOURCES)
def any_lab(request: pytest.FixtureRequest, transactional_db: Any) -> Iterator[Lab]:
    """The same test on either kind of source."""
    name = f"lab_{uuid.uuid4().hex[:8]}"
    if request.param == "mariadb":
        mariadb: EmbeddedMariaDB = request.getfixturevalue("mariadb")
        one = Lab(mariadb.address, name)
    else:
        server: EmbeddedPostgresSource = request.getfixturevalue("postgres_source")
        one = PostgresLab(server.address, name)
    yield one
    one.close()


@pytest.fixture
def process_environment(transactional_db: Any, settings: Any) -> dict[str, str]:
    """For a manage.py in a separate process: the tests' database, and with it the catalog that the test reads."""
    url, _, _ = installed.DATABASE_URL.rpartition("/")
    settings.DATABASE_URL = f"{url}/{connection.settings_dict['NAME']}"
    return {**os.environ, "DATABASE_URL": settings.DATABASE_URL}
