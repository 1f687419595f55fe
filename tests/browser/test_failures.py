"""Failures, the log's details and the timeline's filters in a browser; by keyboard, and live."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import LOOKS, Visitor
from tests.browser.factories import Installation
from tests.browser.test_alerts import seen_well, tab_to
from webapp.monitoring.models import LogLine

pytestmark = [pytest.mark.browser, pytest.mark.integration]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_failing_table_is_found_and_skipped_by_keyboard(
    visit: Callable[..., Visitor], installation: Installation, width: int, scheme: str
) -> None:
    busy = installation.replicators["shop to lakehouse"]
    table = busy.tables.get(name="reviews")
    failure = table.failures.get()
    visitor = visit(width, scheme)
    page = visitor.page
    visitor.go(f"/replicators/{busy.pk}/failures/")
    tab_to(page, "#failure-filters [name=code]")
    page.keyboard.type("unsupported charset")
    page.locator("#failures-live .failure").nth(1).wait_for(state="detached")
    expect(page.locator(".failure")).to_have_count(1)
    tab_to(page, f"#act-{failure.pk} > summary")
    page.keyboard.press("Enter")
    seen_well(visitor)
    for _ in range(3):  # retry, resnapshot, skip
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#skip-table", has_text="Resuming it starts a resnapshot").wait_for()
    seen_well(visitor)
    page.locator("#skip-table button", has_text="Skip").press("Enter")
    page.locator(f"#failure-{failure.pk}", has_text="table skipped").wait_for(timeout=10_000)
    table.refresh_from_db()
    assert table.state == "skipped"
    assert page.input_value("#failure-filters [name=code]") == "unsupported_charset"
    seen_well(visitor)


def test_a_count_leads_to_what_it_counts(visit: Callable[..., Visitor], installation: Installation) -> None:
    visitor = visit()
    page = visitor.page
    visitor.go("/failures/")
    page.locator("#failure-counts a", has_text="target_conflict").click()
    page.locator("#failure-counts tr.chosen").wait_for()
    expect(page.locator(".failure")).to_have_count(8)
    assert page.input_value("[name=replicator]") == str(installation.replicators["shop to lakehouse"].pk)
    seen_well(visitor)


def test_an_unfolded_stack_stays_open_while_the_log_is_followed(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    busy = installation.replicators["shop to lakehouse"]
    visitor = visit()
    page = visitor.page
    visitor.go(f"/replicators/{busy.pk}/logs/?level=error")
    more = page.locator(".log-more").last
    expect(page.locator(".log-stack").last).not_to_be_visible()
    more.locator("summary").click()
    stack = page.locator(".log-more[open] .log-stack")
    assert "SparkArithmeticException" in stack.inner_text()
    LogLine.objects.create(replicator=busy, level="error", stage="snapshot", message="Another line")
    page.locator(".log-line", has_text="Another line").wait_for(timeout=8000)
    expect(stack).to_be_visible()
    seen_well(visitor)
    page.select_option("[name=stage]", "snapshot")
    page.locator(".log-line", has_text="does not fit").first.wait_for(state="detached")
    expect(page.locator(".log-line")).to_have_count(1)


def test_a_filter_is_not_undone_by_a_poll_that_was_slow(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    visitor = visit(1440, "light")
    page = visitor.page
    visitor.go(f"/replicators/{installation.replicators['shop to lakehouse'].pk}/dead-letters/")
    polls: list[Route] = []
    page.route("**/dead-letters/", lambda route: polls.append(route))  # noqa: PLW0108 - playwright marks what it is given
    with page.expect_request("**/dead-letters/", timeout=10_000):
        pass
    page.select_option("#dead-letter-filters [name=state]", "over")
    page.locator("#dead-letter-live[hx-get*='state=over']").wait_for(timeout=10_000)
    with page.expect_response("**/dead-letters/"):
        polls[0].continue_()
    page.unroute("**/dead-letters/")
    with page.expect_response("**/dead-letters/?state=over*", timeout=10_000):  # the next poll asks for what is shown
        pass


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_dead_letter_row_is_looked_at_and_discarded_by_keyboard(
    visit: Callable[..., Visitor], installation: Installation, width: int, scheme: str
) -> None:
    busy = installation.replicators["shop to lakehouse"]
    row = busy.dead_letter_rows.get(sequence=99_100_001)
    visitor = visit(width, scheme)
    page = visitor.page
    visitor.go(f"/replicators/{busy.pk}/dead-letters/")
    expect(page.locator(".failure")).to_have_count(3)
    tab_to(page, f"#bytes-{row.pk} > summary")
    page.keyboard.press("Enter")
    shown = page.locator(f"#bytes-{row.pk} pre")
    assert shown.inner_text().startswith("0000  00 11 22 00 00 20 61 20 72 65 76 69 65 77 20 ff")
    with page.expect_response(lambda answer: "/dead-letters/" in answer.url, timeout=8000):
        pass
    expect(shown).to_be_visible()
    seen_well(visitor)
    tab_to(page, f"#act-{row.pk} > summary")
    page.keyboard.press("Enter")
    seen_well(visitor)
    for _ in range(2):  # replay, discard
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator(f"#dead-letter-{row.pk}").wait_for(state="detached", timeout=10_000)
    row.refresh_from_db()
    assert (row.resolution, row.resolved_by) == ("discarded", installation.user)
    page.select_option("#dead-letter-filters [name=state]", "over")
    page.locator(f"#dead-letter-{row.pk}", has_text="discarded").wait_for(timeout=10_000)
    expect(page.locator(".failure")).to_have_count(2)
    seen_well(visitor)


def test_the_timeline_is_filtered(visit: Callable[..., Visitor], installation: Installation) -> None:
    busy = installation.replicators["shop to lakehouse"]
    visitor = visit()
    page = visitor.page
    visitor.go(f"/replicators/{busy.pk}/activity/")
    page.select_option("[name=group]", "failovers")
    page.locator(".timeline li", has_text="Created from").wait_for(state="detached")
    expect(page.locator(".timeline li")).to_have_count(1)
    page.select_option("[name=group]", "ddl")
    page.locator(".timeline li", has_text="TRUNCATE").wait_for()
    page.locator(".timeline details summary").click()
    assert page.locator(".event-statement").inner_text() == "TRUNCATE TABLE reviews"
    with page.expect_response(lambda answer: "group=ddl" in answer.url, timeout=8000):
        pass
    expect(page.locator(".event-statement")).to_be_visible()
    seen_well(visitor)
