"""Replicators from before there were destinations get one: one for all that had the same address and the same
secrets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection as database
from django.db.migrations.executor import MigrationExecutor

from webapp.connections import services as connections
from webapp.connections.secrets import seal, unseal
from webapp.destinations.models import Destination
from webapp.replicators.models import Draft, Replicator
from webapp.replicators.targets import full_target, public_target

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
KAFKA = {
    "kind": "kafka", "bootstrap_servers": "k1:9092", "topic_prefix": "p", "format": "json", "envelope": "flat",
    "partitions": 3, "replication_factor": "", "tombstones": "no", "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN", "username": "u", "ca": "",
}  # fmt: skip


@pytest.fixture
def then() -> Iterator[Any]:
    """The models before the migration; the database is always migrated forward again at the end."""
    connections.create_connection(name="shop", kind="mysql", config={"host": "h", "user": "u"})
    executor = MigrationExecutor(database)
    before = [("replicators", "0017_event_tokens"), ("connections", "0001_initial")]
    executor.migrate(before[:1])
    yield executor.loader.project_state(before).apps
    forward()


def forward() -> None:
    executor = MigrationExecutor(database)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_each_place_becomes_one_destination_and_back(then: Any) -> None:
    model, source = (
        then.get_model("replicators", "Replicator"),
        then.get_model("connections", "Connection").objects.get(),
    )

    def make(name: str, target: dict[str, Any], **secret: str) -> None:
        model.objects.create(name=name, uid=name, connection=source, target=target, target_secrets=seal(secret))

    make("lake", {"kind": "iceberg", "namespace_prefix": "l_"})
    make("old lake", {"namespace_prefix": ""})
    make("a", KAFKA, password="one")
    make("b", KAFKA | {"topic_prefix": "q"}, password="one")
    make("c", KAFKA | {"topic_prefix": "r"}, password="other")
    make("d", KAFKA | {"bootstrap_servers": "k2:9092"}, password="one")
    make("plain", {"kind": "kafka", "bootstrap_servers": "k1:9092"})
    model.objects.create(name="unreadable", uid="x", connection=source, target=KAFKA, target_secrets="gAAAAA-broken")
    user = User.objects.create_user("ada")
    draft = {
        "connection": 1,
        "target": {"kind": "kafka"},
        "target_secrets": seal({"password": "x"}),
        "typed": {"a": "b"},
    }
    then.get_model("replicators", "Draft").objects.create(user_id=user.pk, step="review", data=draft)
    forward()
    made = {one.name: one for one in Replicator.objects.select_related("destination")}
    same = {name: one.destination.name for name, one in made.items()}
    assert same["lake"] == same["old lake"] == "Lakehouse"
    assert same["a"] == same["b"] == "Apache Kafka k1:9092"
    assert len(set(same.values())) == Destination.objects.count() == 6
    assert full_target(made["b"])["password"] == "one"
    assert public_target(made["b"]) == KAFKA | {"topic_prefix": "q"}
    assert unseal(made["c"].destination.secrets) == {"password": "other"}
    assert made["lake"].target == {"namespace_prefix": "l_"}
    assert made["plain"].destination.config["security_protocol"] == "PLAINTEXT"
    assert made["unreadable"].destination.secrets == "gAAAAA-broken"
    assert Draft.objects.get().data == {"connection": 1}
    executor = MigrationExecutor(database)
    executor.migrate([("replicators", "0017_event_tokens")])
    back = {one.name: one for one in model.objects.all()}
    assert back["b"].target == KAFKA | {"topic_prefix": "q"}
    assert unseal(back["c"].target_secrets) == {"password": "other"}
