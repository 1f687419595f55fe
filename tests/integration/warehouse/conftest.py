from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator import faults
from testing.servers.redshift import EmbeddedRedshift
from testing.servers.s3 import EmbeddedS3
from tests.integration.warehouse.copies import PostgresCopies, RedshiftCopies
from webapp.embedded.postgres_source import EmbeddedPostgresSource

NAMES = itertools.count(1)


@pytest.fixture(params=["enforced", "indexed"])
def copies(
    request: pytest.FixtureRequest, postgres_source: EmbeddedPostgresSource, tmp_path: Path
) -> Iterator[PostgresCopies]:
    """Tables in a schema of their own."""
    made = PostgresCopies(postgres_source, tmp_path, request.param, f"copies_{next(NAMES)}")
    yield made
    faults.disarm()
    made.close()


@pytest.fixture
def one(postgres_source: EmbeddedPostgresSource, tmp_path: Path) -> Iterator[PostgresCopies]:
    """With primary keys, where the way of the keys does not matter."""
    made = PostgresCopies(postgres_source, tmp_path, "enforced", f"copies_{next(NAMES)}")
    yield made
    faults.disarm()
    made.close()


@pytest.fixture
def shift(redshift: EmbeddedRedshift, s3_server: EmbeddedS3, tmp_path: Path) -> Iterator[RedshiftCopies]:
    """In a stand-in for Redshift."""
    name = f"copies_{next(NAMES)}"
    made = RedshiftCopies(redshift, tmp_path, f"{s3_server.url}/{name}", name)
    yield made
    faults.disarm()
    made.close()
