"""`make screenshots`: the pictures of docs/screenshots, of pages that the browser tests' factories fill.

At 1440 pixels in the light colours (NAME-light.png) and at 390 in the dark ones (NAME-dark.png).  A page that does not
exist in this version is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.urls import Resolver404, resolve
from django.utils import timezone

from tests.browser.conftest import Visitor
from tests.browser.factories import Installation, make_history, make_metrics
from webapp.replicators.models import Replicator, ReplicatorTable, Status

pytestmark = [pytest.mark.browser, pytest.mark.integration]
FOLDER = Path(os.environ.get("TIDEMARK_SCREENSHOTS", "docs/screenshots"))
MOST_BYTES = 250_000
SIZES = {"light": (1440, 1150), "dark": (390, 1600)}
SETTLED = 1500  # milliseconds: charts are drawn, live parts were fetched
WHOLE = {"fleet"}  # shown to its end, on a wide screen
SHORT = {"logs", "failures"}  # much text: large files


def pages(busy: Replicator) -> dict[str, str]:
    """What is shown, by name."""
    one = f"/replicators/{busy.pk}/"
    table = busy.tables.get(name="orders").pk
    tabs = {
        name: f"{one}{name}/"
        for name in ("tables", "charts", "failures", "dead-letters", "activity", "logs", "settings")
    }
    more = {name: f"{one}tables/{table}/{name}/" for name in ("columns", "snapshots")}
    about = {"alerts": "/alerts/", "streams": "/streams/", "lineage": f"{one}lineage/{table}/"}
    wanted = {"fleet": "/", "overview": one, **tabs, **more, **about}
    return {name: path for name, path in wanted.items() if _there(path)}


def _there(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True


def enrich(busy: Replicator) -> None:
    """Changes in more than one table, so that charts have something to show."""
    for name, scale in (("customers", 0.3), ("products", 0.1), ("order_items", 1.6)):
        table = busy.tables.get(name=name)
        make_metrics(table, minutes=180, scale=scale)
        make_history(table)


def seen_just_now() -> None:
    """Nothing runs behind the pages: what is made once grows late while the pictures are taken."""
    now = timezone.now() - timedelta(seconds=2)
    Replicator.objects.filter(status=Status.RUNNING).update(source_ts=now, captured_at=now)
    running = ReplicatorTable.objects.filter(replicator__status=Status.RUNNING)
    running.update(applied_commit_ts=now, queryable_at=now, lag_ms=1400)


@pytest.mark.parametrize("scheme", list(SIZES))
def test_pictures_are_taken(visit: Callable[..., Visitor], installation: Installation, scheme: str) -> None:
    busy = installation.replicators["shop to lakehouse"]
    enrich(busy)
    width, height = SIZES[scheme]
    visitor = visit(width, scheme, height)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, path in pages(busy).items():
        seen_just_now()
        visitor.go(path)
        visitor.page.locator(".htmx-request").first.wait_for(state="detached")
        visitor.page.wait_for_timeout(SETTLED)
        file = FOLDER / f"{name}-{scheme}.png"
        visitor.page.set_viewport_size({"width": width, "height": 900 if name in SHORT else height})
        visitor.page.screenshot(path=file, full_page=scheme == "light" and name in WHOLE)
        assert 5_000 < file.stat().st_size < MOST_BYTES, name
    assert visitor.complaints == []
