"""Lineage pages: what they cost and what they say, with tables as wide and histories as long as there are."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from replicator.model.schema import Column, TableSchema
from replicator.model.types import BIGINT
from tests.browser.factories import Installation, make_replicator, make_table, make_wide_history
from webapp.replicators.models import SchemaVersion

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
HTMX = {"HTTP_HX_REQUEST": "true"}


def test_the_overview_costs_the_same_whatever_the_number_of_tables(
    browser: Client, made: Installation, django_assert_max_num_queries: Any
) -> None:
    one = make_replicator(made.connection, "many")
    for number in range(70):
        table = make_table(one, f"t{number:03}")
        SchemaVersion.objects.create(
            table=table,
            version=1,
            schema=TableSchema(
                table.table_id, (Column("id", BIGINT, nullable=False, source_type="bigint"),), ("id",)
            ).to_dict(),
        )
    with django_assert_max_num_queries(9):
        page = browser.get(reverse("replicators:lineage", args=[one.pk]), **HTMX).content.decode()
    assert page.count('class="lin-row"') == 50
    assert "prod_shop.t000" in page
    found = browser.get(reverse("replicators:lineage", args=[one.pk]) + "?q=t069", **HTMX).content.decode()
    assert found.count('class="lin-row"') == 1


def test_a_table_of_300_columns_says_what_is_special_and_folds_the_rest(
    browser: Client, made: Installation, django_assert_max_num_queries: Any
) -> None:
    table = make_table(made.replicators["erp"], "wide")
    make_wide_history(table)
    address = reverse("replicators:lineage_table", args=[made.replicators["erp"].pk, table.pk])
    with django_assert_max_num_queries(7):
        page = browser.get(address, **HTMX).content.decode()
    assert "Version 12" in page
    assert "290 columns copied as they are" in page
    assert "was moving_11" in page
    assert "moving_1 renamed to moving_2" in page  # the column's life
    assert "becomes null, and is counted" in page
    assert page.count('<details class="lin-more"') == 2
    assert "lin-more" not in browser.get(f"{address}?all=1", **HTMX).content.decode()


def test_an_older_version_and_a_former_name_are_found(browser: Client, made: Installation) -> None:
    table = make_table(made.replicators["erp"], "wide")
    make_wide_history(table, columns=20, versions=3)
    address = reverse("replicators:lineage_table", args=[made.replicators["erp"].pk, table.pk])
    older = browser.get(f"{address}?version=2", **HTMX).content.decode()
    assert "not the current one" in older
    assert "moving_3" not in older.split('id="versions-title"')[0]
    former = browser.get(f"{address}?q=moving_1", **HTMX).content.decode()
    assert former.count('class="lin-row"') == 1
    assert "moving_3" in former
    assert browser.get(f"{address}?version=99999999999", **HTMX).status_code == 200


def test_columns_left_out_stand_on_the_sources_side(browser: Client, made: Installation) -> None:
    orders = made.replicators["shop to lakehouse"].tables.get(name="orders")
    page = browser.get(reverse("replicators:lineage_table", args=[orders.replicator_id, orders.pk]), **HTMX)
    text = page.content.decode()
    assert "card_number" in text
    assert "it never leaves the source" in text
    assert "_sequence_num" in text
    empty = make_table(made.replicators["erp"], "unknown")
    page = browser.get(reverse("replicators:lineage_table", args=[empty.replicator_id, empty.pk]), **HTMX)
    assert "No schema of this table yet" in page.content.decode()


def test_tables_of_other_replicators_and_strangers_get_nothing(browser: Client, made: Installation) -> None:
    orders = made.replicators["shop to lakehouse"].tables.get(name="orders")
    other = made.replicators["erp"].pk
    assert browser.get(reverse("replicators:lineage_table", args=[other, orders.pk])).status_code == 404
    answer = Client().get(reverse("replicators:lineage_table", args=[orders.replicator_id, orders.pk]))
    assert answer["Location"].startswith("/login/")


def test_the_api_says_the_same(browser: Client, made: Installation) -> None:
    table = make_table(made.replicators["erp"], "wide")
    make_wide_history(table, columns=20, versions=3)
    address = f"/api/v1/replicators/{table.replicator_id}/tables/{table.pk}/lineage/"
    found = browser.get(address).json()
    assert (found["version"], found["source"], found["target"]) == (3, "shop.wide", "prod_shop.wide")
    lines = {line["target"]: line for line in found["columns"]}
    assert lines["moving_3"]["was"] == "moving_2"
    assert [step["version"] for step in lines["moving_3"]["steps"]] == [1, 2, 3]
    assert (lines["id"]["source_type"], lines["id"]["type"], lines["id"]["target_type"]) == (
        "bigint(20)",
        "bigint",
        "long",
    )
    assert lines["_sequence_num"]["source"] == ""
    assert "moving_2" in {line["source"] for line in browser.get(f"{address}?version=2").json()["columns"]}
    assert browser.get(f"{address}?version=9").status_code == 404
