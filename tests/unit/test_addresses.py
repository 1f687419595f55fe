"""Which hosts are taken, and where they lead."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import Any

import pytest

from replicator import addresses
from replicator.addresses import checked_authority, checked_host, checked_servers, is_link_local, resolved
from replicator.errors import ConfigurationError, TidemarkError
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import connect as mysql
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import connect as postgres
from replicator.targets.kafka.config import KafkaConfig
from replicator.targets.kafka.diagnosis import met
from replicator.verification import model
from replicator.verification.mysql import reader as mysql_reader
from replicator.verification.postgres import reader as postgres_reader
from tests.integration.kafka.security import Authority
from tests.integration.rogue import RogueMySQL, RoguePostgres
from webapp.web.outbound import allowed

LINK_LOCAL = [
    "169.254.169.254", "169.254.0.1", "fe80::1", "febf::1", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1", "::169.254.169.254", "fd00:ec2::254", "2852039166", "0xa9fea9fe", "169.254.43518",
    "0251.0376.1.1",
]  # fmt: skip


@pytest.mark.parametrize("host", LINK_LOCAL)
def test_link_local_addresses_are_refused_in_every_form(host: str) -> None:
    with pytest.raises(ConfigurationError, match="link-local"):
        checked_host(host)
    for parse in (MySqlConfig.parse, PostgresConfig.parse):
        with pytest.raises(ConfigurationError, match="link-local"):
            parse({"host": host, "user": "u"})
    with pytest.raises(ConfigurationError, match="link-local"):
        KafkaConfig.parse({"bootstrap_servers": f"k:1,[{host}]:9092"})


@pytest.mark.parametrize(
    "host", ["/var/run/postgresql", "@tidemark", "a b", "a,b", "h" * 5000, "", "a/b", "-x", "fe80::1%eth0", "http://h",
        "h:1", "a\n", "a..b", "ü" * 70]
)  # fmt: skip
def test_what_is_no_host_is_refused(host: str) -> None:
    for check in (
        checked_host,
        lambda one: MySqlConfig.parse({"host": one}),
        lambda one: PostgresConfig.parse({"host": one, "user": "u"}),
    ):
        if host == "a\n" and check is not checked_host:
            continue  # forms trim
        if host != "a\n":
            with pytest.raises(ConfigurationError, match="host") as told:
                check(host)
            assert len(told.value.message) < 400


@pytest.mark.parametrize(
    "host", ["db", "db.example.com", "db.example.com.", "10.0.0.1", "127.0.0.1", "::1", "fc00::1", "a_b-c.d",
        "bücher.example", "x" * 63]
)  # fmt: skip
def test_names_and_other_addresses_are_taken(host: str) -> None:
    assert checked_host(f" {host} ") == host


@pytest.mark.parametrize(
    "servers", ["h:70000", "h:0", "h:x", "h:", "PLAINTEXT://h:1", "h:1,/run/x:2", "h:²", "h:" + "9" * 5000]
)
def test_servers_of_kafka_are_checked(servers: str) -> None:
    with pytest.raises(ConfigurationError):
        KafkaConfig.parse({"bootstrap_servers": servers})
    assert checked_servers(" a:1 , [::1]:2,b ") == "a:1,[::1]:2,b"


def test_only_certificates_are_authorities() -> None:
    pem = Authority("x").pem
    assert checked_authority(f"\n{pem}") == pem.strip()
    for wrong in ("x", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"):
        for parse in (MySqlConfig.parse, PostgresConfig.parse, KafkaConfig.parse):
            with pytest.raises(ConfigurationError, match="PEM"):
                parse({"host": "h", "user": "u", "bootstrap_servers": "k:1", "ca": wrong})


@pytest.fixture
def rebinding(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The DNS answers each question about the name `rogue.example` with the next of these, and the last again."""
    answers, real = ["::ffff:169.254.169.254"], socket.getaddrinfo

    def answered(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host != "rogue.example":
            return real(host, port, *args, **kwargs)
        return real(answers.pop(0) if len(answers) > 1 else answers[0], port, *args, **kwargs)

    monkeypatch.setattr(addresses.socket, "getaddrinfo", answered)
    return answers


def test_a_name_that_leads_there_is_refused_when_it_is_connected_to(rebinding: list[str]) -> None:
    del rebinding
    source = model.SourceConfig("rogue.example", 1, "u", database="d")
    for connect in (
        lambda: mysql(MySqlConfig("rogue.example")),
        lambda: postgres(PostgresConfig("rogue.example", user="u", database="d")),
        lambda: met(KafkaConfig("rogue.example:9092"), 1.0),
        lambda: mysql_reader.connect(source),
        lambda: postgres_reader.connect(source),
    ):
        with pytest.raises(TidemarkError, match="link-local"):
            connect()


def test_the_connection_goes_to_the_address_that_was_looked_at(rebinding: list[str], tmp_path: Path) -> None:
    for rogue, connect in (
        (
            RogueMySQL(tmp_path, tls=False, first="mysql_native_password"),
            lambda port: mysql(MySqlConfig("rogue.example", port)),
        ),
        (
            RoguePostgres(tmp_path, tls=False),
            lambda port: postgres(PostgresConfig("rogue.example", port, "u", database="d")),
        ),
    ):
        rebinding[:] = ["127.0.0.1", "169.254.169.254"]
        with rogue.running(), pytest.raises(TidemarkError):
            connect(rogue.port)
        assert rogue.met == 1


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(OSError, match=r"unknown host name nowhere\.invalid"):
        resolved("nowhere.invalid", 1)


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254"])
def test_webhooks_never_go_there_whatever_networks_are_named(address: str) -> None:
    one = ipaddress.ip_address(address)
    assert is_link_local(one)
    assert not allowed(one, (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))
