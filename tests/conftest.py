"""Live servers for the tests: embedded, started on first use, ended with the run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres import EmbeddedPostgres
from webapp.embedded.redis import EmbeddedRedis

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
HOME = Path(tempfile.mkdtemp(prefix="tidemark-test-"))
HOME.chmod(0o755)
_postgres = EmbeddedPostgres(HOME / "postgres", durable=False)

# The settings read the environment when they are loaded, which is before any fixture.
os.environ |= {
    "TIDEMARK_HOME": str(HOME),
    "DATABASE_URL": _postgres.url,
    "TIDEMARK_STAGING_URL": (HOME / "staging").as_uri(),
    "TIDEMARK_WAREHOUSE_URL": (HOME / "warehouse").as_uri(),
    "DJANGO_ALLOW_ASYNC_UNSAFE": "true",  # Playwright's loop runs in the tests' own thread
}
os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    _postgres.stop()
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """DATABASE_URL of a running metadata database."""
    if not _postgres.running:
        _postgres.start()
    return _postgres.url


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_url: str) -> None:
    """pytest-django asks for this before it makes the test database: the server has to run by then."""


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    redis = EmbeddedRedis(HOME / "redis")
    redis.start()
    yield redis.url
    redis.stop()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[EmbeddedMariaDB]:
    """A live MariaDB 11.4 with the settings that replication needs."""
    server = EmbeddedMariaDB(HOME / "mariadb")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The sample databases; tests that need them skip where they are absent."""
    if not SHARED.exists():
        pytest.skip(f"the sample databases are not at {SHARED.name}/ beside the checkout")
    return SHARED
