"""Live Postgres sources, and Iceberg tables that pyiceberg writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.environment import HOME
from webapp.embedded.postgres_source import VERSION, EmbeddedPostgresSource


@pytest.fixture(scope="session")
def postgres_version() -> Iterator[Callable[[str], EmbeddedPostgresSource]]:
    """postgres_version("13.22.0") → a running server of that version, one for the whole run."""
    servers: dict[str, EmbeddedPostgresSource] = {}

    def of(version: str) -> EmbeddedPostgresSource:
        if version not in servers:
            server = EmbeddedPostgresSource(HOME / f"postgres-{version}", version=version, durable=False)
            server.start()
            servers[version] = server
        return servers[version]

    yield of
    for server in servers.values():
        server.stop()


@pytest.fixture(scope="session")
def postgres_source(postgres_version: Callable[[str], EmbeddedPostgresSource]) -> EmbeddedPostgresSource:
    """A live Postgres 17 with the settings that replication needs."""
    return postgres_version(VERSION)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SqlCatalog]:
    """A catalog of its own with the namespace `verify me`."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("verify me")
    yield catalog
    catalog.engine.dispose()


@pytest.fixture
def write(lake: SqlCatalog) -> Callable[[str, pa.Table], None]:
    """write(name, rows): the table in the place of one that is there, with sequence numbers where it has none."""

    def write(name: str, rows: pa.Table) -> None:
        if "_sequence_num" not in rows.column_names:
            rows = rows.append_column("_sequence_num", pa.array(range(len(rows)), pa.int64()))
        if lake.table_exists(("verify me", name)):
            lake.drop_table(("verify me", name))
        lake.create_table(("verify me", name), rows.schema).append(rows)

    return write
