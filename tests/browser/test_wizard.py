"""The wizard, from the empty page to a replicator, by keyboard and by mouse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor
from tests.browser.factories import Installation

pytestmark = [pytest.mark.browser, pytest.mark.integration]


def _next(visitor: Visitor, step: str) -> None:
    visitor.page.locator(".wizard-foot .button-primary").click()
    visitor.page.wait_for_url(f"**/{step}/")


def _fill_new_connection(visitor: Visitor, *, host: str, password: str) -> None:
    page = visitor.page
    page.get_by_label("A new connection").check()
    page.fill("#id_name", f"server {host}")
    page.fill("#id_setting-host", host)
    page.fill("#id_setting-password", password)


def test_from_a_new_connection_to_a_started_replicator(visit: Callable[..., Visitor]) -> None:
    from webapp.replicators.models import Draft, Replicator

    visitor = visit()
    page = visitor.page
    visitor.go("/replicators/new/")
    _fill_new_connection(visitor, host="db.example", password="right")
    _next(visitor, "test")
    page.get_by_text("1 warning").wait_for()
    assert "SET GLOBAL binlog_expire_logs_seconds" in page.locator(".copy pre").inner_text()
    assert visitor.axe() == []
    _next(visitor, "tables")
    page.locator("#picker-search").wait_for()
    page.get_by_label("All tables of shop, also future ones").check()
    page.locator(".wizard-foot", has_text="8 tables selected").wait_for()
    page.locator("#picker-search").fill("events_0001")
    page.get_by_role("button", name="Select matching 10").click()
    page.locator(".wizard-foot", has_text="18 tables selected").wait_for()
    assert visitor.axe() == []
    _next(visitor, "target")
    page.fill("#id_namespace_prefix", "lake_")
    page.locator("#target-names", has_text="lake_shop").wait_for()
    page.fill("#id_routing", "shop.{1}: x")
    page.locator("#target-names li").first.wait_for(state="detached")
    page.fill("#id_routing", "archive.events_*: events.all shared by day = {1}")
    page.locator("#target-names li", has_text="events.all (day=00010)").wait_for()
    page.fill("#id_routing", "shop.o*s: sales.o_{1}\narchive.events_*: events.at_{1}")
    for name in ("sales.o_*", "lake_shop.*", "events.at_00010"):
        page.locator("#target-names li", has_text=name).wait_for()
    page.fill("#id_computed_columns", "shop.*: tenant = eu")
    page.get_by_role("button", name="Next: options").click()
    page.get_by_text("'eu' is none of 'text', a number", exact=False).first.wait_for()
    page.fill("#id_computed_columns", "*.*: tenant = 'eu'")
    assert visitor.axe() == []
    _next(visitor, "options")
    page.fill("#id_name", "wizard made")
    page.fill("#id_slo_minutes", "2")
    page.get_by_text("Each kind of change", exact=True).click()
    page.select_option("#id_ddl_drop_column", "ignore")
    expect(page.locator("input[name=ddl_preset][value=custom]")).to_be_checked()
    assert visitor.axe() == []
    draft = Draft.objects.latest("updated_at")  # as the dialog of a table's columns does
    tables = draft.data["selection"]
    tables["masks"] = [["shop", "customers", {"note": {"kind": "null"}}]]
    tables["filters"] = [["shop", "customers", "id > 9"]]
    draft.save()
    _next(visitor, "assessment")
    page.get_by_text("geo_areas", exact=True).wait_for()
    page.locator("#remove-none").click()
    page.locator("#accept-all").click()
    page.locator("#accept-all").wait_for(state="detached")
    assert visitor.axe() == []
    _next(visitor, "review")
    assert "note is masked (null); only rows with id > 9" in page.locator(".facts").inner_text()
    assert "99 % of changes queryable within 2 min" in page.locator(".facts").inner_text()
    assert visitor.axe() == []
    page.get_by_role("button", name="Create and start").click()
    page.locator(".toast", has_text="wizard made is created and starting").wait_for()
    made = Replicator.objects.get(name="wizard made")
    assert made.desired == "running"
    chosen = {name: value for name, value in made.target.items() if value}
    rules = "shop.o*s: sales.o_{1}\narchive.events_*: events.at_{1}"
    assert (made.destination.kind, chosen) == (
        "iceberg",
        {
            "namespace_prefix": "lake_",
            "routing": rules,
            "computed_columns": "*.*: tenant = 'eu'",
            "format_version": "2",
            "bloom_filters": "no",
        },
    )
    assert set(made.tables.filter(database="archive").values_list("target_namespace", flat=True)) == {"events"}
    assert made.parsed_options.ddl_policy["drop_column"] == "ignore"
    assert made.parsed_options.slo_minutes == 2
    lines = [(s.database, s.table, s.excluded) for s in made.selection.all()]
    assert ("shop", "", False) in lines
    assert ("shop", "geo_areas", True) in lines
    assert len(lines) == 13
    assert not Draft.objects.filter(name="wizard made").exists()
    assert visitor.complaints == []


def test_a_failed_test_says_why_and_leads_no_further(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = visitor.page
    visitor.go("/replicators/new/")
    _fill_new_connection(visitor, host="db2.example", password="wrong")
    _next(visitor, "test")
    page.get_by_text("Access denied for user tidemark.").wait_for()
    page.get_by_text("Correct the user and password of the connection.").wait_for()
    page.locator(".wizard-foot .button-primary").click()
    page.get_by_text("The connection test failed.").wait_for()


def test_columns_are_left_out_and_the_draft_is_kept_while_away(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    draft = installation.draft
    visitor = visit(width=390)
    page = visitor.page
    visitor.go(f"/replicators/new/{draft.pk}/tables/")
    page.locator("#picker-search").fill("orders")
    row = page.locator(".table-list li", has_text="orders")
    row.locator("summary").click()
    row.get_by_role("checkbox", name="note").uncheck()
    row.get_by_text("1 excluded.").wait_for()
    page.get_by_label("All tables of archive, also future ones").check()
    page.locator(".wizard-foot", has_text="2,417 tables selected").wait_for()
    expect(row.get_by_role("checkbox", name="note")).to_be_visible()  # the unfolded columns stayed
    visitor.go("/")
    page.get_by_role("link", name="Continue crm").click()
    page.locator(".wizard-foot", has_text="2,417 tables selected").wait_for()
    draft.refresh_from_db()
    assert draft.data["selection"]["columns"] == [["shop", "orders", ["note"]]]
    assert visitor.complaints == []


def test_tables_are_chosen_by_keyboard_alone(visit: Callable[..., Visitor], installation: Installation) -> None:
    draft = installation.draft
    visitor = visit()
    page = visitor.page
    visitor.go(f"/replicators/new/{draft.pk}/tables/")
    page.locator("#picker-search").wait_for()
    page.locator("#main").focus()
    page.keyboard.press("/")
    page.keyboard.type("customers")
    page.locator("#pick-matching", has_text="Select matching 1").wait_for()
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "shop.customers"
    page.keyboard.press("Space")
    page.locator(".wizard-foot", has_text="18 tables selected").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "shop.customers"
    page.locator("#tables-next").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/target/")


def test_quick_clicks_all_count(visit: Callable[..., Visitor], installation: Installation) -> None:
    visitor = visit()
    page = visitor.page
    visitor.go(f"/replicators/new/{installation.draft.pk}/tables/")
    page.locator("#picker-search").wait_for()
    for number in range(6):
        page.locator(".table-list .tick").nth(number).click(no_wait_after=True)
    page.locator(".wizard-foot", has_text="23 tables selected").wait_for()
    installation.draft.refresh_from_db()
    assert len(installation.draft.data["selection"]["tables"]) == 7
