"""Objectives and alerts in a browser without a mouse: everything is reached by Tab, and the focus is where one left
it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import LOOKS, Visitor
from tests.browser.factories import Installation
from webapp.alerts.models import Alert, Channel, Rule, RuleKind
from webapp.monitoring.models import TableObjective

pytestmark = [pytest.mark.browser, pytest.mark.integration]
MOST_STOPS = 150
KEYS = 5


# From its first press on, Tab does nothing more where it was to lead.
STAY = """selector => {
  const there = () => Boolean(document.activeElement?.matches(selector));
  const stay = event => { if (there()) { event.preventDefault(); event.stopImmediatePropagation(); } };
  window.arrived = () => { if (there()) removeEventListener("keydown", stay, true); return there(); };
  addEventListener("keydown", stay, true);
}"""


def tab_to(page: Page, selector: str) -> None:
    """As a person would: key after key, until it has the focus.

    The page is asked after some keys only; those too many go nowhere.
    """
    page.keyboard.press("Tab")
    page.evaluate(STAY, selector)
    for _ in range(0, MOST_STOPS, KEYS):
        if page.evaluate("window.arrived()"):
            return
        for _ in range(KEYS):
            page.keyboard.press("Tab")
    pytest.fail(f"{selector} is not reached by {MOST_STOPS} tabs")


def seen_well(visitor: Visitor) -> None:
    assert (visitor.axe(), visitor.overflow(), visitor.complaints) == ([], 0, [])


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_channel_is_made_and_chosen_for_a_rule(
    visit: Callable[..., Visitor], installation: Installation, width: int, scheme: str
) -> None:
    busy = installation.replicators["shop to lakehouse"]
    visitor = visit(width, scheme)
    page = visitor.page
    visitor.go("/alerts/channels/")
    tab_to(page, "#id_name")
    page.keyboard.type("the night watch")
    tab_to(page, "#id_kind")
    page.keyboard.type("E-mail")
    tab_to(page, "#id_recipients")
    page.keyboard.type("night@example.com")
    tab_to(page, "button.button-primary")
    page.keyboard.press("Enter")
    page.locator("text=the night watch").first.wait_for()
    seen_well(visitor)
    channel = Channel.objects.get(name="the night watch")
    visitor.go(f"/replicators/{busy.pk}/settings/")
    tab_to(page, f"[name={RuleKind.SLO_BURN}-channels][value='{channel.pk}']")
    page.keyboard.press("Space")
    tab_to(page, "#alerts .card-foot button")
    page.keyboard.press("Enter")
    page.locator(".toast").first.wait_for()
    seen_well(visitor)
    assert channel in Rule.objects.get(replicator=busy, kind=RuleKind.SLO_BURN).channels.all()


def test_a_objective_of_a_table_is_made_and_removed(visit: Callable[..., Visitor], installation: Installation) -> None:
    TableObjective.objects.all().delete()
    busy = installation.replicators["shop to lakehouse"]
    table = busy.tables.get(name="orders")
    visitor = visit()
    page = visitor.page
    visitor.go(f"/replicators/{busy.pk}/settings/")
    tab_to(page, "#id_table")
    page.keyboard.type(str(table))
    tab_to(page, "#id_table_percent")
    page.keyboard.press("Control+a")
    page.keyboard.type("99.9")
    tab_to(page, "#id_table_minutes")
    page.keyboard.press("Control+a")
    page.keyboard.type("0.5")
    page.keyboard.press("Enter")
    page.locator("#objectives td.strong", has_text=str(table)).wait_for()
    seen_well(visitor)
    assert TableObjective.objects.values_list("table", "percent", "seconds").get() == (table.pk, 99.9, 30)
    tab_to(page, "#objectives .button-quiet-danger")
    page.keyboard.press("Enter")
    page.locator("#objectives td.strong", has_text=str(table)).wait_for(state="detached")
    assert TableObjective.objects.get().percent is None


def test_an_alert_is_snoozed_and_the_focus_stays(visit: Callable[..., Visitor], installation: Installation) -> None:
    alert = Alert.objects.filter(cleared_at=None, fired_at__isnull=False).first()
    assert alert is not None
    visitor = visit()
    page = visitor.page
    visitor.go("/alerts/?show=firing")
    summary = f"#snooze-{alert.pk} > summary"
    tab_to(page, summary)
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    seen_well(visitor)
    page.keyboard.press("Enter")
    page.locator(f"#alert-{alert.pk}", has_text="snoozed").wait_for(timeout=10_000)
    alert.rule.refresh_from_db()
    assert alert.rule.snoozed_until is not None
    page.keyboard.press("Escape")
    with page.expect_response(lambda answer: "/alerts/" in answer.url, timeout=10_000):
        pass
    page.locator(".htmx-request").first.wait_for(state="detached")
    assert page.evaluate("selector => Boolean(document.activeElement?.matches(selector))", summary)


def test_a_replicator_is_snoozed_from_its_settings_and_its_snooze_ended(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    busy = installation.replicators["shop to lakehouse"]
    visitor = visit(390, "dark")
    page = visitor.page
    visitor.go(f"/replicators/{busy.pk}/settings/")
    page.fill("#id_lag-minutes", "7")
    tab_to(page, "#snooze-all > summary")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#quiet-lag", has_text="Snoozed").wait_for()
    page.keyboard.press("Escape")
    assert not Rule.objects.filter(replicator=busy, snoozed_until=None).exists()
    seen_well(visitor)
    tab_to(page, "#end-snoozes")
    page.keyboard.press("Enter")
    page.locator("#quiet-lag", has_text="yes").wait_for()
    assert not Rule.objects.filter(replicator=busy).exclude(snoozed_until=None).exists()
    assert page.input_value("#id_lag-minutes") == "7"  # what was typed and not saved is still there
