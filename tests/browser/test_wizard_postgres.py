"""The wizard on a live Postgres: another kind of source is chosen, and its schemas are listed and assessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.browser.conftest import Visitor
from tests.environment import HOME
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = [pytest.mark.browser, pytest.mark.integration]
STATEMENTS = (
    "DROP SCHEMA IF EXISTS wizard_shop CASCADE",
    "CREATE SCHEMA wizard_shop",
    "CREATE TABLE wizard_shop.orders (id bigint PRIMARY KEY, total numeric(12,2), placed timestamptz)",
    "CREATE TABLE wizard_shop.notes (body text)",
)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgresSource]:
    found = EmbeddedPostgresSource(HOME / "postgres-wizard", durable=False)
    found.start()
    yield found
    found.stop()


def test_a_replicator_is_made_from_a_live_server(visit: Callable[..., Visitor], server: EmbeddedPostgresSource) -> None:
    from webapp.replicators.models import Replicator

    connection = server.connect()
    with connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(statement)
    connection.close()
    visitor = visit()
    page = visitor.page
    visitor.go("/replicators/new/")
    page.get_by_label("A new connection").check()
    page.get_by_role("link", name="PostgreSQL").click()
    page.fill("#id_name", "live")
    for name in ("host", "port", "user", "password"):
        page.fill(f"#id_setting-{name}", str(server.address[name]))
    page.fill("#id_setting-database", server.database)
    assert visitor.axe() == []
    page.get_by_role("button", name="Next: test").click()
    page.locator(".checks li").first.wait_for()
    assert page.locator(".checks .tag-bad").count() == 0, page.locator(".checks").inner_text()
    page.get_by_role("button", name="Next: tables").click()
    page.get_by_text("All schemas").wait_for()
    page.get_by_label("All tables of wizard_shop, also future ones").check()
    page.locator(".wizard-foot", has_text="2 tables selected · 1 whole schema").wait_for()
    assert visitor.axe() == []
    page.get_by_role("button", name="Next: target").click()
    page.get_by_role("button", name="Next: options").click()
    page.fill("#id_name", "live shop")
    page.get_by_role("button", name="Next: assessment").click()
    page.locator(".assess", has_text="notes").get_by_text("REPLICA IDENTITY FULL;").wait_for()
    page.locator("#remove-none").click()
    page.locator("#remove-none").wait_for(state="detached")
    page.locator(".assess", has_text="orders").locator("summary").click()
    page.get_by_text("Replica identity is the primary key").wait_for()
    page.get_by_role("button", name="Next: review").click()
    page.get_by_role("button", name="Create", exact=True).click()
    page.locator(".toast", has_text="live shop is created").wait_for()
    made = Replicator.objects.get(name="live shop")
    lines = [(line.database, line.table, line.excluded) for line in made.selection.all()]
    assert lines == [("wizard_shop", "", False), ("wizard_shop", "notes", True)]
    assert visitor.complaints == []
