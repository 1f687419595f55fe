"""The production shape on the tests' servers: `manage.py up`, a broker that may be killed, a source with three
tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from tests.crash.faults.traffic import fill
from tests.crash.fleet import Fleet
from tests.environment import HOME
from tests.integration.pipeline.lab import Lab
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.redis import EmbeddedRedis


@pytest.fixture
def database_url(transactional_db: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the tests' database, where the workers' catalog is too."""
    server, _, _ = settings.DATABASE_URL.rpartition("/")
    url = f"{server}/{connections['default'].settings_dict['NAME']}"
    monkeypatch.setattr(settings, "DATABASE_URL", url)
    return url


@pytest.fixture
def broker() -> Iterator[EmbeddedRedis]:
    """One of the test's own: it is killed."""
    server = EmbeddedRedis(HOME / "broker")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def lab(mariadb: EmbeddedMariaDB, transactional_db: Any, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Named for its file: what one test's replicator left in the target is not another's."""
    one = Lab(mariadb.address, request.path.stem)
    fill(one)
    yield one
    one.close()


@pytest.fixture
def fleet(broker: EmbeddedRedis, database_url: str) -> Iterator[Fleet]:
    with Fleet(HOME / "home", broker, {**os.environ, "DATABASE_URL": database_url}) as one:
        yield one
