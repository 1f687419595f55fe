"""How verification reaches a Postgres, and what it says where it cannot."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from replicator.errors import SourceUnreachable
from replicator.verification import CatalogConfig, Options, SourceConfig, TablePair, compare
from replicator.verification.postgres.reader import PostgresReader
from replicator.verification.source import SourceTable
from testing.servers.tls import certificate, offer_tls
from tests.environment import HOME
from tests.integration.verification.conftest import SCHEMA, Sql, Write, config_of, reader_of, small
from webapp.embedded.postgres_source import EmbeddedPostgresSource


def test_rows_that_a_policy_hides_are_an_error_and_not_a_smaller_table(
    small_source: Sql, write: Write, lake: SqlCatalog, postgres_source: EmbeddedPostgresSource
) -> None:
    small_source(
        "CREATE ROLE reader LOGIN PASSWORD 'reader';"
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO reader; GRANT SELECT ON {SCHEMA}.t TO reader;"
        f"ALTER TABLE {SCHEMA}.t ENABLE ROW LEVEL SECURITY; CREATE POLICY one ON {SCHEMA}.t USING (id = 1)"
    )
    write("t", small([(1, "one")]))
    server = postgres_source
    config = SourceConfig(server.host, server.port, "reader", "reader", database=server.database)
    catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
    try:
        [report] = compare(
            partial(PostgresReader, config), catalog, [TablePair("verify me", "t", "verify me", "t", ("id",))]
        )
    finally:
        small_source(f"DROP TABLE {SCHEMA}.t; DROP OWNED BY reader; DROP ROLE reader")
    assert "row-level security policy" in report.error


def test_a_source_that_breaks_off_is_read_again_with_the_next_table(
    small_source: Sql,
    write: Write,
    lake: SqlCatalog,
    postgres_source: EmbeddedPostgresSource,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write("t", small([(1, "one"), (2, None)]))
    catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemark-verify'"
    pair = TablePair("verify me", "t", "verify me", "t", ("id",))
    options = Options(retries=1, before_recheck=lambda: small_source(kill))
    first, second = compare(reader_of(postgres_source), catalog, [pair, pair], options)
    assert [(one.missing, one.error, one.rechecks) for one in (first, second)] == [(1, "", 1)] * 2, "between two looks"
    describe = PostgresReader.describe

    def killed(reader: PostgresReader, *asked: Any) -> SourceTable:
        table = describe(reader, *asked)
        small_source(kill)
        return table

    monkeypatch.setattr(PostgresReader, "describe", killed)
    first, second = compare(reader_of(postgres_source), catalog, [pair, pair], options)
    assert "the connection to the source was lost while verify me.t was read" in first.error
    assert "the connection to the source was lost" in second.error, (
        "the second began with a connection of its own, and lost that one"
    )


def test_a_source_that_refuses_the_login_is_unreachable_without_its_password(
    lake: SqlCatalog, postgres_source: EmbeddedPostgresSource
) -> None:
    server = postgres_source
    config = SourceConfig(server.host, server.port, server.user, "wr0ng", database="shop")
    catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
    with pytest.raises(SourceUnreachable, match="password authentication failed") as caught:
        compare(partial(PostgresReader, config), catalog, [])
    assert "wr0ng" not in str(caught.value)


def test_only_a_server_that_the_given_authority_vouches_for_is_read(lake: SqlCatalog, tmp_path: Path) -> None:
    server = EmbeddedPostgresSource(HOME / f"tls-{tmp_path.name}", durable=False)
    server.start()
    try:
        own = offer_tls(server)
        config = replace(config_of(server), connect={"sslmode": "verify-full"})
        catalog = CatalogConfig("lake", lake.properties["uri"], lake.properties["warehouse"])
        assert compare(partial(PostgresReader, replace(config, ca=own)), catalog, []) == []
        with pytest.raises(SourceUnreachable, match="certificate verify failed"):
            compare(partial(PostgresReader, replace(config, ca=certificate()[0])), catalog, [])
    finally:
        server.stop()
