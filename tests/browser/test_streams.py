"""Streams in a browser without a mouse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import LOOKS, Visitor
from tests.browser.factories import Installation
from tests.browser.test_alerts import seen_well, tab_to
from webapp.streams.models import Stream

pytestmark = [pytest.mark.browser, pytest.mark.integration]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_stream_is_made_disabled_enabled_and_deleted(
    visit: Callable[..., Visitor], installation: Installation, width: int, scheme: str
) -> None:
    visitor = visit(width, scheme)
    page = visitor.page
    visitor.go("/streams/")
    page.locator("#stream-orders-to-billing", has_text="behind").wait_for()
    page.locator("#stream-orders-to-billing", has_text="up to date").wait_for()
    tab_to(page, "#id_name")
    page.keyboard.type("to search")
    tab_to(page, "#id_shards")
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    tab_to(page, "form .button-primary")
    page.keyboard.press("Enter")
    page.locator(".callout-bad", has_text="lowercase letters").wait_for()
    seen_well(visitor)
    page.fill("#id_name", "to-search")
    page.fill("#id_tables", "shop.orders\nshop.nothing")
    page.select_option("#id_replicator", label="shop to lakehouse")
    page.click("form .button-primary")
    page.locator(".callout-bad", has_text="no table shop.nothing").wait_for()
    page.fill("#id_tables", "shop.orders\nshop.reviews")
    page.click("form .button-primary")
    row = page.locator("#stream-to-search")
    row.get_by_text("Enabled").wait_for()
    seen_well(visitor)
    made = Stream.objects.get(name="to-search")
    assert (made.shards, made.replicator.name, made.every_table) == (3, "shop to lakehouse", False)
    tab_to(page, "#disable-to-search")
    page.keyboard.press("Enter")
    row.get_by_text("Disabled").wait_for()
    tab_to(page, "#enable-to-search")
    page.keyboard.press("Enter")
    row.get_by_text("Enabled").wait_for()
    tab_to(page, "#stream-to-search [data-dialog=delete]")
    page.keyboard.press("Enter")
    page.locator("#delete[open]", has_text="to-search").wait_for()
    seen_well(visitor)
    tab_to(page, "#delete .button-danger")
    page.keyboard.press("Enter")
    page.wait_for_load_state()
    row.wait_for(state="detached")
    assert not Stream.objects.filter(name="to-search").exists()
    assert Stream.objects.count() == 2
