"""A lab per test: a database of its own on the live MariaDB, and a replicator of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from tests.integration.pipeline.lab import Lab
from webapp.embedded.mariadb import EmbeddedMariaDB


@pytest.fixture
def lab(mariadb: EmbeddedMariaDB, transactional_db: Any) -> Iterator[Lab]:
    one = Lab(mariadb.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


@pytest.fixture
def process_environment(transactional_db: Any) -> dict[str, str]:
    """For a manage.py in a process of its own, on the tests' database."""
    url, _, _ = settings.DATABASE_URL.rpartition("/")
    return {**os.environ, "DATABASE_URL": f"{url}/{connection.settings_dict['NAME']}"}
