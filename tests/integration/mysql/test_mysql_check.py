"""The connection test against a live server, rightly and wrongly set up."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from replicator.errors import SourceUnreachable
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult, CheckStatus
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import connect
from replicator.sources.mysql.source import MySqlSource, open_source
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
TABLE = TableId("check_tests", "orders")
TABLES = TableSet(tables=frozenset({TABLE}))


@pytest.fixture(scope="module")
def root(mariadb: EmbeddedMariaDB) -> Iterator[pymysql.Connection[Any]]:
    connection = mariadb.connect()
    run(connection, "CREATE OR REPLACE DATABASE check_tests", "DROP DATABASE IF EXISTS check_marks")
    run(connection, "CREATE TABLE check_tests.orders (id int primary key)")
    yield connection
    run(connection, "DROP DATABASE check_tests", "DROP DATABASE IF EXISTS check_marks", "DROP USER IF EXISTS limited")
    connection.close()


@pytest.fixture
def config(mariadb: EmbeddedMariaDB, root: pymysql.Connection[Any]) -> MySqlConfig:
    return MySqlConfig.parse(mariadb.address | {"watermark_database": "check_marks"})


def run(connection: pymysql.Connection[Any], *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def checked(config: MySqlConfig, tables: TableSet | None = TABLES) -> dict[str, CheckResult]:
    return {result.name: result for result in MySqlSource(config).check(tables)}


def test_a_server_set_up_right_passes_every_check(config: MySqlConfig) -> None:
    results = checked(config)
    assert {result.status for result in results.values()} == {CheckStatus.OK}
    assert all(not result.remedy and result.detail for result in results.values())
    assert len(results) == 22


def test_a_wrong_password_fails_once_and_is_not_told(config: MySqlConfig) -> None:
    first, *others = MySqlSource(dataclasses.replace(config, password="s3cret!")).check()
    assert (first.name, first.status) == ("reachable", CheckStatus.FAILED)
    assert {(other.status, other.detail) for other in others} == {
        (CheckStatus.SKIPPED, "Not checked, because the login failed.")
    }
    assert "s3cret!" not in repr([first, *others])
    assert "s3cret!" not in repr(dataclasses.replace(config, password="s3cret!"))


def test_an_unreachable_host_fails_once(config: MySqlConfig) -> None:
    first, *others = MySqlSource(dataclasses.replace(config, port=1)).check()
    assert first.status is CheckStatus.FAILED
    assert {other.status for other in others} == {CheckStatus.SKIPPED}


def test_the_port_of_another_kind_of_server_is_told_soon(postgres_source: EmbeddedPostgresSource) -> None:
    """Postgres waits for its client to speak first: it took a minute."""
    config = MySqlConfig("127.0.0.1", postgres_source.address["port"], "u", "p", connect_timeout=1.0)
    with pytest.raises(SourceUnreachable, match="is not a MySQL or MariaDB server") as caught:
        connect(config)
    assert "Postgres" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "value", "check", "status"),
    [
        ("binlog_format", "'MIXED'", "binlog_format", CheckStatus.FAILED),
        ("binlog_row_image", "'MINIMAL'", "binlog_row_image", CheckStatus.FAILED),
        ("binlog_row_metadata", "'NO_LOG'", "binlog_row_metadata", CheckStatus.FAILED),
        ("binlog_expire_logs_seconds", "3600", "retention", CheckStatus.WARNING),
    ],
)
def test_a_wrong_setting_comes_with_its_remedy(
    root: pymysql.Connection[Any], config: MySqlConfig, name: str, value: str, check: str, status: CheckStatus
) -> None:
    with root.cursor() as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        (before,) = cursor.fetchone() or ("",)
    run(root, f"SET GLOBAL {name} = {value}")
    try:
        result = checked(config)[check]
    finally:
        run(root, f"SET GLOBAL {name} = {before if isinstance(before, int) else repr(before)}")
    assert result.status is status
    assert f"SET GLOBAL {name}" in result.remedy


def test_the_sources_own_server_id_is_refused(root: pymysql.Connection[Any], config: MySqlConfig) -> None:
    with root.cursor() as cursor:
        cursor.execute("SELECT @@server_id")
        (source,) = cursor.fetchone() or (0,)
    assert checked(dataclasses.replace(config, server_id=int(source)))["server_id"].status is CheckStatus.FAILED


def test_every_missing_grant_is_named_and_the_remedies_suffice(
    root: pymysql.Connection[Any], config: MySqlConfig
) -> None:
    run(
        root,
        "DROP USER IF EXISTS limited",
        "CREATE USER limited IDENTIFIED BY 'pw'",
        "DROP DATABASE IF EXISTS check_marks",
    )
    limited = dataclasses.replace(config, user="limited", password="pw")
    wanting = {name: result for name, result in checked(limited).items() if result.status is not CheckStatus.OK}
    named = {"grant_replication_slave", "grant_replication_client", "grant_select", "watermark"}
    assert named == {name for name, result in wanting.items() if result.status is CheckStatus.FAILED}
    for name in named:
        run(root, *(statement for statement in wanting[name].remedy.split(";\n") if statement.strip(" ;\n")))
    after = checked(limited)
    assert {name for name, result in after.items() if result.status is CheckStatus.FAILED} == set()
    assert after["watermark"].status is CheckStatus.OK


def test_a_server_that_takes_no_writes_is_said_to_be_one_and_no_grant_is_shown(
    root: pymysql.Connection[Any], config: MySqlConfig
) -> None:
    """https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html#error_er_option_prevents_statement"""
    run(root, "CREATE OR REPLACE USER limited IDENTIFIED BY 'pw'", "GRANT ALL ON check_marks.* TO limited")
    run(root, "SET GLOBAL read_only = 1")
    try:
        found = checked(dataclasses.replace(config, user="limited", password="pw"))["watermark"]
    finally:
        run(root, "SET GLOBAL read_only = 0")
    assert (found.status, "read-only" in found.detail, "GRANT" in found.remedy) == (CheckStatus.FAILED, True, False)
    assert found.remedy.startswith("Connect to a server that accepts writes")


