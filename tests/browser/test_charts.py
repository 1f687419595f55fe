"""The charts: read by pointer and by keyboard, as tables, live and stopped, on a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LOOKS, Visitor
from tests.browser.factories import Installation
from webapp.monitoring.models import MetricRow
from webapp.replicators.models import Replicator

pytestmark = [pytest.mark.browser, pytest.mark.integration]
KEYS = 10


def busy(installation: Installation) -> Replicator:
    return installation.replicators["shop to lakehouse"]


def go(visitor: Visitor, installation: Installation, query: str = "") -> None:
    visitor.go(f"/replicators/{busy(installation).pk}/charts/{query}")


def said(visitor: Visitor, key: str) -> list[str]:
    """What the legend of a chart says: its time, then its values."""
    box = visitor.page.locator(f"#chart-{key}")
    return [box.locator(".chart-time").inner_text(), *box.locator("[data-texts]").all_inner_texts()]


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        *LOOKS,
        pytest.param(1440, "dark", marks=pytest.mark.long),
        pytest.param(390, "light", marks=pytest.mark.long),
    ],
)
def test_open_tables_and_a_range_of_ones_own_are_whole_and_accessible(
    visit: Callable[..., Visitor], installation: Installation, width: int, scheme: str
) -> None:
    visitor = visit(width, scheme)
    table = busy(installation).tables.get(name="orders")
    for query in (
        "?range=30d",
        f"?range=6h&table={table.pk}&open=lag&open=throughput",
        "?from=2026-01-02",
        "?range=1y",
    ):
        go(visitor, installation, query)
        assert (visitor.axe(), visitor.overflow()) == ([], 0), query
    visitor.page.click("#charts-between summary")
    assert (visitor.axe(), visitor.overflow(), visitor.complaints) == ([], 0, [])


def test_arrow_keys_read_every_chart_at_the_same_time_and_the_table_says_the_same(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    visitor = visit()
    go(visitor, installation)
    page = visitor.page
    latest = said(visitor, "throughput")
    page.locator("#charts-pause").focus()
    page.locator("#plot-throughput").focus()
    for _ in range(KEYS):
        page.keyboard.press("ArrowLeft")
    read = said(visitor, "throughput")
    assert read[0] != latest[0]
    assert said(visitor, "lag")[0] == said(visitor, "merge-time")[0] == read[0]
    assert page.locator("#plot-throughput").get_attribute("aria-valuetext") == (
        f"{read[0]}: inserts {read[1]}, updates {read[2]}, deletes {read[3]}, snapshot rows {read[4]}"
    )
    for key in ("lag", "throughput"):
        page.click(f"#twin-{key} summary")
        row = page.locator(f"#twin-{key} tbody tr", has=page.get_by_role("cell", name=read[0], exact=True))
        row.first.wait_for()
        page.locator(f"#plot-{key}").focus()
        for end in ("Home", "End"):
            page.keyboard.press(end)
            told = said(visitor, key)
            if told[1] != "–":  # a time without a value has no line, such as a minute that just began
                line = page.locator(f"#twin-{key} tbody tr", has=page.get_by_role("cell", name=told[0], exact=True))
                assert line.first.locator("td").all_inner_texts() == told
    assert visitor.complaints == []


def test_the_pointer_reads_too_and_leaves_no_trace(visit: Callable[..., Visitor], installation: Installation) -> None:
    visitor = visit()
    go(visitor, installation)
    latest = said(visitor, "backlog-rows")
    box = visitor.page.locator("#plot-backlog-rows")
    box.scroll_into_view_if_needed()
    place = box.bounding_box()
    assert place is not None
    visitor.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + 20)
    assert said(visitor, "backlog-rows")[0] != latest[0]
    expect(visitor.page.locator("[data-reading]")).to_have_count(1)
    visitor.page.mouse.move(5, 5)
    expect(visitor.page.locator("[data-reading]")).to_have_count(0)
    assert said(visitor, "backlog-rows")[0] == said(visitor, "lag")[0]


def test_live_figures_come_without_moving_what_is_read_and_pause_stops_them(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    visitor = visit()
    go(visitor, installation)
    page = visitor.page
    page.click("#twin-throughput summary")
    page.locator("#twin-throughput tbody tr").first.wait_for()
    page.locator("#plot-throughput").focus()
    for _ in range(KEYS):
        page.keyboard.press("ArrowLeft")
    time = said(visitor, "throughput")[0]
    line = page.locator("#plot-throughput .series-1").first
    drawn = line.get_attribute("points")
    MetricRow.objects.filter(replicator=busy(installation)).update(inserts=60 * 777)
    page.locator("#twin-throughput", has_text="777").wait_for(timeout=15_000)
    page.locator("#chart-throughput [data-texts]", has_text="777").wait_for()  # a moment later
    assert said(visitor, "throughput")[:2] == [time, "777"]
    assert line.get_attribute("points") != drawn  # although it has the focus
    assert page.evaluate("document.activeElement.id") == "plot-throughput"
    expect(page.locator("[data-reading]")).to_have_count(1)

    page.locator("#charts-pause").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Resume").wait_for()
    assert "at=" in page.url
    expect(page.locator("#charts-live[data-live]")).to_have_count(0)
    MetricRow.objects.filter(replicator=busy(installation)).update(inserts=60 * 555)
    page.wait_for_timeout(6500)  # longer than a live look
    expect(page.locator("#twin-throughput", has_text="777")).to_have_count(1)
    page.keyboard.press("Enter")
    page.locator("#charts-pause", has_text="Pause").wait_for()
    page.locator("#twin-throughput", has_text="555").wait_for()
    expect(page.locator("#charts-live[data-live]")).to_have_count(1)
    assert "at=" not in page.url
    assert visitor.complaints == []


def test_range_and_table_stand_in_the_address(visit: Callable[..., Visitor], installation: Installation) -> None:
    visitor = visit(390)
    page = visitor.page
    table = busy(installation).tables.get(name="orders")
    go(visitor, installation)
    page.click("#range-7d")
    page.locator("#range-7d[aria-current]").wait_for()
    page.select_option("#charts-table", str(table.pk))
    page.locator("#chart-log-kept").wait_for(state="detached")
    assert f"table={table.pk}" in page.url
    assert "range=7d" in page.url
    page.reload()
    expect(page.locator("#range-7d[aria-current]")).to_have_count(1)
    assert page.input_value("#charts-table") == str(table.pk)
    page.click("#charts-between summary")
    page.fill("#charts-from", "2026-01-02T03:00")
    page.fill("#charts-to", "2026-01-02T09:00")
    page.click("#charts-between button")
    page.wait_for_url("**from=2026-01-02T03%3A00**")
    expect(page.get_by_text("No changes became queryable in this period.")).to_be_visible()
    assert visitor.overflow() == 0
