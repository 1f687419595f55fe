"""Connections through the API; the secret goes in and never comes out."""

from __future__ import annotations

from rest_framework.test import APIClient

from tests.integration.api.conftest import SECRET
from webapp.connections.models import Connection
from webapp.connections.selectors import full_config
from webapp.replicators.models import Replicator

URL = "/api/v1/connections/"


def test_a_connection_is_made_changed_and_deleted(client: APIClient, answers: list[str]) -> None:
    config = {"host": "h", "user": "u", "password": SECRET}
    made = client.post(URL, {"name": "db", "kind": "fake", "config": config}, format="json")
    assert made.status_code == 201, made.content
    assert made.json()["config"] == {"host": "h", "port": 1, "user": "u"}
    assert made.json()["secrets_set"] is True
    one = f"{URL}{made.json()['id']}/"
    changed = client.patch(one, {"name": "db 2", "config": {"host": "h2", "password": SECRET}}, format="json").json()
    assert (changed["name"], changed["config"]) == ("db 2", {"host": "h2", "port": 1, "user": "u"})
    assert full_config(Connection.objects.get())["password"] == SECRET
    assert client.get(one).json() == changed
    assert client.delete(one).status_code == 204
    assert client.get(one).status_code == 404


def test_connections_are_listed_searched_and_paged(client: APIClient, connection: Connection) -> None:
    for i in range(3):
        Connection.objects.create(name=f"other {i}", kind="fake")
    page = client.get(URL, {"limit": 2}).json()
    assert (page["count"], len(page["results"])) == (4, 2)
    assert len(client.get(page["next"]).json()["results"]) == 2
    assert [c["name"] for c in client.get(URL, {"search": "SHOP"}).json()["results"]] == ["shop db"]
    assert client.get(URL, {"kind": "none"}).json()["count"] == 0


def test_what_is_wrong_is_said_with_a_remedy(client: APIClient, connection: Connection, answers: list[str]) -> None:
    body = {"name": "shop db", "kind": "fake", "config": {"host": "h", "user": "u", "password": SECRET}}
    twice = client.post(URL, body, format="json")
    assert (twice.status_code, twice.json()["code"]) == (400, "configuration")
    assert twice.json()["remedy"] == "Choose another name."
    unknown = client.post(URL, body | {"name": "x", "kind": "no"}, format="json")
    assert unknown.status_code == 400


def test_a_connection_in_use_is_not_deleted(client: APIClient, replicator: Replicator) -> None:
    response = client.delete(f"{URL}{replicator.connection_id}/")
    assert response.status_code == 400
    assert "shop" in response.json()["message"]


def test_testing_uses_the_stored_secret_and_keeps_the_result(
    client: APIClient, connection: Connection, answers: list[str]
) -> None:
    result = client.post(f"{URL}{connection.pk}/test/").json()
    assert result["ok"] is True
    assert [c["status"] for c in result["checks"]] == ["ok", "warning"]
    stored = client.get(f"{URL}{connection.pk}/").json()
    assert (stored["check_status"], len(stored["last_check"])) == ("warning", 2)


def test_settings_are_tested_before_they_are_stored(client: APIClient, db: None, answers: list[str]) -> None:
    config = {"host": "h", "user": "u", "password": SECRET}
    assert client.post(f"{URL}test/", {"kind": "fake", "config": config}, format="json").json()["ok"] is True
    config["host"] = "nowhere"
    failed = client.post(f"{URL}test/", {"kind": "fake", "config": config}, format="json").json()
    assert failed["ok"] is False
    assert Connection.objects.count() == 0


def test_the_source_is_browsed_page_by_page(client: APIClient, connection: Connection) -> None:
    one = f"{URL}{connection.pk}/"
    assert client.get(f"{one}databases/").json() == [{"name": "shop", "tables": 5, "bytes": 1000}]
    page = client.get(f"{one}tables/", {"database": "shop", "limit": 2, "offset": 2}).json()
    assert (page["count"], [t["table"] for t in page["results"]]) == (5, ["log", "orders"])
    assert page["next"]
    assert client.get(f"{one}tables/", {"search": "ord"}).json()["count"] == 1


def test_tables_are_described_with_their_target_types(client: APIClient, connection: Connection) -> None:
    names = [{"database": "shop", "table": table} for table in ("orders", "strange", "gone")]
    found = client.post(f"{URL}{connection.pk}/describe/", {"tables": names}, format="json").json()
    assert found[0]["key"] == ["id"]
    assert [c["type"] for c in found[0]["columns"]] == ["int", "timestamp_ntz"]
    assert "hologram" in found[1]["error"]
    assert "does not exist" in found[2]["error"]


def test_a_source_that_cannot_be_reached_is_a_bad_gateway_without_secrets(
    client: APIClient, connection: Connection, answers: list[str]
) -> None:
    moved = {"host": "nowhere", "password": SECRET}
    client.patch(f"{URL}{connection.pk}/", {"config": moved}, format="json")
    response = client.get(f"{URL}{connection.pk}/databases/")
    assert (response.status_code, response.json()["code"]) == (502, "source_unreachable")


def test_kinds_say_what_their_form_asks_for(client: APIClient) -> None:
    fake = next(kind for kind in client.get("/api/v1/source-kinds/").json() if kind["name"] == "fake")
    assert [field["name"] for field in fake["form"] if field["secret"]] == ["password"]


def test_a_connection_whose_plugin_is_gone_is_still_listed(client: APIClient, connection: Connection) -> None:
    Connection.objects.filter(pk=connection.pk).update(kind="gone")
    listed = client.get("/api/v1/connections/")
    assert (listed.status_code, [one["kind"] for one in listed.json()["results"]]) == (200, ["gone"])
