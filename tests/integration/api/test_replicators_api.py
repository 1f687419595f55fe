"""Replicators through the API: the same life as in the browser."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from webapp.connections.models import Connection
from webapp.console.definitions import apply as definitions
from webapp.destinations.services import DESTINATIONS
from webapp.replicators import services
from webapp.replicators.models import Desired, Replicator, Status

URL = "/api/v1/replicators/"
DELTA = {
    "store": "s3", "location": "s3://b/delta", "credentials": "environment", "region": "eu-west-1", "store_endpoint": ""
}  # fmt: skip


def body(connection: Connection, **more: Any) -> dict[str, Any]:
    selection = [
        {"database": "shop", "table": "orders", "excluded_columns": ["at"]},
        {"database": "shop", "table": "log"},
    ]
    return {"name": "r", "connection": connection.pk, "selection": selection, **more}


def test_a_replicator_is_made_and_started(client: APIClient, connection: Connection, answers: list[str]) -> None:
    options = {"slo_minutes": 1, "ddl_policy": "keep"}
    made = client.post(URL, body(connection, options=options, start=True), format="json")
    assert made.status_code == 201, made.content
    one = made.json()
    assert (one["desired"], one["connection_name"]) == ("running", "shop db")
    assert (one["options"]["slo_minutes"], one["options"]["ddl_policy"]["drop_table"]) == (1, "ignore")
    assert one["tables"] == {"waiting": 2}
    assert client.get(f"{URL}{one['id']}/").json() == one
    lines = client.get(f"{URL}{one['id']}/selection/").json()
    assert [(line["table"], line["excluded_columns"]) for line in lines] == [("log", []), ("orders", ["at"])]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"selection": []}, "selection"),
        ({"selection": [{"table": "x"}]}, "selection.0.database"),
        ({"connection": 4711}, "connection"),
        ({"options": {"speed": 9}}, "options.speed"),
    ],
)
def test_a_wrong_request_names_its_field(
    client: APIClient, connection: Connection, change: dict[str, Any], field: str
) -> None:
    response = client.post(URL, body(connection) | change, format="json")
    assert response.status_code == 400
    assert list(response.json()["fields"]) == [field]


def test_an_option_out_of_range_is_refused(client: APIClient, connection: Connection) -> None:
    response = client.post(URL, body(connection, options={"slo_percent": 200}), format="json")
    assert (response.status_code, response.json()["code"]) == (400, "configuration")
    assert Replicator.objects.count() == 0


def test_tables_are_assessed_before(client: APIClient, connection: Connection) -> None:
    request = {"connection": connection.pk, "selection": [{"database": "shop"}]}
    found = client.post(f"{URL}assess/", request, format="json")
    assert found.status_code == 200, found.content
    support = {table["table"]: table["support"] for table in found.json()}
    assert support["strange"] == "none"
    assert support["orders"] == "full"
    target = {"routing": "shop.*: lake.one", "computed_columns": "shop.orders: tenant = 'eu'"}
    found = client.post(f"{URL}assess/", {**request, "target": target}, format="json")
    orders = next(table for table in found.json() if table["table"] == "orders")
    assert orders["support"] == "none"
    assert "would both be written to lake.one. Change the routing rules." in orders["reasons"][-1]
    shared = {"routing": "shop.orders: lake.one shared by tenant = {schema}"}
    found = client.post(f"{URL}assess/", {**request, "target": shared}, format="json")
    orders = next(table for table in found.json() if table["table"] == "orders")
    assert (orders["support"], orders["columns"][-1]["name"]) == ("full", "tenant")
    assert "with tenant = 'shop'" in " ".join(orders["reasons"])
    refused = client.post(f"{URL}assess/", {**request, "target": {"routing": "orders"}}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "configuration")


def test_start_pause_resume_and_stop(client: APIClient, replicator: Replicator) -> None:
    for act, desired in (
        ("start", "running"),
        ("pause", "paused"),
        ("resume", "running"),
        ("stop", "stopped"),
    ):
        response = client.post(f"{URL}{replicator.pk}/{act}/")
        assert response.status_code == 200, response.content
        assert response.json()["desired"] == desired
    refused = client.post(f"{URL}{replicator.pk}/resume/")
    assert refused.status_code == 400
    assert refused.json()["remedy"].startswith("It can ")


def test_retry_begins_anew(client: APIClient, replicator: Replicator) -> None:
    Replicator.objects.update(
        desired=Desired.RUNNING, status=Status.FAILED, error_code="x", error_message="why", attempt=9
    )
    answer = client.post(f"{URL}{replicator.pk}/retry/").json()
    assert (answer["status"], answer["attempt"], answer["error"]) == ("starting", 0, None)


def test_delete_takes_the_target_along_only_when_told(client: APIClient, replicator: Replicator) -> None:
    Replicator.objects.filter(pk=replicator.pk).update(desired=Desired.RUNNING, status=Status.RUNNING)
    assert client.delete(f"{URL}{replicator.pk}/?drop_target=true").status_code == 202
    replicator.refresh_from_db()
    assert (replicator.desired, replicator.drop_target_on_delete) == (Desired.DELETED, True)
    assert not replicator.leave_source_on_delete


def test_a_deletion_that_waits_for_the_source_can_be_told_to_leave_it(
    client: APIClient, replicator: Replicator
) -> None:
    for query in ("?drop_target=true", "?drop_target=true&leave_source=true"):
        assert client.delete(f"{URL}{replicator.pk}/{query}").status_code == 202
    replicator.refresh_from_db()
    assert (replicator.drop_target_on_delete, replicator.leave_source_on_delete) == (True, True)


def test_options_are_changed_one_by_one(client: APIClient, replicator: Replicator) -> None:
    url = f"{URL}{replicator.pk}/options/"
    before = client.get(url).json()
    after = client.patch(url, {"retry_minutes": 7}, format="json").json()
    assert after == before | {"retry_minutes": 7}
    assert client.patch(url, {"retry_minutes": -1}, format="json").json()["code"] == "configuration"
    assert client.get(url).json() == after


def test_snapshots_are_paused_and_resumed(client: APIClient, replicator: Replicator) -> None:
    paused = client.post(f"{URL}{replicator.pk}/snapshots/pause/").json()
    assert paused["options"]["snapshot_paused"] is True
    assert client.post(f"{URL}{replicator.pk}/snapshots/resume/").json()["options"]["snapshot_paused"] is False
    assert client.get(f"{URL}{replicator.pk}/snapshots/").json()["count"] == 0


def test_replicators_are_filtered_and_paged(client: APIClient, replicator: Replicator) -> None:
    Replicator.objects.create(
        name="broken", connection=replicator.connection, destination=replicator.destination, status=Status.FAILED,
        error_code="x",
    )  # fmt: skip
    assert client.get(URL).json()["count"] == 2
    [failed] = client.get(URL, {"status": "failed"}).json()["results"]
    assert (failed["name"], failed["error"]["code"]) == ("broken", "x")
    assert client.get(URL, {"search": "sho"}).json()["count"] == 1
    assert client.get(URL, {"connection": replicator.connection_id, "limit": 1}).json()["next"]


def test_the_summary_is_that_of_the_status_command(client: APIClient, replicator: Replicator) -> None:
    summary = client.get(f"{URL}{replicator.pk}/summary/").json()
    assert summary["name"] == "shop"
    assert [table["table"] for table in summary["tables"]] == ["shop.customers", "shop.orders"]


def test_a_change_of_the_target_keeps_what_it_does_not_name(
    client: APIClient, replicator: Replicator, connection: Connection
) -> None:
    url = f"{URL}{replicator.pk}/target/"
    routed = {"routing": "shop.o*: lake.{table}", "format_version": "3"}
    assert client.patch(url, {**routed, "bloom_filters": True}, format="json").status_code == 200
    assert client.patch(url, {"sort_by": "shop.orders: id"}, format="json").status_code == 200
    services.update_target(replicator=replicator, target={"partition_by": "shop.orders: bucket(2, id)"})
    found = client.get(url).json()["settings"]
    own = {**routed, "bloom_filters": "yes", "sort_by": "shop.orders: id", "partition_by": "shop.orders: bucket(2, id)"}
    assert found == {**found, **own}
    reset = client.patch(url, {"routing": None, "bloom_filters": None, "sort_by": ""}, format="json")
    assert reset.status_code == 200, reset.content
    found = reset.json()["settings"]
    assert found == {**found, **own, "routing": "", "bloom_filters": "no", "sort_by": ""}
    place = f"/api/v1/destinations/{DESTINATIONS.create(name='d', kind='delta', config=DELTA).pk}/"
    assert client.patch(place, {"config": {"region": None}}, format="json").json()["config"]["region"] == ""
    assert client.patch(place, {"config": {"region": "a-1"}}, format="json").json()["config"] == DELTA | {
        "region": "a-1", "account_name": "", "access_key_id": ""
    }  # fmt: skip
    file = f"replicators: [{{name: shop, connection: {connection.name}, tables: [shop.customers, shop.orders]"
    assert definitions.apply(file + "}]", {}) == []
    assert definitions.apply(file + ", target: {partition_by: 'shop.orders: bucket(2, id)'}}]", {}) == [
        "replicator shop: changed format_version of its target"
    ]
    assert definitions.apply(file + ", target: {}}]", {}) == ["replicator shop: changed partition_by of its target"]


@pytest.mark.filterwarnings("ignore:No directory at")
def test_the_page_sends_all_that_it_shows(client: APIClient, replicator: Replicator, user: User) -> None:
    """What was emptied there, or set to no, is so; what it does not show stays."""
    prefixed = {"namespace_prefix": "p_", "routing": "shop.o*: lake.{table}", "bloom_filters": "yes"}
    Replicator.objects.filter(pk=replicator.pk).update(target={**replicator.target, **prefixed})
    client.force_login(user)
    typed = {"routing": "", "bloom_filters": "no", "format_version": "2"}
    assert client.post(f"/replicators/{replicator.pk}/settings/target/", typed).status_code == 302
    replicator.refresh_from_db()
    found = replicator.target
    assert (found["namespace_prefix"], found["routing"], found["bloom_filters"]) == ("p_", "", "no")
