"""A pytest plugin (`-p tests.environment`): the environment of the tests, set before Django's settings are loaded."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

from tests import java
from webapp.embedded.postgres import EmbeddedPostgres

gc.disable()  # while tests are collected nothing becomes garbage: a quarter of each worker's start; conftest enables it

HOME = Path(tempfile.mkdtemp(prefix="tidemark-test-"))
HOME.chmod(0o755)
SERVERS = HOME / "servers"  # data of servers whose folder is pytest's, which is closed: it goes with the tests
SERVERS.mkdir()
SERVERS.chmod(0o755)
POSTGRES = EmbeddedPostgres(HOME / "postgres", durable=False)  # started by the first test that needs it

os.environ |= {
    "TIDEMARK_SERVER_FOLDERS": str(SERVERS),
    "TIDEMARK_HOME": str(HOME / "home"),  # what lies in it is closed to the servers' user
    "DATABASE_URL": POSTGRES.url,
    "TIDEMARK_STAGING_URL": (HOME / "staging").as_uri(),
    "TIDEMARK_WAREHOUSE_URL": (HOME / "warehouse").as_uri(),
    "DJANGO_ALLOW_ASYNC_UNSAFE": "true",  # Playwright's loop runs in the tests' own thread
}
os.environ.setdefault("JAVA_TOOL_OPTIONS", java.SHORT_LIVED)
os.environ.setdefault("REDIS_URL", "redis://127.0.0.1:1/0")
