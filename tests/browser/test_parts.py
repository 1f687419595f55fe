"""Reading rows of a table again, in a browser: by keyboard, refused in a sentence, watched, stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import LOOKS, Visitor
from tests.browser.factories import Installation
from tests.browser.test_alerts import seen_well, tab_to
from webapp.replicators.models import SnapshotRun

pytestmark = [pytest.mark.browser, pytest.mark.integration]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_rows_are_asked_for_by_keyboard_and_stopped(
    visit: Callable[..., Visitor], installation: Installation, width: int, scheme: str
) -> None:
    busy = installation.replicators["shop to lakehouse"]
    table = busy.tables.get(name="orders")
    visitor = visit(width, scheme)
    page = visitor.page
    visitor.go(f"/replicators/{busy.pk}/tables/")
    tab_to(page, f"#menu-{table.pk} > summary")
    page.keyboard.press("Enter")
    page.locator(f"#menu-{table.pk} a", has_text="Snapshots").click()
    tab_to(page, "#id_keys")
    page.keyboard.type("1\nnot a number")
    page.locator("#by-keys button").press("Enter")
    page.locator("#by-keys [role=alert]", has_text="Line 2").wait_for()
    assert page.input_value("#id_keys") == "1\nnot a number"
    seen_well(visitor)
    page.fill("#id_keys", "1\n2\n3")
    page.locator("#by-keys button").press("Enter")
    run = page.locator("#table-snapshots-live tr", has_text="3 keys")
    run.get_by_text("Reading").wait_for()
    seen_well(visitor)
    tab_to(page, "#pause-snapshot")
    page.keyboard.press("Enter")
    run.get_by_text("Paused").wait_for(timeout=10_000)
    page.locator("#stop-snapshot").press("Enter")
    run.get_by_text("Stopped").wait_for(timeout=10_000)
    seen_well(visitor)
    assert SnapshotRun.objects.get(scope="keys").state == "cancelled"


def test_a_condition_is_refused_and_taken(visit: Callable[..., Visitor], installation: Installation) -> None:
    busy = installation.replicators["shop to lakehouse"]
    table = busy.tables.get(name="orders")
    visitor = visit()
    page = visitor.page
    visitor.go(f"/replicators/{busy.pk}/tables/{table.pk}/snapshots/")
    page.fill("#id_where", "nothing = 1")
    page.locator("#by-condition button").click()
    page.locator("#by-condition [role=alert]", has_text="Invalid condition").wait_for()
    assert page.input_value("#id_where") == "nothing = 1"
    page.fill("#id_where", "id < 100")
    page.locator("#by-condition button").click()
    page.locator("#table-snapshots-live tr", has_text="id < 100").wait_for()
    page.locator("#toasts", has_text="are read").wait_for()
    seen_well(visitor)
