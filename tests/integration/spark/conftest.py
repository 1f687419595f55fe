"""One Spark for all of these tests."""

from __future__ import annotations

import pytest

from tests.integration.spark.lake import Lake


@pytest.fixture(scope="session")
def lake(iceberg_lake: Lake) -> Lake:
    """That of the contract's tests, too."""
    return iceberg_lake
