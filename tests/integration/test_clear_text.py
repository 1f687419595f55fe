"""No server that has not proved who it is gets a password in clear (invariant 8)."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import ConfigurationError, SourceAuthenticationFailed
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.config import TlsMode as MySqlTls
from replicator.sources.mysql.connection import connect as mysql
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.config import TlsMode as PostgresTls
from replicator.sources.postgres.connection import connect as postgres
from replicator.targets.kafka.config import KafkaConfig
from replicator.verification import model
from replicator.verification.mysql import reader as mysql_reader
from replicator.verification.postgres import reader as postgres_reader
from tests.integration.rogue import Rogue, RogueMySQL, RoguePostgres
from webapp.embedded.ports import LOOPBACK
from webapp.environment import mail

PASSWORD = "correct-horse-4711"
PLUGINS = [
    ("mysql_native_password", "mysql_clear_password"),
    ("mysql_native_password", "dialog"),
    ("mysql_native_password", "mysql_old_password"),
    ("mysql_native_password", "sha256_password"),
    ("mysql_native_password", "caching_sha2_password"),
    ("caching_sha2_password", ""),
    ("caching_sha2_password", "mysql_clear_password"),
    ("sha256_password", ""),
]


def mysql_config(rogue: Rogue, tls: MySqlTls, ca: str = "") -> MySqlConfig:
    return MySqlConfig(LOOPBACK, rogue.port, "u", PASSWORD, tls=tls, ca=ca)


def postgres_config(rogue: Rogue, tls: PostgresTls, ca: str = "") -> PostgresConfig:
    return PostgresConfig(LOOPBACK, rogue.port, "u", PASSWORD, database="d", tls=tls, ca=ca)


@pytest.mark.parametrize(("first", "then"), PLUGINS)
@pytest.mark.parametrize("tls", [False, True])
def test_a_mysql_server_that_asks_for_it_never_gets_it(tmp_path: Path, first: str, then: str, tls: bool) -> None:
    modes = [MySqlTls.PREFERRED, MySqlTls.REQUIRED] if tls else [MySqlTls.PREFERRED, MySqlTls.DISABLED]
    with RogueMySQL(tmp_path, tls=tls, first=first, then=then).running() as rogue:
        for mode in modes:
            with pytest.raises(SourceAuthenticationFailed, match="not verified") as told:
                mysql(mysql_config(rogue, mode))
            assert "CA certificate" in told.value.remedy
            assert PASSWORD not in repr(told.value)
        assert rogue.met == len(modes)
        assert not rogue.told(PASSWORD)


@pytest.mark.parametrize("then", ["", "caching_sha2_password"])
def test_no_password_is_shown_to_any_server(tmp_path: Path, then: str) -> None:
    with RogueMySQL(tmp_path, tls=False, first="caching_sha2_password", then=then).running() as rogue:
        with pytest.raises(SourceAuthenticationFailed, match="Thanks"):
            mysql(MySqlConfig(LOOPBACK, rogue.port, "u"))
        assert rogue.heard[-1] == b""


@pytest.mark.parametrize(("first", "then"), [one for one in PLUGINS if "old" not in one[1]])
def test_a_mysql_server_that_has_proved_who_it_is_may_ask_for_it(tmp_path: Path, first: str, then: str) -> None:
    with RogueMySQL(tmp_path, tls=True, first=first, then=then).running() as server:
        for mode in (MySqlTls.VERIFY_CA, MySqlTls.VERIFY_IDENTITY):
            with pytest.raises(SourceAuthenticationFailed, match="Thanks"):
                mysql(mysql_config(server, mode, server.authority.pem))
        assert server.told(PASSWORD)


@pytest.mark.parametrize("tls", [False, True])
def test_a_postgres_server_that_asks_for_it_never_gets_it(tmp_path: Path, tls: bool) -> None:
    modes = [PostgresTls.PREFER, PostgresTls.REQUIRE] if tls else [PostgresTls.PREFER, PostgresTls.DISABLE]
    with RoguePostgres(tmp_path, tls=tls).running() as rogue:
        for mode in modes:
            with pytest.raises(SourceAuthenticationFailed, match="not verified") as told:
                postgres(postgres_config(rogue, mode))
            assert "CA certificate" in told.value.remedy
        assert rogue.met == len(modes)
        assert not rogue.told(PASSWORD)


def test_a_postgres_server_that_has_proved_who_it_is_may_ask_for_it(tmp_path: Path) -> None:
    with RoguePostgres(tmp_path, tls=True).running() as server:
        for mode in (PostgresTls.VERIFY_CA, PostgresTls.VERIFY_FULL):
            with pytest.raises(SourceAuthenticationFailed):
                postgres(postgres_config(server, mode, server.authority.pem))
        assert server.told(PASSWORD)


def untrusted() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize(
    ("rogue", "connect", "options"),
    [
        (RoguePostgres, postgres_reader.connect, {"sslmode": "prefer"}),
        (RoguePostgres, postgres_reader.connect, {"sslmode": "require"}),
        (RogueMySQL, mysql_reader.connect, {}),
        (RogueMySQL, mysql_reader.connect, {"ssl": untrusted()}),
        (RogueMySQL, mysql_reader.connect, {"ssl_disabled": True}),
    ],
)
def test_verification_does_not_tell_it_either(
    tmp_path: Path, rogue: Any, connect: Callable[[model.SourceConfig], object], options: dict[str, Any]
) -> None:
    more = {"first": "sha256_password", "then": "mysql_clear_password"} if rogue is RogueMySQL else {}
    for tls in (False, True):
        with rogue(tmp_path, tls=tls, **more).running() as server:
            config = model.SourceConfig(LOOPBACK, server.port, "u", PASSWORD, options, database="d")
            with pytest.raises(mysql_reader.SourceUnreachable):
                connect(config)
            assert not server.told(PASSWORD)


def test_kafka_takes_plain_over_tls_only() -> None:
    plain = {"bootstrap_servers": "k:1", "sasl_mechanism": "PLAIN", "username": "u", "password": PASSWORD}
    with pytest.raises(ConfigurationError, match="in clear"):
        KafkaConfig.parse(plain | {"security_protocol": "SASL_PLAINTEXT"})
    assert KafkaConfig.parse(plain | {"security_protocol": "SASL_SSL"}).password == PASSWORD
    scram = plain | {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
    assert KafkaConfig.parse(scram).password == PASSWORD


def test_a_mail_servers_password_goes_over_tls_only() -> None:
    with pytest.raises(ValueError, match="in clear"):
        mail(f"smtp://me:{PASSWORD}@mail.example?tls=none")
    assert mail("smtp://mail.example?tls=none").host == "mail.example"
    assert mail(f"smtp://me:{PASSWORD}@mail.example").tls == "starttls"
