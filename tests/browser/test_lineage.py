"""The lineage pages in a browser: wide tables, narrow windows, no mouse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import LOOKS, Visitor
from tests.browser.factories import Installation, make_table, make_wide_history

pytestmark = [pytest.mark.browser, pytest.mark.integration]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_table_of_300_columns_is_readable_and_reachable_by_keyboard(
    visit: Callable[..., Visitor], installation: Installation, width: int, scheme: str
) -> None:
    table = make_table(installation.replicators["erp"], "wide")
    make_wide_history(table)
    visitor = visit(width, scheme)
    visitor.go(f"/replicators/{table.replicator_id}/lineage/{table.pk}/")
    page = visitor.page
    assert (visitor.axe(), visitor.overflow(), visitor.complaints) == ([], 0, [])
    assert page.locator(".lin-item:visible").count() < 10  # the rest is folded
    page.locator("[data-lineage]").first.focus()
    page.keyboard.press("End")
    assert "_sequence_num" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")  # unfolds the columns that are copied as they are
    page.keyboard.press("ArrowDown")
    assert "c000" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    assert "first seen as c000" in page.locator("details[open] .lin-life").first.inner_text()
    page.keyboard.press("/")
    page.keyboard.type("moving_1")
    page.locator("#lineage-live", has_text="1 shown").wait_for()
    page.locator("select[name=version]").select_option("2")
    page.locator("#lineage-live", has_text="Version 2, not the current one").wait_for()
    assert (visitor.axe(), visitor.overflow()) == ([], 0)
