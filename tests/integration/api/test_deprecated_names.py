"""What was released under another name works under it for one more version."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import resolve
from rest_framework.test import APIClient

from webapp.alerts import services as alerts
from webapp.connections.models import Connection
from webapp.console.definitions.apply import apply
from webapp.monitoring.models import DeadLetterRow
from webapp.replicators import services
from webapp.replicators.models import Replicator
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.entries import SelectionEntry


@pytest.fixture
def replicator(connection: Connection) -> Replicator:
    return services.create_replicator(name="r", connection=connection, selection=[SelectionEntry("shop", "orders")])


def same(client: APIClient, old: str, new: str) -> Any:
    answers = [client.get(f"/api/v1/{at}") for at in (old, new)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    return answers[0].json()


def test_options_are_read_and_written_by_their_old_names(client: APIClient, replicator: Replicator) -> None:
    at = f"/api/v1/replicators/{replicator.pk}/options/"
    for given in ({"on_poison": "park"}, {"on_decode_error": "dead_letter"}, {"on_decode_error": "park"}):
        assert client.patch(at, {"on_decode_error": "stop"}, format="json").json()["on_poison"] == "stop"
        answer = client.patch(at, given, format="json").json()
        assert (answer["on_decode_error"], answer["on_poison"]) == ("dead_letter", "park")
    assert client.get(f"/api/v1/replicators/{replicator.pk}/").json()["options"]["on_poison"] == "park"
    both = ReplicatorOptions.from_dict({"on_poison": "park", "on_decode_error": "stop"})
    assert both.on_decode_error == "stop"
    assert "on_poison" not in both.to_dict()


def test_dead_letter_rows_are_reached_and_counted_by_their_old_name(client: APIClient, replicator: Replicator) -> None:
    table = replicator.tables.get()
    row = DeadLetterRow.objects.create(
        replicator=replicator, table=table, sequence=1, operation="INSERT", offset="x", code="c", message="m",
        data=b"d", size=1,
    )  # fmt: skip
    replicator.tables.update(dead_letters=1)
    old, new = (f"replicators/{replicator.pk}/{name}/" for name in ("parked-rows", "dead-letter-rows"))
    assert same(client, old, new)["results"][0]["id"] == row.pk
    same(client, f"{old}{row.pk}/", f"{new}{row.pk}/")
    for at in (f"replicators/{replicator.pk}/", f"replicators/{replicator.pk}/tables/{table.pk}/"):
        answer = client.get(f"/api/v1/{at}").json()
        assert (answer["parked"], answer["dead_letters"]) == (1, 1)
    assert client.post(f"/api/v1/{old}{row.pk}/discard/", {}, format="json").json() == {"discarded": 1}


def test_an_objective_is_told_by_its_old_name(client: APIClient, replicator: Replicator) -> None:
    answer = client.get(f"/api/v1/replicators/{replicator.pk}/slo/").json()
    assert answer["promise"] == answer["objective"] == {"percent": 99.0, "seconds": 300.0}


def test_an_alert_rule_is_changed_by_its_old_name(client: APIClient, replicator: Replicator) -> None:
    at = f"/api/v1/replicators/{replicator.pk}/alert-rules/rows_parked/"
    answer = client.patch(at, {"enabled": False}, format="json").json()
    assert (answer["kind"], answer["enabled"]) == ("dead_letter_rows", False)
    own = "options: {on_poison: park}, alerts: {rows_parked: {enabled: true}}"
    apply(f"replicators: [{{name: r, connection: {replicator.connection.name}, tables: [shop.orders], {own}}}]")
    assert alerts.rule_of(replicator, "dead_letter_rows").enabled
    assert Replicator.objects.get().parsed_options.on_decode_error == "dead_letter"


@pytest.mark.parametrize(
    ("old", "new"), [("parked/", "dead-letters/"), ("tables/{table}/taking/", "tables/{table}/columns/")]
)
def test_a_page_is_at_its_old_address(user: User, replicator: Replicator, old: str, new: str) -> None:
    table = replicator.tables.get().pk
    addresses = [f"/replicators/{replicator.pk}/{one.format(table=table)}" for one in (old, new)]
    assert resolve(addresses[0]).view_name == resolve(addresses[1]).view_name
    client = Client()
    client.force_login(user)
    assert [client.get(at).status_code for at in addresses] == [200, 200]


def test_forms_are_sent_to_their_old_addresses() -> None:
    for old, new in (
        ("/replicators/1/parked/2/bytes/", "/replicators/1/dead-letters/2/bytes/"),
        ("/replicators/1/parked/2/discard/", "/replicators/1/dead-letters/2/discard/"),
        ("/replicators/1/promises/", "/replicators/1/objectives/"),
    ):
        assert (resolve(old).view_name, resolve(old).kwargs) == (resolve(new).view_name, resolve(new).kwargs)
