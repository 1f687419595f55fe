"""The tables of a replicator through the API."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from replicator.model.schema import Column, TableSchema
from replicator.model.types import INT
from replicator.state.tables import TableState
from webapp.replicators.models import Replicator, ReplicatorTable, SchemaVersion
from webapp.replicators.selection.entries import salt_of


@pytest.fixture
def url(replicator: Replicator) -> str:
    return f"/api/v1/replicators/{replicator.pk}/tables/"


@pytest.fixture
def orders(replicator: Replicator) -> ReplicatorTable:
    return ReplicatorTable.objects.get(replicator=replicator, name="orders")


def test_tables_are_listed_filtered_and_paged(client: APIClient, url: str, orders: ReplicatorTable) -> None:
    ReplicatorTable.objects.filter(pk=orders.pk).update(
        state=TableState.FAILED.value, error_code="unsupported_type", error_message="m", error_remedy="r"
    )
    assert client.get(url, {"limit": 1}).json()["count"] == 2
    [failed] = client.get(url, {"state": "failed"}).json()["results"]
    assert (failed["table"], failed["error"]) == (
        "orders",
        {"code": "unsupported_type", "message": "m", "remedy": "r"},
    )
    assert client.get(url, {"search": "cust"}).json()["count"] == 1
    assert client.get(f"{url}{failed['id']}/").json() == failed


def test_tables_are_added_and_removed(client: APIClient, url: str) -> None:
    added = client.post(url, {"selection": [{"database": "shop", "table": "items"}]}, format="json")
    assert added.status_code == 201, added.content
    assert [line["table"] for line in added.json()] == ["customers", "items", "orders"]
    refused = client.post(url, {"selection": [{"database": "shop", "table": "itmes"}]}, format="json")
    assert (refused.status_code, refused.json()["message"]) == (400, "Not found in the source: shop.itmes.")
    items = next(t for t in client.get(url).json()["results"] if t["table"] == "items")
    assert client.delete(f"{url}{items['id']}/").status_code == 204
    assert client.get(url).json()["count"] == 2


def test_masks_and_a_row_filter_are_shown_before_they_are_set_and_the_salt_never(
    client: APIClient, url: str, replicator: Replicator
) -> None:
    line = {"database": "shop", "table": "orders", "masks": {"note": None, "mail": "hash"}, "row_filter": "id>5"}
    told = client.post(f"{url}effects/", {"selection": [line]}, format="json")
    assert told.status_code == 200, told.content
    assert "shop.orders: mail is masked (hashed with salt)." in told.json()["effects"]
    assert not replicator.selection.exclude(masks={}).exists()
    assert client.post(url, {"selection": [line]}, format="json").status_code == 201
    owner = url.removesuffix("tables/")
    listed = client.get(f"{owner}selection/").json()
    assert [one["masks"] for one in listed if one["table"] == "orders"] == [
        {"note": {"kind": "null"}, "mail": {"kind": "hash"}}
    ]
    assert [one["row_filter"] for one in listed if one["table"] == "orders"] == ["id > 5"]
    replicator.refresh_from_db()
    for address in (owner, f"{owner}selection/", url, f"{owner}summary/"):
        answer = client.get(address).content.decode()
        assert salt_of(replicator) not in answer
        assert replicator.secrets not in answer
    for wrong in ({"masks": {"mail": "scramble"}}, {"row_filter": "id >"}):
        assert client.post(url, {"selection": [line | wrong]}, format="json").status_code == 400


def test_what_is_protected_stays_so_when_the_table_is_added_again(
    client: APIClient, url: str, replicator: Replicator
) -> None:
    """Each goes only where it is named."""
    name = {"database": "shop", "table": "orders"}
    line = name | {"masks": {"mail": "hash"}, "row_filter": "id > 5", "excluded_columns": ["note"]}
    assert client.post(url, {"selection": [line]}, format="json").status_code == 201
    stored = replicator.selection.get(**name)
    assert client.post(f"{url}effects/", {"selection": [name]}, format="json").json()["effects"] == ["Nothing changes."]
    for again in (name, name | {"masks": {"mail": "hash"}}, {"database": "shop"}):
        assert client.post(url, {"selection": [again]}, format="json").status_code == 201
        kept = replicator.selection.get(**name)
        assert (kept.masks, kept.row_filter, kept.excluded_columns) == (
            stored.masks, stored.row_filter, stored.excluded_columns,
        )  # fmt: skip
    assert client.post(url, {"selection": [name | {"masks": {}}]}, format="json").status_code == 201
    kept = replicator.selection.get(**name)
    assert (kept.masks, kept.row_filter, kept.excluded_columns) == ({}, "id > 5", ["note"])


def test_a_table_is_read_anew(client: APIClient, url: str, orders: ReplicatorTable) -> None:
    ReplicatorTable.objects.filter(pk=orders.pk).update(state=TableState.STREAMING.value, tracked=True)
    answer = client.post(f"{url}{orders.pk}/resnapshot/", {"reason": "to be sure"}, format="json")
    assert answer.status_code == 200, answer.content
    assert answer.json()["state"] in {"loading", "reloading"}
    assert answer.json()["snapshot"]["reason"] == "to be sure"
    assert client.get(f"{url}{orders.pk}/snapshots/").json()["count"] == 1
    listed = client.get(f"/api/v1/replicators/{orders.replicator_id}/snapshots/").json()["results"]
    assert [(s["table"], s["rows_read"]) for s in listed] == [("shop.orders", 0)]


def test_a_failed_table_is_tried_again(client: APIClient, url: str, orders: ReplicatorTable) -> None:
    ReplicatorTable.objects.filter(pk=orders.pk).update(state=TableState.FAILED.value, error_code="x")
    assert client.post(f"{url}{orders.pk}/retry/").json()["error"] is None


def test_an_initial_load_cannot_be_cancelled(client: APIClient, url: str, orders: ReplicatorTable) -> None:
    refused = client.post(f"{url}{orders.pk}/cancel-snapshot/")
    assert (refused.status_code, refused.json()["code"]) == (400, "configuration")


def test_schema_versions_show_what_was_decided(client: APIClient, url: str, orders: ReplicatorTable) -> None:
    schema = {"database": "shop", "table": "orders", "columns": [], "key": []}
    SchemaVersion.objects.create(table=orders, version=1, schema=schema, statement="ALTER …", decision="apply")
    [version] = client.get(f"{url}{orders.pk}/schema-versions/").json()["results"]
    assert (version["version"], version["statement"], version["schema"]) == (1, "ALTER …", schema)


def test_the_table_of_another_replicator_is_not_found(client: APIClient, url: str, replicator: Replicator) -> None:
    other = Replicator.objects.create(
        name="other", connection=replicator.connection, destination=replicator.destination
    )
    table = ReplicatorTable.objects.create(
        replicator=other, database="d", name="t", target_namespace="d", target_name="t"
    )
    assert client.get(f"{url}{table.pk}/").status_code == 404


def test_parts_of_a_table_are_read_paused_and_stopped(client: APIClient, url: str, orders: ReplicatorTable) -> None:
    at = f"{url}{orders.pk}/"
    refused = client.post(f"{at}snapshot/", {"keys": [1]}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (400, "configuration")
    assert "waits for its first snapshot" in refused.json()["message"]
    schema = TableSchema(orders.table_id, (Column("id", INT, nullable=False, source_type="int"),), ("id",))
    SchemaVersion.objects.create(table=orders, version=1, schema=schema.to_dict())
    ReplicatorTable.objects.filter(pk=orders.pk).update(state=TableState.STREAMING.value, tracked=True)
    for wrong in ({}, {"keys": [1], "where": "a"}, {"keys": 5}, {"keys": ["x"]}, {"keys": []}):
        assert client.post(f"{at}snapshot/", wrong, format="json").status_code == 400, wrong
    refused = client.post(f"{at}snapshot/", {"where": "nothing = 1"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "condition_refused")
    keys = client.post(f"{at}snapshot/", {"keys": "1\n2\n2"}, format="json")
    assert keys.status_code == 201, keys.content
    assert (keys.json()["scope"], keys.json()["rows_estimate"]) == ("keys", 2)
    rows = client.post(f"{at}snapshot/", {"where": "id < 10", "reason": "r"}, format="json").json()
    assert (rows["scope"], rows["condition"], rows["reason"]) == ("rows", "id < 10", "r")
    assert client.post(f"{at}pause-snapshot/").json()["snapshot"]["paused"] is True
    assert client.post(f"{at}resume-snapshot/").json()["snapshot"]["paused"] is False
    for _ in range(2):
        assert client.post(f"{at}stop-snapshot/").json()["snapshot"] is None
    assert {run["state"] for run in client.get(f"{at}snapshots/").json()["results"]} == {"cancelled"}