def test_foreign_keys_that_act_below_the_log_are_told(root: pymysql.Connection[Any], config: MySqlConfig) -> None:
    run(
        root,
        "CREATE OR REPLACE TABLE check_tests.items (id int primary key, o int, "
        "foreign key (o) references orders (id) on delete cascade)",
    )
    found = checked(config, TableSet(databases=frozenset({"check_tests"})))["cascades"]
    run(root, "DROP TABLE check_tests.items")
    assert found.status is CheckStatus.WARNING
    assert "check_tests.items" in found.detail


def test_a_missing_table_and_a_refused_one_are_told(root: pymysql.Connection[Any], config: MySqlConfig) -> None:
    gone = TableSet(tables=frozenset({TableId("check_tests", "gone")}))
    assert checked(config, gone)["grant_select"].status is CheckStatus.FAILED
    run(root, "CREATE OR REPLACE TABLE check_tests.versioned (id int primary key) with system versioning")
    refused = checked(config, TableSet(databases=frozenset({"check_tests"})))["definitions"]
    run(root, "DROP TABLE check_tests.versioned")
    assert refused.status is CheckStatus.WARNING
    assert "check_tests.versioned" in refused.detail


def test_state_is_where_the_log_ends(mariadb: EmbeddedMariaDB, root: pymysql.Connection[Any]) -> None:
    source = open_source(mariadb.address)
    before = source.log("r1").state()
    run(root, "INSERT INTO check_tests.orders VALUES (1)")
    after = source.log("r1").state()
    assert before.offset < after.offset
    assert before.identity == after.identity
    assert after.offset.to_dict()["gtid"] != before.offset.to_dict()["gtid"]
    source.close()


def test_a_log_that_is_removed_leaves_no_row_and_no_other_replicators(
    mariadb: EmbeddedMariaDB, root: pymysql.Connection[Any], config: MySqlConfig
) -> None:
    run(root, "DROP DATABASE IF EXISTS tidemark")
    source = open_source(mariadb.address)
    source.log("r1").remove()  # neither database nor table is there
    reader = source.snapshot_reader("r1", source.options)
    other = source.snapshot_reader("r2", source.options)
    for one in (reader, other):
        one.mark("a token")
        one.close()
    source.log("r1").remove()
    source.log("r1").remove()
    with root.cursor() as cursor:
        cursor.execute("SELECT replicator FROM tidemark.watermark WHERE replicator IN ('r1', 'r2')")
        assert cursor.fetchall() == (("r2",),)
    assert source.log("r2").held(None) is None
    source.close()
