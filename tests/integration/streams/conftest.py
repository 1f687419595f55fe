"""Labs of the pipeline's tests, an HTTP server, and a client of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from replicator.streams.client import Client
from tests.integration.pipeline.lab import Lab
from webapp.accounts import services as accounts
from webapp.embedded.mariadb import EmbeddedMariaDB


@pytest.fixture(autouse=True, scope="session")
def static_folder() -> None:
    """WhiteNoise warns where there is none, and a warning is an error here."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@pytest.fixture
def lab(mariadb: EmbeddedMariaDB, transactional_db: Any) -> Iterator[Lab]:
    one = Lab(mariadb.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


@pytest.fixture
def client(live_server: Any) -> Client:
    """Of a real server, with a token."""
    user = User.objects.create_superuser("ada")
    return Client(live_server.url, accounts.create_token(user=user, name="tests"), patience=30)


@pytest.fixture
def staging(tmp_path: Path, settings: Any) -> None:
    """Of the test's own."""
    settings.TIDEMARK_STAGING_URL = tmp_path.as_uri()


@pytest.fixture
def api(db: None) -> APIClient:
    """Without a server."""
    user = User.objects.create_superuser("ada")
    one = APIClient()
    one.credentials(HTTP_AUTHORIZATION=f"Bearer {accounts.create_token(user=user, name='tests')}")
    return one
