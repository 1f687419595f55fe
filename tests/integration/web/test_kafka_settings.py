"""The Kafka target's settings: over the pages, the API and as code; its password is nowhere to be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from replicator.errors import ConfigurationError
from webapp.connections import services as connections
from webapp.connections.forms import PREFIX
from webapp.connections.models import Connection
from webapp.connections.selectors import full_config
from webapp.console.definitions import apply as definitions
from webapp.console.definitions.export import export
from webapp.console.views.wizard_draft import Wizard
from webapp.destinations.models import Destination
from webapp.replicators import services
from webapp.replicators.models import Draft, Replicator
from webapp.replicators.selection.entries import SelectionEntry
from webapp.replicators.targets import full_target, wanted_target

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:No directory at"),
]
SECRET = "a very secret word"
KAFKA = {
    "kind": "kafka", "bootstrap_servers": "127.0.0.1:1", "topic_prefix": "p", "security_protocol": "SASL_SSL",
    "username": "u", "password": SECRET,
}  # fmt: skip
FILE = """
connections:
  - {name: shop, kind: mysql, config: {host: db.example, user: u}}
replicators:
  - name: copy
    connection: shop
    tables: [shop.orders]
    target: {kind: kafka, bootstrap_servers: "k1:9092", topic_prefix: p, tombstones: no, security_protocol: SASL_SSL,
             username: u, password: "${KAFKA_PASSWORD}"}
"""


@pytest.fixture
def connection() -> Connection:
    return connections.create_connection(name="shop", kind="mysql", config={"host": "db.example", "user": "u"})


@pytest.fixture
def made(connection: Connection) -> Replicator:
    return services.create_replicator(
        name="copy", connection=connection, selection=[SelectionEntry("shop", "orders")], target=KAFKA
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bootstrap_servers": ""}, "Bootstrap servers is missing"),
        ({"partitions": 0}, "partitions must be between"),
        ({"partitions": "many"}, "must be a whole number"),
        ({"format": "xml"}, "must be one of json, avro"),
        ({"topic_prefix": "a/b"}, "topic prefix"),
        ({"password": ""}, "needs a user and a password"),
        ({"namespace_prefix": "x"}, "Unknown setting 'namespace_prefix'"),
        ({"kind": "pulsar"}, "Unknown target kind 'pulsar'"),
        ({"topic_prefix": ["a"]}, "topic_prefix must be a single-line string"),
    ],
)
def test_settings_that_make_no_sense_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        wanted_target(KAFKA | settings)


def test_a_password_is_stored_encrypted_and_shown_nowhere(made: Replicator, admin_client: Client) -> None:
    row = Replicator.objects.values().get(pk=made.pk)
    assert SECRET not in str(row)
    assert full_target(made)["password"] == SECRET
    assert SECRET not in str(Destination.objects.values().get(pk=made.destination_id))
    table = made.tables.get()
    assert (table.target_namespace, table.target_name) == ("p.shop", "orders")
    for path in (
        f"/api/v1/replicators/{made.pk}/",
        f"/replicators/{made.pk}/settings/",
        "/api/v1/definitions/",
        f"/destinations/{made.destination_id}/",
        f"/api/v1/destinations/{made.destination_id}/",
    ):
        answer = admin_client.get(path)
        assert answer.status_code == 200
        assert SECRET not in answer.content.decode()
    assert "${APACHE_KAFKA_127_0_0_1_1_PASSWORD}" in export()


def test_as_code_gives_what_export_wrote_and_changes_how_the_brokers_are_reached() -> None:
    variables = {"KAFKA_PASSWORD": SECRET, "APACHE_KAFKA_K1_9092_PASSWORD": SECRET}
    assert "replicator copy: created" in definitions.apply(FILE, variables)
    assert definitions.apply(FILE, variables) == []
    assert definitions.apply(export(), variables) == []
    moved = FILE.replace("k1:9092", "k2:9092")
    assert definitions.apply(moved, variables | {"KAFKA_PASSWORD": "new"}) == [
        "replicator copy: changed bootstrap_servers, password of its target"
    ]
    assert full_target(Replicator.objects.get())["password"] == "new"
    with pytest.raises(ConfigurationError, match="its target cannot be changed"):
        definitions.apply(FILE.replace("topic_prefix: p", "topic_prefix: q"), variables)


def test_the_same_names_on_other_brokers_are_other_tables(made: Replicator, connection: Connection) -> None:
    def second(**changes: Any) -> Replicator:
        entry = SelectionEntry("shop", "orders")
        return services.create_replicator(
            name="b", connection=connection, selection=[entry], target={**KAFKA, **changes}
        )

    with pytest.raises(ConfigurationError, match="which the replicator copy writes"):
        second()
    assert second(bootstrap_servers="127.0.0.1:2").tables.count() == 1


def test_brokers_that_do_not_answer_are_told_in_a_sentence(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replicator.targets.kafka import check

    monkeypatch.setattr(check, "SECONDS", 1.0)
    answer = admin_client.post(
        "/api/v1/replicators/test-target/", json.dumps(KAFKA | {"security_protocol": "PLAINTEXT"}), "application/json"
    )
    assert answer.status_code == 200
    [line] = answer.json()
    assert line["status"] == "failed"
    assert "127.0.0.1:1 do not respond" in line["detail"]
    assert "Check that the brokers are running" in line["remedy"]


def test_the_wizard_keeps_the_password_encrypted_and_lets_only_a_target_pass_that_works(
    admin_client: Client, admin_user: User, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replicator.targets.kafka import check

    monkeypatch.setattr(check, "SECONDS", 1.0)
    connections.Connection.objects.update(last_check=[{"status": "ok"}])
    data = {"connection": connection.pk, "selection": {"databases": ["shop"]}}
    draft = Draft.objects.create(user=admin_user, step="target", data=data)
    address = reverse("replicators:step", args=[draft.pk, "target"]) + "?kind=kafka"
    reach = {name: value for name, value in KAFKA.items() if name not in {"kind", "topic_prefix"}}
    reach |= {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}
    form = {"name": "events"} | {PREFIX + name: value for name, value in reach.items()}
    form |= {"topic_prefix": "p", "format": "json", "envelope": "flat", "partitions": "2", "tombstones": "yes"}
    if admin_client.get(address).status_code == 302:
        pytest.fail("the step is not reached")
    refused = admin_client.post(address, form)
    assert refused.status_code == 200
    assert "do not respond" in refused.content.decode()
    monkeypatch.setattr(check, "_tried", lambda *_: "fine")
    assert admin_client.post(address, form).status_code == 302
    draft.refresh_from_db()
    assert SECRET not in json.dumps(draft.data)
    wizard = Wizard(admin_user, draft)
    assert wizard.destination is not None
    assert (wizard.destination.name, full_config(wizard.destination)["password"]) == ("events", SECRET)
    assert wizard.target["envelope"] == "flat"
    again = reverse("replicators:step", args=[draft.pk, "target"])
    assert SECRET not in admin_client.get(again).content.decode()
    assert admin_client.post(again, form | {"envelope": "debezium"}).status_code == 302
    draft.refresh_from_db()
    assert Wizard(admin_user, draft).target["envelope"] == "debezium"
    assert Destination.objects.filter(kind="kafka").count() == 1
