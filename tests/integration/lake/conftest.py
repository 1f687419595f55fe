"""Fronts before the live REST catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.rest_front import RestFront


@pytest.fixture
def front(rest_catalog: EmbeddedRestCatalog) -> Iterator[Callable[..., RestFront]]:
    """front(…) → one that is started."""
    made: list[RestFront] = []

    def start(**settings: Any) -> RestFront:
        made.append(RestFront(rest_catalog.uri, **settings))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        each.stop()
