"""A stored secret goes nowhere but where it was entered for (invariant 8): pages, API and file ask for it again."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from replicator.errors import ConfigurationError
from replicator.sources.registry import KINDS
from replicator.targets.registry import KINDS as TARGETS
from tests.integration.api.conftest import SECRET
from tests.integration.kafka.security import Authority
from webapp.alerts import services as alerts
from webapp.alerts.models import Channel
from webapp.connections import services as connections
from webapp.connections.forms import PREFIX
from webapp.connections.models import Connection
from webapp.connections.secrets import unseal
from webapp.connections.selectors import full_config
from webapp.console.definitions import apply as definitions
from webapp.replicators import services
from webapp.replicators.models import Replicator
from webapp.replicators.selection.entries import SelectionEntry
from webapp.replicators.targets import full_target, try_target

PEM = Authority("test").pem.strip()
AGAIN = "must be entered again"
# What says neither where a secret is sent nor how; every other setting asks for it again, also one that is added later.
SHARED = ("routing", "computed_columns")
HARMLESS = {
    "mysql": {"server_id", "watermark_database", "connect_timeout"},
    "postgres": {"publication", "slot", "retention_limit_mb", "event_trigger", "connect_timeout"},
    "oracle": {"committed", "logs", "lob_columns", "connect_timeout"},
    "sqlserver": {"capture", "watermark_schema", "chunk_reads", "connect_timeout"},
    "to iceberg": {
        "namespace_prefix",
        "partition_by",
        "sort_by",
        "table_properties",
        "format_version",
        "bloom_filters",
        *SHARED,
    },
    "to delta": {"namespace_prefix", *SHARED},
    "to postgres": {"keys", "connect_timeout", "namespace_prefix", *SHARED},
    "to redshift": {"connect_timeout", "namespace_prefix", *SHARED},
    "to snowflake": {
        "role",
        "warehouse",
        "database",
        "commit_seconds",
        "connect_timeout",
        "namespace_prefix",
        *SHARED,
    },
    "to bigquery": {"project", "location", "commit_seconds", "connect_timeout", "namespace_prefix", *SHARED},
    "to spanner": {"database", "connect_timeout", "namespace_prefix", *SHARED},
    "to kafka": {"topic_prefix", "format", "envelope", "partitions", "replication_factor", "tombstones", *SHARED},
}
VALUES = {
    "host": "rogue.example", "port": 1, "user": "other", "database": "other", "ca": "", "tls": "",
    "service": "other", "sid": "other", "pdb": "other",
    "login": "entra_password", "certificate_host": "rogue.example",
    "read_from": "secondary", "secondary_host": "rogue.example", "secondary_port": 1,
    "bootstrap_servers": "rogue:1",
    "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "username": "other",
}  # fmt: skip
SOURCES = {
    "mysql": {"host": "db.example", "user": "u", "tls": "verify_ca", "ca": PEM, "password": SECRET},
    "postgres": {"host": "db.example", "user": "u", "database": "d", "tls": "verify-ca", "password": SECRET},
    "oracle": {"host": "db.example", "user": "u", "service": "ORCL", "tls": "verify_ca", "ca": PEM, "password": SECRET},
    "sqlserver": {"host": "db.example", "user": "u", "database": "d", "tls": "required", "password": SECRET},
}  # fmt: skip
KAFKA = {
    "kind": "kafka", "bootstrap_servers": "k.example:9093", "security_protocol": "SASL_SSL", "username": "u",
    "password": SECRET,
    "ca": PEM,
}  # fmt: skip


@pytest.fixture
def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def streaming(connection: Connection) -> Replicator:
    entry = SelectionEntry("shop", "orders")
    return services.create_replicator(name="k", connection=connection, selection=[entry], target=KAFKA)


@pytest.fixture
def hook(db: None) -> Channel:
    return alerts.save_channel(name="hook", kind="webhook", url="https://a.example/x", key="signing-k3y")


@pytest.mark.parametrize("kind", [*KINDS, *(f"to {name}" for name in TARGETS)])
def test_only_what_is_known_to_be_harmless_keeps_a_secret(kind: str) -> None:
    form = KINDS[kind].form if kind in KINDS else TARGETS[kind.removeprefix("to ")].settings
    assert {field.name for field in form if field.keeps_secret} == HARMLESS[kind]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, f.name) for kind in SOURCES for f in KINDS[kind].form if not f.secret and f.name not in HARMLESS[kind]],
)
def test_a_changed_address_of_a_source_asks_for_the_secret_again(db: None, kind: str, name: str) -> None:
    made = connections.create_connection(name="c", kind=kind, config=SOURCES[kind])
    changed = made.config | {name: VALUES[name]}
    if changed == made.config:
        changed[name] = PEM
    for change in (connections.update_connection, connections.test_connection):
        with pytest.raises(ConfigurationError, match=AGAIN):
            change(connection=made, config=changed, **({"kind": kind} if change is connections.test_connection else {}))
    made.refresh_from_db()
    assert full_config(made) == made.config | {"password": SECRET}
    assert made.last_check == []
    connections.update_connection(connection=made, config=changed | {"password": "other"})
    assert full_config(made)["password"] == "other"


def test_a_harmless_change_keeps_the_secret(db: None) -> None:
    made = connections.create_connection(name="c", kind="mysql", config=SOURCES["mysql"])
    connections.update_connection(connection=made, config=made.config | {"connect_timeout": 3, "server_id": 7})
    assert (full_config(made)["password"], made.config["server_id"]) == (SECRET, 7)


@pytest.mark.parametrize("name", [f.name for f in TARGETS["kafka"].destination_form if not f.secret])
def test_a_changed_address_of_a_target_asks_for_the_secret_again(streaming: Replicator, name: str) -> None:
    target = {**streaming.target, name: VALUES[name]}
    for change in (
        lambda: services.update_target(replicator=streaming, target=target),
        lambda: try_target(streaming, {name: VALUES[name]}),
    ):
        with pytest.raises(ConfigurationError, match=AGAIN):
            change()
    assert full_target(Replicator.objects.get(pk=streaming.pk))["bootstrap_servers"] == "k.example:9093"
    services.update_target(replicator=streaming, target=target | {"password": "other"})
    assert full_target(Replicator.objects.get(pk=streaming.pk))["password"] == "other"


def test_the_api_asks_again(client: APIClient, connection: Connection, streaming: Replicator, hook: Channel) -> None:
    at = f"/api/v1/connections/{connection.pk}/"
    target = f"/api/v1/replicators/{streaming.pk}/target/"
    place = f"/api/v1/destinations/{streaming.destination_id}/"
    channel = f"/api/v1/alert-channels/{hook.pk}/"
    moved = {"name": "hook", "kind": "webhook", "url": "https://b.example/"}
    for answer in (
        client.patch(at, {"config": {"host": "rogue"}}, format="json"),
        client.patch(target, {"bootstrap_servers": "rogue:1"}, format="json"),
        client.patch(place, {"config": {"bootstrap_servers": "rogue:1"}}, format="json"),
        client.put(channel, moved, format="json"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (400, "configuration"), answer.content
        assert AGAIN in answer.json()["message"]
    assert client.patch(at, {"config": {"host": "rogue", "password": SECRET}}, format="json").status_code == 200
    hook.refresh_from_db()
    assert hook.config == {"host": "a.example"}
    assert client.put(channel, moved | {"key": ""}, format="json").status_code == 200
    hook.refresh_from_db()
    assert unseal(hook.secrets) == {"url": "https://b.example/"}


def test_a_file_asks_again(connection: Connection, streaming: Replicator, hook: Channel) -> None:
    del connection, streaming, hook
    for part in (
        "connections: [{name: shop db, config: {host: rogue}}]",
        "channels: [{name: hook, kind: webhook, url: 'https://b.example/'}]",
        "destinations: [{name: Apache Kafka k.example:9093, config: {bootstrap_servers: 'rogue:1'}}]",
    ):
        with pytest.raises(ConfigurationError, match=AGAIN):
            definitions.apply(part, {})
    assert full_config(Connection.objects.get())["host"] == "h"
    assert definitions.apply("channels: [{name: hook, kind: webhook, url: 'https://b.example/', key: n3w}]", {})


@pytest.mark.filterwarnings("ignore:No directory at")
def test_the_pages_ask_again(browser: Client, connection: Connection, streaming: Replicator, hook: Channel) -> None:
    typed = {
        "name": connection.name,
        PREFIX + "host": "rogue",
        PREFIX + "port": "1",
        PREFIX + "user": "u",
        PREFIX + "password": "",
    }
    place = streaming.destination
    config = place.config | {"bootstrap_servers": "rogue:1"}
    kafka = {"name": place.name} | {PREFIX + name: str(value) for name, value in config.items()}
    for address, body in (
        (reverse("connections:edit", args=[connection.pk]), typed),
        (reverse("connections:test", args=[connection.pk]), typed),
        (reverse("destinations:edit", args=[place.pk]), kafka),
        (reverse("destinations:test", args=[place.pk]), kafka),
        (
            reverse("alerts:channel", args=[hook.pk]),
            {"name": "hook", "kind": "webhook", "url": "https://b.example/", "key": ""},
        ),
    ):
        assert AGAIN in browser.post(address, body).content.decode(), address
    connection.refresh_from_db()
    assert (full_config(connection)["host"], connection.last_check) == ("h", [])


def test_secrets_that_cannot_be_read_are_given_again(
    browser: Client, client: APIClient, connection: Connection, streaming: Replicator
) -> None:
    for made in (connection, streaming.destination):
        type(made).objects.update(secrets="sealed with a key that is lost")
    at = f"/api/v1/connections/{connection.pk}/"
    assert client.patch(at, {"config": {"host": "db2.example"}}, format="json").status_code == 400
    assert client.patch(at, {"config": {"password": SECRET}}, format="json").status_code == 200
    Connection.objects.update(secrets="sealed with a key that is lost")
    form = {"name": connection.name} | {PREFIX + name: value for name, value in connection.config.items()}
    page = reverse("connections:edit", args=[connection.pk])
    assert browser.post(page, form | {PREFIX + "password": SECRET}).status_code == 302
    connection.refresh_from_db()
    assert full_config(connection)["password"] == SECRET
