"""Every page, at both widths and in both colour schemes: nothing cut off, nothing in the console, nothing for axe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Visitor
from tests.browser.factories import Installation

pytestmark = [pytest.mark.browser, pytest.mark.integration]
TABS = ("", "tables/", "activity/", "logs/", "schema/", "settings/")


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
        "/account/tokens/",
        *(f"/replicators/{busy}/{tab}" for tab in TABS),
        *(f"/replicators/{new}/{tab}" for tab in TABS[:-1]),
        f"/replicators/{failed}/",
        f"/replicators/{retrying}/",
        "/replicators/new/",
        *(f"/replicators/new/{draft}/{step}/" for step in ("source", "test", "tables")),
    ]


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_whole_quiet_and_accessible(
    visit: Callable[..., Visitor], installation: Installation, width: int, scheme: str
) -> None:
    visitor = visit(width, scheme)
    wrong: dict[str, Any] = {}
    for path in pages(installation):
        visitor.complaints.clear()
        visitor.go(path)
        visitor.page.locator(".htmx-request").first.wait_for(state="detached")
        found = [visitor.axe(), visitor.overflow(), list(visitor.complaints)]
        if any(found):
            wrong[path] = found
    assert wrong == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sign_in_and_the_error_page_are_accessible(visit: Callable[..., Visitor], scheme: str) -> None:
    visitor = visit(390, scheme)
    visitor.go("/nothing/here/")
    assert visitor.page.get_by_role("heading", name="There is nothing at this address").is_visible()
    assert (visitor.axe(), visitor.overflow()) == ([], 0)
    visitor.context.clear_cookies()
    visitor.go("/login/")
    visitor.page.fill("#id_username", "nobody")
    visitor.page.fill("#id_password", "nothing")
    visitor.page.click("button:has-text('Sign in')")
    assert visitor.page.get_by_role("alert").is_visible()
    assert (visitor.axe(), visitor.overflow()) == ([], 0)


def test_an_empty_installation_says_what_to_do_next(visit: Callable[..., Visitor], installation: Installation) -> None:
    for replicator in installation.replicators.values():
        replicator.delete()
    installation.draft.delete()
    visitor = visit()
    assert visitor.page.get_by_role("heading", name="No replicator yet").is_visible()
    assert visitor.page.locator(".empty").get_by_role("link", name="New replicator").is_visible()
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
    assert visitor.page.locator(f"#menu-{table.pk}[open]").count() == 1
    assert visitor.page.evaluate("document.activeElement.closest('details').id") == f"menu-{table.pk}"
    visitor.page.keyboard.press("Escape")
    assert visitor.page.locator(f"#menu-{table.pk}[open]").count() == 0


def test_typing_in_the_search_survives_the_live_update(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.page.keyboard.press("/")
    visitor.page.keyboard.type("erp", delay=30)
    visitor.page.locator("#fleet tr", has_text="shop to lakehouse").wait_for(state="detached")
    with visitor.page.expect_response(lambda answer: "/fleet/rows/" in answer.url, timeout=8000):
        pass
    assert visitor.page.evaluate("document.activeElement.id") == "fleet-search"
    assert visitor.page.input_value("#fleet-search") == "erp"
    assert visitor.page.locator("#fleet tbody tr").count() == 2


def test_pause_from_the_fleet_answers_at_once_and_shows(
    visit: Callable[..., Visitor], installation: Installation
) -> None:
    busy = installation.replicators["shop to lakehouse"]
    visitor = visit()
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
    assert line.bounding_box()["y"] < 1200  # type: ignore[index]
    assert visitor.axe() == []


def test_a_server_that_is_gone_is_said(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.context.set_offline(True)
    visitor.page.locator("body[data-offline]").wait_for(state="attached", timeout=8000)
    visitor.context.set_offline(False)
    visitor.page.locator("body:not([data-offline])").wait_for(state="attached", timeout=8000)
