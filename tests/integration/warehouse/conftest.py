from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.warehouse.copies import Copies
from tests.integration.warehouse.places import opened


@pytest.fixture(params=["enforced", "indexed"])
def copies(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copies]:
    """Tables in a separate namespace: in Postgres, with primary keys and with indexes, where a test names no places."""
    with opened(request.param, request, tmp_path) as made:
        yield made


@pytest.fixture
def one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copies]:
    """In Postgres with primary keys, where the way of the keys does not matter."""
    with opened("enforced", request, tmp_path) as made:
        yield made


@pytest.fixture
def shift(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copies]:
    """In a stand-in for Redshift."""
    with opened("redshift", request, tmp_path) as made:
        yield made


@pytest.fixture
def snow(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copies]:
    """In a stand-in for Snowflake."""
    with opened("snowflake", request, tmp_path) as made:
        yield made


@pytest.fixture
def big(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Copies]:
    """In a stand-in for BigQuery."""
    with opened("bigquery", request, tmp_path) as made:
        yield made
