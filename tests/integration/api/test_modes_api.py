"""Modes through the API, as code, in the assessment and on the tables page: another one is asked for twice."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from replicator.state.tables import TableState
from webapp.console.definitions.export import export
from webapp.console.views.draft_selection import Selected
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.assessment import assess
from webapp.replicators.selection.entries import SelectionEntry

pytestmark = [pytest.mark.django_db, pytest.mark.integration]


@pytest.fixture
def url(replicator: Replicator) -> str:
    return f"/api/v1/replicators/{replicator.pk}/tables/"


@pytest.fixture
def orders(replicator: Replicator) -> ReplicatorTable:
    rows = ReplicatorTable.objects.filter(replicator=replicator, name="orders")
    rows.update(state=TableState.STREAMING.value, load="L1", load_complete=True)
    return rows.get()


def test_a_mode_is_changed_once_it_is_confirmed(client: APIClient, url: str, orders: ReplicatorTable) -> None:
    asked = client.post(f"{url}{orders.pk}/mode/", {"mode": "history"}, format="json")
    assert asked.status_code == 400
    assert "resnapshotted into a new target table in the mode history" in asked.content.decode()
    done = client.post(f"{url}{orders.pk}/mode/", {"mode": "history", "confirm": True}, format="json").json()
    assert (done["mode"], done["state"]) == ("history", "loading")
    orders.refresh_from_db()
    assert orders.load != "L1"
    again = client.post(f"{url}{orders.pk}/mode/", {"mode": "history"}, format="json")
    assert again.status_code == 200, "it is so already"
    assert client.post(f"{url}{orders.pk}/mode/", {"mode": "x"}, format="json").status_code == 400
    line = {"database": "shop", "table": "orders", "mode": "mirror"}
    refused = client.post(url, {"selection": [line]}, format="json")
    assert "changing its mode requires a resnapshot" in refused.content.decode()
    added = client.post(url, {"selection": [{**line, "table": "items", "mode": "changelog"}]}, format="json")
    assert added.status_code == 201, added.content
    assert ReplicatorTable.objects.get(name="items").mode == "changelog"
    written = export([orders.replicator.name])
    assert "table: shop.orders\n    mode: history" in written
    assert "table: shop.items\n    mode: changelog" in written
    assert "- shop.customers" in written


def test_a_halted_table_is_read_into_the_new_shape_when_it_goes_on(
    client: APIClient, url: str, orders: ReplicatorTable
) -> None:
    client.post(f"{url}{orders.pk}/skip/")
    body = {"mode": "soft_delete", "confirm": True}
    assert client.post(f"{url}{orders.pk}/mode/", body, format="json").json()["state"] == "skipped"
    assert client.post(f"{url}{orders.pk}/resume/").json()["state"] == "loading"


def test_a_table_without_key_is_refused_before_and_after(client: APIClient, url: str, orders: ReplicatorTable) -> None:
    ReplicatorTable.objects.filter(pk=orders.pk).update(keyless=True)
    answer = client.post(f"{url}{orders.pk}/mode/", {"mode": "history", "confirm": True}, format="json")
    assert "has no key" in answer.content.decode()
    lines = [
        SelectionEntry("shop", "log"),
        SelectionEntry("shop", "customers"),
        SelectionEntry("shop", "items", mode="mirror"),
    ]
    found = assess(
        connection=orders.replicator.connection, selection=lines, options=ReplicatorOptions(mode="soft_delete")
    )
    assert {one.table.name: one.support for one in found} == {"log": "none", "customers": "full", "items": "full"}
    assert "has no key, which the mode soft delete requires" in " ".join(found[-1].reasons)


def test_the_tables_page_changes_a_mode_and_shows_it(user: object, orders: ReplicatorTable) -> None:
    browser = Client()
    browser.force_login(user)  # type: ignore[arg-type]
    page = reverse("replicators:tables", args=[orders.replicator_id])
    assert "replaced by a new, empty table" in browser.get(page).content.decode()
    act = reverse("replicators:change_mode", args=[orders.replicator_id, orders.pk])
    assert Client().post(act, {"mode": "history"}).status_code == 302
    browser.post(act, {"mode": "soft_delete"})
    orders.refresh_from_db()
    assert (orders.mode, orders.state) == ("soft_delete", "loading")
    assert '<span class="tag">soft delete</span>' in browser.get(page).content.decode()


def test_the_wizard_keeps_a_tables_own_mode() -> None:
    from replicator.model.identifiers import TableId

    chosen, other = TableId("shop", "orders"), TableId("shop", "items")
    selected = Selected()
    selected.set_database("shop", on=True)
    selected.keep_as(chosen, "history")
    selected.keep_as(other, "nonsense")
    again = Selected.from_dict(selected.to_dict())
    assert again.entries() == [SelectionEntry("shop"), SelectionEntry("shop", "orders", mode="history")]
    again.set_tables([chosen], on=False)
    assert again.entries() == [SelectionEntry("shop"), SelectionEntry("shop", "orders", excluded=True)]
