"""The connection test against live servers, rightly and wrongly set up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest
from psycopg2.extras import LogicalReplicationConnection

from replicator.errors import (
    ConfigurationError,
    SourceAuthenticationFailed,
    SourceMisconfigured,
    SourcePermissionDenied,
    SourceUnreachable,
    TableBusy,
    TableDisappeared,
    TableError,
    TableNotRead,
    TidemarkError,
)
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckResult, CheckStatus
from replicator.sources.postgres.config import PostgresConfig, TlsMode
from replicator.sources.postgres.connection import SESSION_SETTINGS, Connection, connect, literal, quoted, read_rows
from replicator.sources.postgres.source import PostgresSource, open_source
from tests.environment import HOME
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
SCHEMA = "check_tests"
TABLE = TableId(SCHEMA, "orders")
TABLES = TableSet(tables=frozenset({TABLE}))
SECRET = "s3cret!"
OF_TABLES = {"grant_select", "replica_identity", "definitions"}  # looked at when there are any


def run(connection: Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def config_of(server: EmbeddedPostgresSource) -> PostgresConfig:
    return PostgresConfig.parse(server.address | {"database": server.database})


def clear(root: Connection) -> None:
    run(root, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", "DROP PUBLICATION IF EXISTS brought")
    known = {row[0] for row in read_rows(root, "SELECT rolname::text FROM pg_catalog.pg_roles", "roles")}
    for role in {"check_limited", "check_owner"} & known:
        run(root, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.fixture
def config(postgres_source: EmbeddedPostgresSource) -> PostgresConfig:
    return config_of(postgres_source)


@pytest.fixture
def root(config: PostgresConfig) -> Iterator[Connection]:
    """A superuser; one table of another owner, and a user who may do nothing."""
    connection = connect(config)
    clear(connection)
    run(
        connection,
        "CREATE ROLE check_owner",
        f"CREATE ROLE check_limited LOGIN PASSWORD '{SECRET}'",
        f"CREATE SCHEMA {SCHEMA}",
        f"CREATE TABLE {SCHEMA}.orders (id int PRIMARY KEY)",
        f"ALTER TABLE {SCHEMA}.orders OWNER TO check_owner",
    )
    yield connection
    clear(connection)
    connection.close()


@pytest.fixture
def limited(config: PostgresConfig, root: Connection) -> PostgresConfig:
    return dataclasses.replace(config, user="check_limited", password=SECRET)


def checked(config: PostgresConfig, tables: TableSet | None = TABLES) -> dict[str, CheckResult]:
    return {result.name: result for result in PostgresSource(config).check(tables)}


def test_a_server_set_up_right_passes_every_check(config: PostgresConfig, root: Connection) -> None:
    results = checked(config)
    assert {result.name: result.detail for result in results.values() if result.status is not CheckStatus.OK} == {}
    assert all(not result.remedy and result.detail for result in results.values())
    assert len(results) == 22


@pytest.mark.parametrize("version", ["13.22.0", "14.18.0", "15.13.0", "16.9.0", "18.0.0"])
def test_every_version_passes(version: str, postgres_version: Callable[[str], EmbeddedPostgresSource]) -> None:
    results = checked(config_of(postgres_version(version)), None)
    skipped = {name for name, result in results.items() if result.status is CheckStatus.SKIPPED}
    assert skipped == OF_TABLES
    assert {result.status for name, result in results.items() if name not in OF_TABLES} == {CheckStatus.OK}
    assert version.split(".", maxsplit=1)[0] in results["version"].detail


def test_a_wrong_password_fails_once_and_is_not_told(config: PostgresConfig) -> None:
    first, *others = PostgresSource(dataclasses.replace(config, password=SECRET)).check()
    assert (first.name, first.status) == ("reachable", CheckStatus.FAILED)
    assert {(other.status, other.detail) for other in others} == {
        (CheckStatus.SKIPPED, "Not checked, because the login failed.")
    }
    assert SECRET not in repr([first, *others])
    assert "password of the connection" in first.remedy


def test_what_each_remedy_says_is_what_was_missing(
    config: PostgresConfig, limited: PostgresConfig, root: Connection
) -> None:
    before = checked(limited)
    failing = [name for name, result in before.items() if result.status is CheckStatus.FAILED]
    assert failing == ["replication", "publication", "grant_select"]
    for name in failing:
        run(root, before[name].remedy)
    between = checked(limited)
    assert [name for name, result in between.items() if result.status is CheckStatus.FAILED] == ["publication"]
    assert "does not own" in between["publication"].detail
    run(root, between["publication"].remedy.splitlines()[0])
    assert {result.status for result in checked(limited).values()} == {CheckStatus.OK}


def test_a_publication_by_hand_does_without_the_owners_right(
    config: PostgresConfig, limited: PostgresConfig, root: Connection
) -> None:
    brought = dataclasses.replace(limited, publication="brought")
    assert "No publication brought" in checked(brought)["publication"].detail
    run(root, f"CREATE TABLE {SCHEMA}.other (id int PRIMARY KEY, v int)")
    run(root, f"CREATE PUBLICATION brought FOR TABLE {SCHEMA}.other WITH (publish = 'insert')")
    for said in ("kinds of changes", "Not in the publication"):
        found = checked(brought)["publication"]
        assert (found.status, said in found.detail) == (CheckStatus.FAILED, True)
        run(root, found.remedy)
    assert checked(brought)["publication"].status is CheckStatus.OK
    run(root, f"CREATE TABLE {SCHEMA}.parts (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    run(root, f"ALTER PUBLICATION brought ADD TABLE {SCHEMA}.parts")
    parts = TableSet(tables=frozenset({TableId(SCHEMA, "parts")}))
    found = checked(brought, parts)["publication"]
    assert "publishes the partitions" in found.detail
    run(root, found.remedy)
    assert checked(brought, parts)["publication"].status is CheckStatus.OK


def test_a_publication_that_leaves_rows_or_columns_out_is_told(config: PostgresConfig, root: Connection) -> None:
    run(root, f"CREATE TABLE {SCHEMA}.wide (id int PRIMARY KEY, v int)")
    brought = dataclasses.replace(config, publication="brought")
    wide = TableId(SCHEMA, "wide")
    tables = TableSet(tables=frozenset({wide}))
    run(root, f"CREATE PUBLICATION brought FOR TABLE {SCHEMA}.wide WHERE (id > 3)")
    assert "row filter" in checked(brought, tables)["publication"].detail
    run(root, f"ALTER PUBLICATION brought SET TABLE {SCHEMA}.wide (id)")
    assert "excludes columns" in checked(brought, tables)["publication"].detail
    without = TableSet(tables=frozenset({wide}), excluded_columns={wide: frozenset({"v"})})
    assert checked(brought, without)["publication"].status is CheckStatus.OK


def test_a_publication_without_generated_columns_is_told_where_there_are_some(
    postgres_version: Callable[[str], EmbeddedPostgresSource],
) -> None:
    config = config_of(postgres_version("18.0.0"))
    root = connect(config)
    clear(root)
    run(root, f"CREATE SCHEMA {SCHEMA}")
    run(root, f"CREATE TABLE {SCHEMA}.made (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id) STORED)")
    run(root, f"CREATE PUBLICATION brought FOR TABLE {SCHEMA}.made")
    brought = dataclasses.replace(config, publication="brought")
    made = TableSet(tables=frozenset({TableId(SCHEMA, "made")}))
    found = checked(brought, made)["publication"]
    assert "generated" in found.detail
    run(root, found.remedy)
    assert checked(brought, made)["publication"].status is CheckStatus.OK
    clear(root)
    root.close()


def test_row_security_that_hides_rows_is_told_and_never_reads_a_part(
    config: PostgresConfig, limited: PostgresConfig, root: Connection
) -> None:
    run(root, f"GRANT USAGE ON SCHEMA {SCHEMA} TO check_limited", f"GRANT SELECT ON {SCHEMA}.orders TO check_limited")
    run(root, f"ALTER TABLE {SCHEMA}.orders ENABLE ROW LEVEL SECURITY")
    found = checked(limited)["grant_select"]
    assert "Row-level security" in found.detail
    with pytest.raises(SourcePermissionDenied):
        read_rows(connect(limited), f"SELECT * FROM {SCHEMA}.orders", "it")
    run(root, found.remedy)
    assert checked(limited)["grant_select"].status is CheckStatus.OK


def test_a_missing_table_and_a_refused_one_are_told(config: PostgresConfig, root: Connection) -> None:
    gone = TableSet(tables=frozenset({TableId(SCHEMA, "gone")}))
    assert checked(config, gone)["grant_select"].status is CheckStatus.FAILED
    run(root, f"CREATE TABLE {SCHEMA}.heap (a int)", f"CREATE UNLOGGED TABLE {SCHEMA}.quick (a int PRIMARY KEY)")
    results = checked(config, TableSet(databases=frozenset({SCHEMA})))
    identity, definitions = results["replica_identity"], results["definitions"]
    assert (identity.status, definitions.status) == (CheckStatus.WARNING, CheckStatus.WARNING)
    assert f"{SCHEMA}.heap" in identity.detail
    assert f"{SCHEMA}.quick" in definitions.detail
    run(root, identity.remedy, definitions.remedy)
    results = checked(config, TableSet(databases=frozenset({SCHEMA})))
    assert results["replica_identity"].status is CheckStatus.OK
    assert "Without a key" in results["definitions"].detail


def test_a_slot_by_hand_must_be_there_and_be_of_the_right_kind(config: PostgresConfig, root: Connection) -> None:
    brought = dataclasses.replace(config, slot="check_slot")
    missing = checked(brought)["slot"]
    assert missing.status is CheckStatus.FAILED
    run(root, missing.remedy)
    try:
        assert checked(brought)["slot"].status is CheckStatus.OK
        run(root, "SELECT pg_drop_replication_slot('check_slot')")
        run(root, "SELECT pg_create_logical_replication_slot('check_slot', 'pgoutput', false, true)")
        assert "two_phase" in checked(brought)["slot"].detail
        run(root, "SELECT pg_drop_replication_slot('check_slot')")
        run(root, "SELECT pg_create_logical_replication_slot('check_slot', 'test_decoding')")
        wrong = checked(brought)["slot"]
        assert "test_decoding" in wrong.detail
        run(root, *wrong.remedy.split("; "))
        assert checked(brought)["slot"].status is CheckStatus.OK
    finally:
        run(root, "SELECT pg_drop_replication_slot('check_slot')")


def test_old_transactions_that_write_are_named(
    config: PostgresConfig, root: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.sources.postgres.check.log_settings._OLD", 0)
    writer = connect(config)
    run(writer, "BEGIN", f"INSERT INTO {SCHEMA}.orders VALUES (1)")
    pid = writer.info.backend_pid
    found = checked(config)["open_transactions"]
    assert found.status is CheckStatus.WARNING
    assert f"pid {pid}" in found.detail
    run(writer, "PREPARE TRANSACTION 'check_it'")
    prepared = checked(config)["prepared"]
    assert prepared.status is CheckStatus.WARNING
    run(writer, prepared.remedy.split(" or ")[0])
    assert {checked(config)[name].status for name in ("prepared", "open_transactions")} == {CheckStatus.OK}
    writer.close()


def test_an_idle_slot_that_holds_much_wal_is_told(
    config: PostgresConfig, root: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(root, "SELECT pg_create_logical_replication_slot('check_idle', 'pgoutput')")
    try:
        assert "check_idle" in checked(config)["other_slots"].detail
        monkeypatch.setattr("replicator.sources.postgres.check.log_settings._LARGE", 0)
        found = checked(config)["other_slots"]
        assert found.status is CheckStatus.WARNING
    finally:
        run(root, "SELECT pg_drop_replication_slot('check_idle')")


def test_an_event_trigger_is_for_superusers(config: PostgresConfig, limited: PostgresConfig, root: Connection) -> None:
    assert checked(dataclasses.replace(config, event_trigger=True))["event_trigger"].status is CheckStatus.OK
    assert checked(dataclasses.replace(limited, event_trigger=True))["event_trigger"].status is CheckStatus.FAILED


@pytest.fixture(scope="module")
def wrong() -> Iterator[EmbeddedPostgresSource]:
    """A server with every setting as it should not be."""
    options = {
        "wal_level": "replica",
        "max_replication_slots": "0",
        "wal_sender_timeout": "2s",
        "max_slot_wal_keep_size": "100MB",
    }
    server = EmbeddedPostgresSource(HOME / "postgres-wrong", options=options, durable=False)
    server.start()
    yield server
    server.stop()


def test_wrong_settings_are_told_with_what_to_set(wrong: EmbeddedPostgresSource) -> None:
    results = checked(config_of(wrong), None)
    told = {
        name: (r.status, r.remedy)
        for name, r in results.items()
        if r.status is not CheckStatus.OK and name not in OF_TABLES
    }
    assert {name: status for name, (status, _) in told.items()} == {
        "wal_level": CheckStatus.FAILED,
        "free_slots": CheckStatus.FAILED,
        "retention": CheckStatus.WARNING,
        "wal_sender_timeout": CheckStatus.WARNING,
    }
    assert "wal_level = logical" in told["wal_level"][1]
    assert "max_replication_slots = 10" in told["free_slots"][1]
    assert "max_slot_wal_keep_size" in told["retention"][1]
    ours = dataclasses.replace(config_of(wrong), retention_limit_mb=64)
    assert checked(ours, None)["retention"].status is CheckStatus.OK


def test_a_standby_is_refused() -> None:
    server = EmbeddedPostgresSource(HOME / "postgres-standby", durable=False)
    signal = server.folder / "data" / "standby.signal"
    signal.unlink(missing_ok=True)
    server.start()
    server.stop()
    signal.touch()
    try:
        server.start()
        results = checked(config_of(server), None)
    finally:
        server.stop()
        signal.unlink()
    assert results["primary"].status is CheckStatus.FAILED
    assert "primary server" in results["primary"].remedy
    assert results["marks"].status is not CheckStatus.OK


@pytest.mark.parametrize(
    ("mode", "host", "ca", "fits"),
    [
        ("require", "127.0.0.1", False, True),
        ("prefer", "127.0.0.1", False, True),
        ("verify-ca", "127.0.0.1", True, True),
        ("verify-full", "localhost", True, True),
        ("verify-full", "127.0.0.1", True, False),  # another name than the certificate's
        ("verify-full", "localhost", False, False),  # none of the system's authorities
        ("disable", "127.0.0.1", True, True),
    ],
)
def test_tls_modes_mean_what_libpqs_do(
    postgres_tls: tuple[EmbeddedPostgresSource, str], mode: str, host: str, ca: bool, fits: bool
) -> None:
    server, certificate = postgres_tls
    config = dataclasses.replace(config_of(server), tls=TlsMode(mode), host=host, ca=certificate if ca else "")
    if not fits:
        with pytest.raises(ConfigurationError, match="certificate"):
            connect(config)
        return
    results = checked(config, None)
    assert results["tls"].status is CheckStatus.OK
    assert ("Encrypted" in results["tls"].detail) == (mode != "disable")


def test_a_server_without_tls_is_told_from_a_wrong_certificate(config: PostgresConfig) -> None:
    with pytest.raises(ConfigurationError, match="does not support SSL"):
        connect(dataclasses.replace(config, tls=TlsMode.REQUIRE))
    with pytest.raises(ConfigurationError, match="PEM"):
        connect(dataclasses.replace(config, tls=TlsMode.VERIFY_CA, ca="no certificate"))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"password": SECRET}, SourceAuthenticationFailed),
        ({"user": "nobody_at_all"}, SourceAuthenticationFailed),
        ({"database": "no_such_database"}, ConfigurationError),
        ({"port": 1}, SourceUnreachable),
        ({"host": "no-such-host.invalid"}, SourceUnreachable),
    ],
)
def test_logins_that_fail_say_why_and_nothing_secret(
    config: PostgresConfig, change: dict[str, object], kind: type[TidemarkError]
) -> None:
    with pytest.raises(kind) as caught:
        connect(dataclasses.replace(config, **change))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("SELECT * FROM no_schema.t", SourceUnreachable),
        ("SELECT 1/0", SourceUnreachable),
        ("COMMENT ON PUBLICATION not_there IS 'x'", SourceMisconfigured),
        ("SELECT not a statement", SourceUnreachable),
        ("CREATE TABLE pg_catalog.mine (id int)", SourcePermissionDenied),
    ],
)
def test_the_servers_errors_are_tidemarks_with_their_code_and_without_the_statement(
    limited: PostgresConfig, statement: str, kind: type[TidemarkError]
) -> None:
    _refused(limited, statement, kind, "the server")


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("SELECT * FROM no_schema.t", TableDisappeared),
        ("SELECT 1/0", TableError),
        ("SELECT not a statement", TableError),
        ("CREATE TABLE pg_catalog.mine (id int)", SourcePermissionDenied),
        ("DO $$ BEGIN ASSERT false; END $$", TableError),
        *((f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$", kind) for state, kind in (
            ("42P17", TableError), ("XX000", TableNotRead), ("XX001", TableError), ("57014", TableNotRead),
            ("53100", TableNotRead),
            ("40001", TableNotRead), ("55P03", TableBusy), ("58030", TableError), ("0A000", TableError),
            ("HV000", TableNotRead),
            ("57P03", SourceUnreachable), ("53300", SourceUnreachable), ("08006", SourceUnreachable),
        )),
    ],
)  # fmt: skip
def test_an_error_for_a_statement_about_one_table_is_that_tables(
    limited: PostgresConfig, statement: str, kind: type[TidemarkError]
) -> None:
    """But for states of the connection or the whole server."""
    _refused(limited, statement, kind, TableId("shop", "orders"))


def test_a_session_that_ends_in_a_statement_about_a_table_is_not_that_tables_trouble(config: PostgresConfig) -> None:
    connection = connect(config)
    with pytest.raises(SourceUnreachable):
        read_rows(connection, "SELECT pg_terminate_backend(pg_backend_pid())", TableId("shop", "orders"))


def _refused(config: PostgresConfig, statement: str, kind: type[TidemarkError], where: str | TableId) -> None:
    connection = connect(config)
    with pytest.raises(kind) as caught:
        read_rows(connection, statement, where)
    assert type(caught.value) is kind
    assert "SQLSTATE" in caught.value.message
    assert statement not in caught.value.message
    connection.close()


def test_a_lock_is_not_waited_for_without_end(config: PostgresConfig, root: Connection) -> None:
    run(root, "BEGIN", f"LOCK TABLE {SCHEMA}.orders")
    other = connect(config)
    run(other, "SET lock_timeout = '100ms'")
    with pytest.raises(SourceUnreachable) as caught:
        read_rows(other, f"SELECT * FROM {SCHEMA}.orders", "orders")
    assert caught.value.retryable
    run(root, "ROLLBACK")
    other.close()


def test_sessions_are_the_same_whatever_role_database_and_server_say(
    config: PostgresConfig, limited: PostgresConfig, root: Connection
) -> None:
    wanted = {"DateStyle": "ISO, MDY", "xmlbinary": "base64", "default_transaction_isolation": "read committed"}
    for setting, value in (
        ("DateStyle", "German"),
        ("TimeZone", "Asia/Tokyo"),
        ("extra_float_digits", "0"),
        ("bytea_output", "escape"),
        ("IntervalStyle", "iso_8601"),
        ("default_transaction_isolation", "serializable"),
        ("default_transaction_read_only", "on"),
        ("statement_timeout", "1ms"),
        ("search_path", "public"),
        ("quote_all_identifiers", "on"),
    ):
        run(root, f"ALTER ROLE check_limited SET {setting} = '{value}'")
    for factory in ({}, {"connection_factory": LogicalReplicationConnection}):
        if factory:
            run(root, "ALTER ROLE check_limited REPLICATION")
        connection = connect(limited, **factory)
        for name, value in SESSION_SETTINGS.items():
            with connection.cursor() as cursor:
                cursor.execute(f"SHOW {name}")
                assert cursor.fetchone() == (wanted.get(name, value),), name
        connection.close()


@pytest.mark.parametrize(
    "text", ["it's", "back\\slash", "\\'; DROP TABLE x; --", 'quo"te', "Grüße 你好 🎉", "%s %(x)s", "\n\r\t\x01"]
)
@pytest.mark.parametrize("standard", ["on", "off"])
def test_names_and_texts_stay_what_they_are(config: PostgresConfig, text: str, standard: str) -> None:
    connection = connect(config)
    run(connection, f"SET standard_conforming_strings = {standard}", "SET escape_string_warning = off")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {literal(text)} AS {quoted(text)}")
        assert cursor.fetchall() == [(text,)]
        assert cursor.description is not None
        assert cursor.description[0].name == text
    connection.close()


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_postgres_cannot_have_is_refused_before_it_is_sent(text: str) -> None:
    for made in (literal, quoted):
        with pytest.raises(ConfigurationError):
            made(text)


def test_the_shared_connection_is_made_anew_when_it_broke(config: PostgresConfig, root: Connection) -> None:
    source = PostgresSource(config)
    assert TABLE in source.catalog().describe([TABLE])
    (pid,) = [row[0] for row in read_rows(source._open(), "SELECT pg_backend_pid()", "it")]
    run(root, f"SELECT pg_terminate_backend({pid})")
    assert TABLE in source.catalog().describe([TABLE])
    source.close()
    source.close()


def test_the_form_opens_a_source(postgres_source: EmbeddedPostgresSource) -> None:
    source = open_source({**postgres_source.address, "database": postgres_source.database, "event_trigger": "no"})
    assert [info.name for info in source.catalog().databases() if info.name == "public"] == ["public"]
    source.close()
