"""The wizard on a live MariaDB: what it lists and assesses comes from the real plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replicator.sources import registry
from tests.browser.conftest import MYSQL, Visitor

pytestmark = [pytest.mark.browser, pytest.mark.integration]
STATEMENTS = (
    "DROP DATABASE IF EXISTS wizard_shop",
    "CREATE DATABASE wizard_shop",
    "CREATE TABLE wizard_shop.orders (id bigint unsigned PRIMARY KEY, total decimal(12,2), placed datetime(6))",
    "CREATE TABLE wizard_shop.notes (body text)",
    "INSERT INTO wizard_shop.orders VALUES (1, 9.99, NOW(6)), (2, 0.01, NOW(6))",
)


def test_a_replicator_is_made_from_a_live_server(
    visit: Callable[..., Visitor], mariadb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from webapp.replicators.models import Replicator

    monkeypatch.setitem(registry.KINDS, "mysql", MYSQL)
    with mariadb.connect() as connection, connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(statement)
    visitor = visit()
    page = visitor.page
    visitor.go("/replicators/new/")
    page.get_by_label("A new connection").check()
    page.fill("#id_name", "live")
    for name in ("host", "port", "user", "password"):
        page.fill(f"#id_setting-{name}", str(mariadb.address[name]))
    page.get_by_role("button", name="Next: test").click()
    page.locator(".checks li").first.wait_for()
    assert page.locator(".checks .tag-bad").count() == 0, page.locator(".checks").inner_text()
    page.get_by_role("button", name="Next: tables").click()
    page.get_by_label("All tables of wizard_shop, also future ones").check()
    page.locator(".wizard-foot", has_text="2 tables selected").wait_for()
    page.locator("#picker-search").fill("notes")
    page.locator(".table-list li", has_text="notes").get_by_text("no key").wait_for()
    page.get_by_role("button", name="Next: target").click()
    page.get_by_role("button", name="Next: options").click()
    page.fill("#id_name", "live shop")
    page.get_by_role("button", name="Next: assessment").click()
    page.locator(".assess", has_text="orders").locator("summary").click()
    page.get_by_text("decimal(20, 0)").wait_for()  # bigint unsigned, exactly
    if page.locator("#accept-all").count():
        page.locator("#accept-all").click()
        page.locator("#accept-all").wait_for(state="detached")
    page.get_by_role("button", name="Next: review").click()
    page.get_by_role("button", name="Create", exact=True).click()
    page.locator(".toast", has_text="live shop is created").wait_for()
    made = Replicator.objects.get(name="live shop")
    assert [(line.database, line.table) for line in made.selection.all()] == [("wizard_shop", "")]
    assert visitor.complaints == []
