"""Every page, at both widths and in both colour schemes: nothing cut off, nothing in the console, nothing for axe."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor
from tests.browser.factories import Installation, make_replicator
from webapp.alerts.models import Channel
from webapp.console.views.wizard_draft import STEPS, Wizard
from webapp.destinations.models import Destination
from webapp.destinations.services import built_in
from webapp.replicators.models import Draft, Replicator
from webapp.replicators.options import ReplicatorOptions

pytestmark = [pytest.mark.browser, pytest.mark.integration]
KEYS = 10  # pressed before the page is asked what they did
TABS = (
    "",
    "tables/",
    "charts/",
    "activity/",
    "failures/",
    "dead-letters/",
    "logs/",
    "schema/",
    "lineage/",
    "settings/",
)


def pages(made: Installation) -> list[str]:
    busy, new = made.replicators["shop to lakehouse"].pk, made.replicators["new one"].pk
    failed, retrying = made.replicators["billing"].pk, made.replicators["erp"].pk
    connection, draft = made.connection.pk, made.draft.pk
    return [
        "/",
        "/?q=nothing",
        "/connections/",
        "/connections/new/",
        f"/connections/{connection}/",
        "/connections/guide/mysql/",
        "/destinations/",
        "/destinations/new/?kind=kafka",
        "/destinations/new/?kind=iceberg",
        "/destinations/new/?kind=postgres",
        "/destinations/new/?kind=redshift",
        "/destinations/new/?kind=snowflake",
        "/destinations/new/?kind=bigquery",
        "/destinations/new/?kind=spanner",
        "/destinations/guide/spanner/",
        "/destinations/guide/bigquery/",
        "/destinations/guide/kafka/",
        "/account/tokens/",
        "/users/",
        "/audit/",
        "/audit/?kind=nothing",
        "/alerts/",
        "/streams/",
        "/failures/",
        "/failures/?state=open&code=nothing",
        f"/replicators/{busy}/dead-letters/?state=over",
        f"/alerts/?show=firing&replicator={new}",
        "/alerts/channels/",
        f"/alerts/channels/{Channel.objects.get(kind='slack').pk}/",
        *(f"/replicators/{busy}/{tab}" for tab in TABS),
        f"/replicators/{busy}/lineage/{made.replicators['shop to lakehouse'].tables.get(name='orders').pk}/",
        f"/replicators/{busy}/tables/{made.replicators['shop to lakehouse'].tables.get(name='orders').pk}/columns/",
        f"/replicators/{busy}/tables/{made.replicators['shop to lakehouse'].tables.get(name='orders').pk}/snapshots/",
        f"/replicators/{busy}/tables/{made.replicators['shop to lakehouse'].tables.get(name='orders').pk}/target/",
        *(f"/replicators/{new}/{tab}" for tab in TABS[:-1]),
        f"/replicators/{failed}/",
        f"/replicators/{retrying}/",
        "/replicators/new/",
        "/?show=person",
        *(f"/replicators/new/{draft}/{step}/" for step in ("source", "test", "tables")),
        *(f"/replicators/new/{answered_draft(made).pk}/{step}/" for step in STEPS[3:]),
        f"/replicators/new/{answered_draft(made).pk}/target/?destination=new&kind=kafka",
        f"/replicators/{of_kafka(made).pk}/settings/",
        f"/destinations/{of_kafka(made).destination_id}/",
    ]


def of_kafka(made: Installation) -> Replicator:
    """With settings of its target that can be changed."""
    config = {
        "bootstrap_servers": "kafka1.internal:9093,kafka2.internal:9093,kafka3.internal:9093",
        "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "username": "tidemark", "ca": "",
    }  # fmt: skip
    place, _ = Destination.objects.get_or_create(name="events", defaults={"kind": "kafka", "config": config})
    target = {
        "topic_prefix": "prod", "format": "json", "envelope": "debezium", "partitions": 3, "replication_factor": "",
        "tombstones": "yes",
    }  # fmt: skip
    found = Replicator.objects.filter(name="orders to kafka").first()
    return found or make_replicator(made.connection, "orders to kafka", destination=place, target=target)


def answered_draft(made: Installation) -> Draft:
    """With every question of the wizard answered, so that each of its steps can be seen."""
    data = {
        "connection": made.connection.pk,
        "selection": {"databases": ["crm"], "tables": [["shop", "orders"]]},
        "destination": built_in().pk,
        "target": {"namespace_prefix": "lake_"},
        "options": ReplicatorOptions().to_dict(),
    }
    draft = Draft.objects.create(user=made.user, name="crm, answered", step="review", data=data)
    draft.data["assessed"] = Wizard(made.user, draft).fingerprint
    draft.save()
    return draft


@pytest.mark.long  # the test below has the two other ways of them
@pytest.mark.parametrize(("scheme", "width"), [("dark", 1440), ("light", 390)])
def test_every_page_is_whole_quiet_and_accessible(
    visit: Callable[..., Visitor], installation: Installation, scheme: str, width: int
) -> None:
    visitor = visit(width, scheme, by_form=True)
    wrong: dict[str, Any] = {}
    for path in pages(installation):
        opened(visitor, path)
        if any(found := seen(visitor)):
            wrong[path] = found
    assert not wrong, json.dumps(wrong, indent=1)


def opened(visitor: Visitor, path: str) -> None:
    visitor.complaints.clear()
    visitor.go(path)
    visitor.page.locator(".htmx-request").first.wait_for(state="detached")


def seen(visitor: Visitor) -> list[Any]:
    """What is wrong with the page: for axe, in pixels, in the console."""
    return [visitor.axe(), visitor.overflow(), list(visitor.complaints)]


# What Tab should reach; of radios in a group one, of a closed menu its summary.
MARK_TABBABLE = """() => {
  const groups = new Set();
  const all = document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]");
  window.wanted = [...all].filter(one => {
    if (one.disabled || one.tabIndex < 0 || !one.checkVisibility({visibilityProperty: true})) return false;
    if (one.type === "hidden" || one.closest("#toasts")) return false;
    if (one.type === "radio") {
      const group = [...document.querySelectorAll(`input[type=radio][name="${one.name}"]`)];
      const chosen = group.find(other => other.checked);
      if (groups.has(one.name) || (chosen && chosen !== one)) return false;
      groups.add(one.name);
    }
    return true;
  });
  window.reached = new Set();
  window.unseen = new Set();
  window.around = false;
  addEventListener("keyup", step);
  return window.wanted.length;

  function step() {
    const one = document.activeElement;
    if (one === document.body || window.reached.has(one)) window.around = true;
    if (window.around) return;
    window.reached.add(one);
    const shown = [one, one.closest("label")].filter(Boolean).some(node => {
      const style = getComputedStyle(node);
      return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
    });
    if (!shown) window.unseen.add(one);
  }
}"""
LEFT = """() => {
  const name = one => one.outerHTML.slice(0, 120);
  const missed = window.wanted.filter(one => one.isConnected && !window.reached.has(one) && one.checkVisibility());
  return [missed.map(name), [...window.unseen].map(name)];
}"""


@pytest.mark.parametrize("half", [0, 1])
def test_every_page_is_whole_and_all_of_it_is_reached_by_tab_and_shows_where_the_focus_is(
    visit: Callable[..., Visitor], installation: Installation, half: int
) -> None:
    """Opened in the dark at 390 pixels, then looked at in the light at 1440; in two halves, so that each is well within
    the time of one test.
    """
    visitor = visit(390, "dark", by_form=True)
    wrong: dict[str, Any] = {}
    for path in pages(installation)[half::2]:
        visitor.look(390, "dark")
        opened(visitor, path)
        small = seen(visitor)
        visitor.look(1440, "light")
        found = [*small, *seen(visitor)]
        number = visitor.page.evaluate(MARK_TABBABLE)
        for _ in range(0, number + 20, KEYS):
            for _ in range(KEYS):
                visitor.page.keyboard.press("Tab")
            if visitor.page.evaluate("window.around"):
                break
        missed, unseen = visitor.page.evaluate(LEFT)
        if any(found) or missed or unseen or number == 0:
            wrong[path] = (found, number, missed, unseen)
    assert not wrong, json.dumps(wrong, indent=1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sign_in_and_the_error_page_are_accessible(visit: Callable[..., Visitor], scheme: str) -> None:
    visitor = visit(390, scheme)
    visitor.go("/nothing/here/")
    expect(visitor.page.get_by_role("heading", name="Page not found")).to_be_visible()
    assert (visitor.axe(), visitor.overflow()) == ([], 0)
    visitor.context.clear_cookies()
    visitor.go("/login/")
    visitor.page.fill("#id_username", "nobody")
    visitor.page.fill("#id_password", "nothing")
    visitor.page.click("button:has-text('Sign in')")
    expect(visitor.page.get_by_role("alert")).to_be_visible()
    assert (visitor.axe(), visitor.overflow()) == ([], 0)


def test_an_empty_installation_says_what_to_do_next(visit: Callable[..., Visitor], installation: Installation) -> None:
    for replicator in installation.replicators.values():
        replicator.delete()
    installation.draft.delete()
    visitor = visit()
    visitor.go("/")
    expect(visitor.page.get_by_role("heading", name="No replicator yet")).to_be_visible()
    expect(visitor.page.locator(".empty").get_by_role("link", name="New replicator")).to_be_visible()
    assert visitor.axe() == []


def test_live_rows_change_without_losing_focus_or_an_open_menu(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    busy = installation.replicators["shop to lakehouse"]
    visitor = visit()
    visitor.go(f"/replicators/{busy.pk}/tables/")
    table = busy.tables.get(name="orders")
    menu = visitor.page.locator(f"#menu-{table.pk} > summary")
    menu.focus()
    visitor.page.keyboard.press("Enter")
    table.rows_updated = 424_242
    table.save()
    visitor.page.locator(f"#table-{table.pk}", has_text="424,242").wait_for(timeout=10_000)
    expect(visitor.page.locator(f"#menu-{table.pk}[open]")).to_have_count(1)
    assert visitor.page.evaluate("document.activeElement.closest('details').id") == f"menu-{table.pk}"
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.locator(f"#menu-{table.pk}[open]")).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 390])
def test_the_menu_of_the_last_table_is_seen_whole(
    visit: Callable[..., Visitor], installation: Installation, width: int
) -> None:
    """The table, which scrolls sideways, cut it off; it is the only way to resnapshot, skip, mask and remove."""
    busy = installation.replicators["shop to lakehouse"]
    visitor = visit(width)
    visitor.go(f"/replicators/{busy.pk}/tables/")
    visitor.page.locator("details.menu[id^=menu-] > summary").last.click()
    table = busy.tables.get(name="shipments")
    table.rows_updated = 424_242
    table.save()
    visitor.page.locator(f"#table-{table.pk}", has_text="424,242").wait_for(timeout=20_000)
    seen = """() => [...document.querySelectorAll("details.menu[open] .menu-panel > *")].map(one => {
        const box = one.getBoundingClientRect();
        const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return one.contains(top) || one.textContent.trim();
    })"""
    items = visitor.page.evaluate(seen)
    assert len(items) > 10
    assert set(items) == {True}, items


def test_typing_in_the_search_survives_the_live_update(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.go("/")
    visitor.page.keyboard.press("/")
    visitor.page.keyboard.type("erp", delay=30)
    visitor.page.locator("#fleet tr", has_text="shop to lakehouse").wait_for(state="detached")
    with visitor.page.expect_response(lambda answer: "/fleet/rows/" in answer.url, timeout=8000):
        pass
    assert visitor.page.evaluate("document.activeElement.id") == "fleet-search"
    assert visitor.page.input_value("#fleet-search") == "erp"
    expect(visitor.page.locator("#fleet tbody tr")).to_have_count(2)


def test_only_those_that_need_somebody_are_shown_also_while_searching(visit: Callable[..., Visitor]) -> None:
    visitor = visit(390, "dark")
    visitor.go("/")
    page = visitor.page
    page.locator("#show-person").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**show=person**")
    rows = page.locator("#fleet tbody tr")
    assert sorted(page.locator(".fleet-name").all_inner_texts()) == ["billing", "erp", "shop to lakehouse"]
    page.fill("#fleet-search", "bill")
    page.locator("#fleet tr", has_text="shop to lakehouse").wait_for(state="detached")
    with page.expect_response(
        lambda answer: "/fleet/rows/" in answer.url and "show=person" in answer.url, timeout=8000
    ):
        pass
    expect(rows).to_have_count(1)
    page.locator("#show-fine").click()  # what was typed goes with it
    page.wait_for_url("**show=fine**")
    assert page.input_value("#fleet-search") == "bill"
    expect(page.locator("#fleet").get_by_text("No replicator matches")).to_be_visible()
    assert (visitor.axe(), visitor.overflow(), visitor.complaints) == ([], 0, [])


def test_pause_from_the_fleet_answers_at_once_and_shows(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    busy = installation.replicators["shop to lakehouse"]
    visitor = visit()
    visitor.go("/")
    visitor.page.click(f"#pause-{busy.pk}")
    visitor.page.locator(f"#replicator-{busy.pk}", has_text="Pausing").wait_for()
    assert "is pausing" in visitor.page.locator(".toast").inner_text()
    busy.refresh_from_db()
    assert busy.desired == "paused"


def test_deleting_needs_the_name_typed(visit: Callable[..., Visitor], installation: Installation) -> None:
    new = installation.replicators["new one"]
    visitor = visit()
    visitor.go(f"/replicators/{new.pk}/")
    visitor.page.click("#delete-button")
    button = visitor.page.locator("[data-confirm-button]")
    assert button.is_disabled()
    visitor.page.fill("#delete-name", "new on")
    assert button.is_disabled()
    visitor.page.fill("#delete-name", "new one")
    assert visitor.axe() == []
    button.click()
    visitor.page.wait_for_url(f"{visitor.base}/")
    new.refresh_from_db()
    assert (new.desired, new.drop_target_on_delete) == ("deleted", False)


def test_the_dialog_of_the_fleet_is_filled_for_its_row(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    billing = installation.replicators["billing"]
    visitor = visit()
    visitor.go("/")
    visitor.page.get_by_role("button", name="Delete billing").click()
    assert "billing" in visitor.page.locator("#delete-replicator-title").inner_text()
    visitor.page.fill("#delete-name", "billing")
    visitor.page.get_by_label("Delete them too").check()
    visitor.page.locator("[data-confirm-button]").click()
    visitor.page.locator(".toast", has_text="with its tables").wait_for()
    billing.refresh_from_db()
    assert (billing.desired, billing.drop_target_on_delete) == ("deleted", True)


def test_the_colours_can_be_chosen_and_stay(visit: Callable[..., Visitor]) -> None:
    visitor = visit(scheme="light")
    visitor.go("/")
    visitor.page.get_by_label("Colours").click()
    visitor.page.get_by_role("button", name="Dark").click()
    visitor.go("/connections/")
    assert visitor.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert visitor.page.evaluate("getComputedStyle(document.body).color") == "rgb(228, 238, 240)"


def test_the_log_is_filtered_and_followed(visit: Callable[..., Visitor], installation: Installation) -> None:
    from webapp.monitoring.models import LogLine

    busy = installation.replicators["shop to lakehouse"]
    visitor = visit()
    visitor.go(f"/replicators/{busy.pk}/logs/")
    visitor.page.select_option("select[name=level]", "error")
    visitor.page.locator(".level-info").first.wait_for(state="detached")
    LogLine.objects.create(replicator=busy, level="error", stage="capture", message="A new error arrives")
    line = visitor.page.locator(".log-line", has_text="A new error arrives")
    line.wait_for(timeout=8000)
    within = "line => line.getBoundingClientRect().bottom <= line.closest('#log').getBoundingClientRect().bottom + 1"
    assert line.evaluate(within)
    assert visitor.axe() == []


def test_a_server_that_is_gone_is_said(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.go("/")
    visitor.context.set_offline(True)
    visitor.page.locator("body[data-offline]").wait_for(state="attached", timeout=8000)
    visitor.context.set_offline(False)
    visitor.page.locator("body:not([data-offline])").wait_for(state="attached", timeout=8000)


def test_colours_change_at_once_where_motion_is_reduced(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    """A transition of no length takes a frame at each level of a page, as each inherits from one that has changed."""
    visitor = visit(1440, "light")
    visitor.go(f"/replicators/{installation.replicators['shop to lakehouse'].pk}/settings/")
    colours = "() => [...document.querySelectorAll('.option legend')].map(one => getComputedStyle(one).color)"
    light = visitor.page.evaluate(colours)
    visitor.page.emulate_media(color_scheme="dark")
    changed = f"() => [({colours})(), document.getAnimations().length]"
    dark = visitor.page.evaluate(changed)
    visitor.look(1440, "dark")
    assert dark == visitor.page.evaluate(changed) == [dark[0], 0]
    assert light
    assert not set(light) & set(dark[0])
