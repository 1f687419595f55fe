"""The server: TIDEMARK_TEST_POSTGRES=host:port:user:password:database takes another one; its user is a superuser."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, connect, quoted
from replicator.sources.postgres.snapshot.reader import PostgresSnapshotReader
from replicator.sources.postgres.watermark import MESSAGES_SINCE, create_statements
from tests.integration.postgres_snapshot.tables import (
    REPLICATOR,
    SCHEMA,
    execute,
    reader_of,
)

TYPES = (
    "CREATE EXTENSION IF NOT EXISTS citext",
    "CREATE EXTENSION IF NOT EXISTS hstore",
    "CREATE EXTENSION IF NOT EXISTS ltree",
    "CREATE TYPE {s}.mood AS ENUM ('sad', 'ok', 'it''s, \"fine\"')",
    "CREATE TYPE {s}.pair AS (a int, b timestamptz)",
    "CREATE DOMAIN {s}.price AS numeric(10,2) CHECK (VALUE >= 0)",
    "CREATE DOMAIN {s}.dear AS {s}.price CHECK (VALUE >= 10)",
    "CREATE DOMAIN {s}.moods AS {s}.mood",
    "CREATE FUNCTION {s}.lie({s}.mood) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'lie' $$",
    "CREATE CAST ({s}.mood AS text) WITH FUNCTION {s}.lie({s}.mood)",
)


@pytest.fixture(scope="module")
def config(request: pytest.FixtureRequest) -> PostgresConfig:
    if other := os.environ.get("TIDEMARK_TEST_POSTGRES"):
        address = dict(zip(("host", "port", "user", "password", "database"), other.split(":"), strict=True))
    else:
        found = request.getfixturevalue("postgres_source").address
        address = found | {"database": found["dbname"]}
    return PostgresConfig.parse(address)


@pytest.fixture(scope="module")
def server(config: PostgresConfig) -> Iterator[Connection]:
    connection = connect(config)
    publication = quoted(config.publication_for(REPLICATOR))
    execute(connection, f"DROP SCHEMA IF EXISTS {quoted(SCHEMA)} CASCADE")
    execute(connection, f"CREATE SCHEMA {quoted(SCHEMA)}")
    execute(connection, f"SET search_path = {quoted(SCHEMA)}, public")
    for statement in TYPES:
        execute(connection, statement.replace("{s}", quoted(SCHEMA)))
    execute(connection, f"DROP PUBLICATION IF EXISTS {publication}")
    execute(connection, f"CREATE PUBLICATION {publication} FOR ALL TABLES")
    if connection.server_version < MESSAGES_SINCE:
        for statement in create_statements():
            execute(connection, statement)
    yield connection
    execute(connection, f"DROP PUBLICATION {publication}")
    execute(connection, f"DROP SCHEMA {quoted(SCHEMA)} CASCADE")
    connection.close()


@pytest.fixture(scope="module")
def slot(server: Connection) -> Iterator[str]:
    name = "snapshot_values"
    execute(server, f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    yield name
    execute(server, f"SELECT pg_drop_replication_slot('{name}')")


@pytest.fixture
def reader(config: PostgresConfig) -> Iterator[PostgresSnapshotReader]:
    reader = reader_of(config)
    yield reader
    reader.close()
