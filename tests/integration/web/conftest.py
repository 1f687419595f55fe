"""A signed-in client on a busy installation, and a source without a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from django.test import Client

from replicator.sources import registry
from tests.browser.factories import Installation, make_installation
from tests.browser.fake_source import FORM, FakeSource
from webapp.embedded.postgres import EmbeddedPostgres

# Whitenoise warns of a folder that only `collectstatic` makes.
pytestmark = pytest.mark.filterwarnings("ignore:No directory at")


@pytest.fixture
def made(db: None, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.setitem(registry.KINDS, "mysql", replace(registry.KINDS["mysql"], open=FakeSource, form=FORM))
    return make_installation()


@pytest.fixture
def browser(made: Installation) -> Client:
    client = Client()
    client.force_login(made.user)
    return client


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A metadata database of the test's own."""
    server = EmbeddedPostgres(tmp_path / "metadata", durable=False)
    server.start()
    yield server
    server.stop()
