"""A schema of odd names and types on a live Postgres, and its comparison with what pyiceberg wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from replicator.verification import CatalogConfig, OpenReader, Options, SourceConfig, TablePair, TableReport, compare
from replicator.verification.postgres.reader import PostgresReader
from webapp.embedded.postgres_source import EmbeddedPostgresSource

Write = Callable[[str, pa.Table], None]
Sql = Callable[[str], None]
Check = Callable[..., TableReport]
SCHEMA = '"verify me"'
PREPARE = f"""
    CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public; CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
    CREATE EXTENSION IF NOT EXISTS ltree SCHEMA public;
    DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA};
    CREATE TYPE {SCHEMA}.mood AS ENUM ('sad', 'oh ''well''');
    CREATE TYPE {SCHEMA}.pair AS (a int, "b c" text);
    CREATE DOMAIN {SCHEMA}.price AS numeric(10, 2);
    CREATE DOMAIN {SCHEMA}.good_price AS {SCHEMA}.price CHECK (VALUE > -100);
    CREATE DOMAIN {SCHEMA}.code AS char(4);
    CREATE DOMAIN {SCHEMA}.yes AS boolean;
    CREATE DOMAIN {SCHEMA}.ratio AS real;
    CREATE DOMAIN {SCHEMA}.raw AS bytea;
    CREATE DOMAIN {SCHEMA}.day AS date;
"""


def config_of(server: EmbeddedPostgresSource) -> SourceConfig:
    return SourceConfig(server.host, server.port, server.user, server.password, database=server.database)


def reader_of(server: EmbeddedPostgresSource) -> OpenReader:
    return partial(PostgresReader, config_of(server))


def runs(server: EmbeddedPostgresSource) -> Sql:
    """Runs statements, far from the settings of verification itself."""

    def run(statement: str) -> None:
        connection = server.connect(options="-c TimeZone=Asia/Kolkata -c DateStyle=German -c bytea_output=escape")
        with connection.cursor() as cursor:
            cursor.execute(statement)
        connection.close()

    return run


def checker(server: EmbeddedPostgresSource, lake: SqlCatalog) -> Check:
    def check(
        table: str, key: tuple[str, ...] = ("id",), excluded: frozenset[str] = frozenset(), **options: Any
    ) -> TableReport:
        catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
        pair = TablePair("verify me", table, "verify me", table, key, excluded)
        [report] = compare(reader_of(server), catalog, [pair], Options(**options))
        return report

    return check


@pytest.fixture
def sql(postgres_source: EmbeddedPostgresSource) -> Iterator[Sql]:
    run = runs(postgres_source)
    run(PREPARE)
    run(f"ALTER ROLE {postgres_source.user} SET extra_float_digits = -5")
    yield run
    run(f"ALTER ROLE {postgres_source.user} RESET ALL; DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture
def check(postgres_source: EmbeddedPostgresSource, lake: SqlCatalog) -> Check:
    return checker(postgres_source, lake)


def small(rows: list[tuple[int, str | None]]) -> pa.Table:
    columns = {"id": pa.array([r[0] for r in rows], pa.int32()), "v": pa.array([r[1] for r in rows], pa.string())}
    return pa.table(columns)


@pytest.fixture
def small_source(sql: Sql) -> Sql:
    sql(f"CREATE TABLE {SCHEMA}.t (id int PRIMARY KEY, v text)")
    sql(f"INSERT INTO {SCHEMA}.t VALUES (1, 'one'), (2, NULL), (3, '')")
    return sql
