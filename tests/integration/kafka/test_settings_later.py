"""The settings of a Kafka target, changed later in the page and over the API, against the live broker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from replicator.targets.kafka.config import DESTINATION_FORM, EFFECTS, FIXED, FORM
from tests.integration.kafka.conftest import KafkaLab
from tests.integration.kafka.security import PASSWORD, USER, Authority
from webapp.connections.forms import PREFIX
from webapp.monitoring.models import TimelineEvent
from webapp.replicators.targets import full_target, public_target

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.filterwarnings("ignore:No directory at"),
]
WRONG = "wrong-battery-0815"


@pytest.fixture
def client(transactional_db: Any) -> Client:
    one = Client()
    one.force_login(User.objects.create_superuser("ada", password="x"))
    return one


def test_the_page_changes_how_the_brokers_are_reached_and_the_changes_go_on(
    lab: KafkaLab, authority: Authority, client: Client
) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    replicator = lab.replicate()
    lab.run()
    page, own = f"/replicators/{replicator.pk}/settings/", f"/replicators/{replicator.pk}/settings/target/"
    address = f"/destinations/{replicator.destination_id}/"
    shown = client.get(page).content.decode()
    mine = {field.name for field in FORM}
    for said in (*(EFFECTS[name] for name in mine & EFFECTS.keys()), *FIXED.values(), lab.broker.bootstrap_servers):
        assert said in shown
    assert {field.name for field in (*DESTINATION_FORM, *FORM)} == EFFECTS.keys() | FIXED.keys()
    reach = {
        "bootstrap_servers": lab.broker.servers("SASL_SSL"), "security_protocol": "SASL_SSL", "ca": authority.pem,
        "sasl_mechanism": "SCRAM-SHA-512", "username": USER, "password": WRONG,
    }  # fmt: skip
    form = {"name": "events"} | {PREFIX + name: value for name, value in reach.items()}
    refused = client.post(address, form)
    assert refused.status_code == 200
    told = refused.content.decode()
    assert "reject the user" in told
    assert WRONG not in told
    assert public_target(lab.replicator)["security_protocol"] == "PLAINTEXT"
    assert client.post(address, form | {PREFIX + "password": PASSWORD}).status_code == 302
    what_is_fixed = {"partitions": "1", "tombstones": "no", "format": "avro"}  # is not asked for
    assert client.post(own, what_is_fixed).status_code == 302
    settings = public_target(lab.replicator)
    assert (settings["security_protocol"], settings["format"], settings["tombstones"]) == ("SASL_SSL", "json", "no")
    assert client.post(address, form | {PREFIX + "password": ""}).status_code == 302
    assert full_target(lab.replicator)["password"] == PASSWORD  # an empty one stays as it is
    shown = client.get(address).content.decode()
    assert PASSWORD not in shown
    assert 'placeholder="unchanged"' in shown
    told = TimelineEvent.objects.filter(replicator=replicator, kind="target").values_list("summary", flat=True)
    assert any("password" in summary for summary in told)
    assert PASSWORD not in str(list(told))
    lab.execute("INSERT INTO t VALUES (2), (3)", "DELETE FROM t WHERE id = 1")
    lab.run()
    found = lab.assert_rebuilt("t")
    assert (found.ops["d"], found.tombstones) == (1, 0)


def test_the_api_tells_what_can_be_changed_and_changes_only_to_what_works(
    lab: KafkaLab, authority: Authority, client: Client
) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    replicator = lab.replicate()
    lab.run()
    address = f"/api/v1/replicators/{replicator.pk}/target/"

    def patched(**changes: Any) -> tuple[int, dict[str, Any]]:
        answer = client.patch(address, json.dumps(changes), "application/json")
        return answer.status_code, answer.json()

    before = client.get(address).json()
    assert before["settings"]["bootstrap_servers"] == lab.broker.bootstrap_servers
    assert (before["effects"], before["fixed"], before["secrets"]) == (EFFECTS, FIXED, [])
    secure = {"bootstrap_servers": lab.broker.servers("SASL_PLAINTEXT"), "security_protocol": "SASL_PLAINTEXT"}
    status, told = patched(**secure, username=USER, password=WRONG)
    assert (status, told["code"]) == (400, "configuration")
    assert "reject the user" in told["message"]
    assert WRONG not in json.dumps(told)
    for name, value in (("format", "avro"), ("envelope", "flat"), ("topic_prefix", "other"), ("kind", "iceberg")):
        status, told = patched(**{name: value})
        assert status == 400, told
    status, told = patched(format="avro")
    assert told["message"].endswith(FIXED["format"])
    assert patched(nothing="like that")[0] == 400
    assert client.get(address).json() == before
    status, after = patched(**secure, username=USER, password=PASSWORD, partitions=4)
    assert status == 200, after
    assert after["secrets"] == ["password"]
    assert PASSWORD not in json.dumps(after)
    assert (after["settings"]["partitions"], after["settings"]["security_protocol"]) == (4, "SASL_PLAINTEXT")
    assert full_target(lab.replicator)["password"] == PASSWORD


def test_brokers_of_another_cluster_are_refused_once_something_was_written(lab: KafkaLab, client: Client) -> None:
    """The topic with the tables' positions identifies the cluster; an address wrong from the start can be corrected."""
    from testing.servers.kafka import EmbeddedKafka

    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    replicator = lab.replicate(bootstrap_servers="127.0.0.1:1", start=False)
    address = f"/api/v1/replicators/{replicator.pk}/target/"
    change = {"bootstrap_servers": lab.broker.bootstrap_servers}
    assert client.patch(address, json.dumps(change), "application/json").status_code == 200
    lab.replicator.refresh_from_db()
    lab.run()
    lab.assert_rebuilt("t")
    other = EmbeddedKafka(lab.broker.folder.parent / "kafka-other")
    other.start()
    try:
        change = {"bootstrap_servers": other.bootstrap_servers}
        answer = client.patch(address, json.dumps(change), "application/json")
    finally:
        other.stop()
    assert answer.status_code == 400
    assert "do not have the topic" in answer.json()["message"]
    assert "same cluster" in answer.json()["remedy"]
    assert public_target(lab.replicator)["bootstrap_servers"] == lab.broker.bootstrap_servers
