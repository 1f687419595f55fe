"""Where the scenes of warehouses are played: a line for each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from replicator import faults
from tests.integration.warehouse.clouds import BigQueryCopies, SnowflakeCopies, SpannerCopies
from tests.integration.warehouse.copies import Copies, PostgresCopies, RedshiftCopies

NAMES = itertools.count(1)


def _postgres(keys: str) -> Callable[[pytest.FixtureRequest, Path, str], Copies]:
    return lambda request, folder, name: PostgresCopies(request.getfixturevalue("postgres_source"), folder, keys, name)


def _redshift(request: pytest.FixtureRequest, folder: Path, name: str) -> Copies:
    bucket = f"{request.getfixturevalue('s3_server').url}/{name}"
    return RedshiftCopies(request.getfixturevalue("redshift"), folder, bucket, name)


def _spanner(mutations: int) -> Callable[[pytest.FixtureRequest, Path, str], Copies]:
    return lambda request, folder, name: SpannerCopies(
        request.getfixturevalue("spanner_server"), folder, name, mutations
    )


PLACES: Mapping[str, Callable[[pytest.FixtureRequest, Path, str], Copies]] = {
    "enforced": _postgres("enforced"),
    "indexed": _postgres("indexed"),
    "redshift": _redshift,
    "snowflake": lambda request, folder, name: SnowflakeCopies(
        request.getfixturevalue("snowflake_server"), folder, name.replace("_", " ")
    ),
    "bigquery": lambda request, folder, name: BigQueryCopies(request.getfixturevalue("bigquery_server"), folder, name),
    "spanner": _spanner(0),
    "spanner_in_pieces": _spanner(100),
}
WAREHOUSES = ("enforced", "redshift", "snowflake", "bigquery", "spanner")


@contextmanager
def opened(place: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Copies]:
    """Copies in a separate namespace."""
    made = PLACES[place](request, folder, f"copies_{next(NAMES)}")
    try:
        yield made
    finally:
        faults.disarm()  # where a test has failed with one
        made.close()
