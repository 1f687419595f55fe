"""The whole way in the browser: a live MariaDB, real Celery workers, Iceberg; made, watched, paused, resumed,
deleted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import connection as metadata
from playwright.sync_api import Locator, Page, expect
from pyiceberg.catalog.sql import SqlCatalog

from replicator.verification.target import open_catalog
from tests.browser.conftest import Visitor, Windows
from tests.browser.factories import make_user
from tests.environment import HOME
from tests.integration.pipeline.lab import Lab, insert
from webapp.destinations.lakes import catalog_config
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.processes import ProcessGroup
from webapp.installation.local import WORKERS, LocalMachine

pytestmark = [pytest.mark.browser, pytest.mark.integration, pytest.mark.spark]
NAME = "end to end"
TABLES = {"customers": 400, "orders": 1500, "clicks": 250}  # clicks has no key
FIRST_COPY_MS = 180_000
ARRIVAL_SECONDS = 90.0
PAUSE_MS = 12_000
MEASURED_MS = 60_000  # objectives are looked at every half minute


@pytest.fixture
def shop(mariadb: EmbeddedMariaDB, transactional_db: None) -> Iterator[Lab]:
    """Three tables; the lab's own database is dropped afterwards."""
    lab = Lab(mariadb.address, "browser_shop")
    lab.name = NAME
    lab.execute(
        "CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(60) NOT NULL)",
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT NOT NULL, total DECIMAL(12,2), placed DATETIME(6))",
        "CREATE TABLE clicks (page VARCHAR(40), at DATETIME)",
    )
    with lab.transaction() as cursor:
        insert(cursor, "customers", [(n, f"customer {n}") for n in range(TABLES["customers"])])
        insert(cursor, "orders", [(n, n % 400, n / 4, "2026-02-03 04:05:06.789") for n in range(TABLES["orders"])])
        insert(cursor, "clicks", [(f"/page/{n % 9}", "2026-02-03 04:05:06") for n in range(TABLES["clicks"])])
    yield lab
    lab.close()


@pytest.fixture
def database_url(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the tests' database, where the workers' catalog is too."""
    server, _, _ = settings.DATABASE_URL.rpartition("/")
    url = f"{server}/{metadata.settings_dict['NAME']}"
    monkeypatch.setattr(settings, "DATABASE_URL", url)
    return url


@pytest.fixture
def workers(database_url: str, redis_url: str) -> Iterator[ProcessGroup]:
    """The processes of `manage.py up`, without the pages."""
    machine = LocalMachine(port=0)
    group = ProcessGroup(HOME / "browser-log")
    environment = {
        **os.environ,
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(settings.BASE_DIR),
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
    }
    for name in (*(queue for queue, _, _ in WORKERS), "beat"):
        group.start(name, machine.command(name), environment)
    yield group
    died = [f"{child.name}:\n{child.tail()}" for child in group.dead()]
    group.stop()
    assert not died, "\n".join(died)


@pytest.fixture
def visitor(windows: Windows, transactional_db: None) -> Iterator[Visitor]:
    """Signed in."""
    page = windows.take(1440, 900, "light")
    one = Visitor(page.context, page, windows.base)
    one.sign_in_by_form(make_user())
    yield one
    one.leave()
    windows.give_back(page)


@contextmanager
def catalog() -> Iterator[SqlCatalog]:
    """By pyiceberg, which shares nothing with the workers."""
    one = open_catalog(catalog_config())
    try:
        yield one
    finally:
        one.close()  # an open connection would keep the tests' database from being dropped


def target_rows(table: str) -> int:
    with catalog() as lake:
        return int(lake.load_table(("browser_shop", table)).scan().to_arrow().num_rows)


def until(what: Callable[[], bool], message: Callable[[], object], seconds: float = ARRIVAL_SECONDS) -> float:
    """Seconds it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < seconds, message()
        time.sleep(0.3)
    return time.monotonic() - began


def through_the_wizard(visitor: Visitor, address: Mapping[str, Any]) -> None:
    page = visitor.page
    visitor.go("/replicators/new/")
    page.fill("#id_name", "the shop's server")
    for name in ("host", "port", "user", "password"):
        page.fill(f"#id_setting-{name}", str(address[name]))
    page.get_by_role("button", name="Next: test").click()
    page.locator(".checks li").first.wait_for()
    assert page.locator(".checks .tag-bad").count() == 0, page.locator(".checks").inner_text()
    page.get_by_role("button", name="Next: tables").click()
    page.get_by_label("All tables of browser_shop, also future ones").check()
    page.locator(".wizard-foot", has_text="3 tables selected").wait_for()
    page.get_by_role("button", name="Next: target").click()
    page.get_by_role("button", name="Next: options").click()
    page.fill("#id_name", NAME)
    page.fill("#id_slo_minutes", "1")
    page.get_by_role("button", name="Next: assessment").click()
    page.locator(".assess", has_text="clicks").wait_for()
    if page.locator("#accept-all").count():
        page.locator("#accept-all").click()
        page.locator("#accept-all").wait_for(state="detached")
    page.get_by_role("button", name="Next: review").click()
    page.get_by_role("button", name="Create and start").click()
    page.locator(".toast", has_text=f"{NAME} is created and starting").wait_for()


def cell(page: Page, table: str, label: str) -> Locator:
    """A table's figure on the tables page."""
    return page.locator("#tables-live tr", has=page.get_by_text(table, exact=True)).locator(f"td[data-label='{label}']")


def open_tab(page: Page, tab: str) -> None:
    page.locator("nav.tabs").get_by_role("link", name=tab).click()


def test_made_watched_paused_resumed_and_deleted(
    workers: ProcessGroup, shop: Lab, visitor: Visitor, mariadb: EmbeddedMariaDB
) -> None:
    from webapp.replicators.models import Replicator

    page = visitor.page
    through_the_wizard(visitor, mariadb.address)
    state = page.locator("#head .state").first

    # The first copy, as the page shows it without being loaded again.
    open_tab(page, "Tables")
    for table, rows in TABLES.items():
        expect(cell(page, table, "State")).to_contain_text("Streaming", timeout=FIRST_COPY_MS)
        expect(cell(page, table, "Read")).to_have_text(f"{rows:,}", timeout=20_000)
    expect(state).to_contain_text("Running")
    until(lambda: target_rows("clicks") == TABLES["clicks"], lambda: target_rows("clicks"))
    assert shop.assert_equal(3) == sum(TABLES.values())

    # Changes arrive.
    with shop.transaction() as cursor:
        insert(cursor, "orders", [(10_000 + n, 1, 9.5, "2026-05-06 07:08:09.123456") for n in range(20)])
        cursor.execute("UPDATE orders SET total = total + 1 WHERE id < 5")
        cursor.execute("DELETE FROM customers WHERE id >= 390")
        cursor.execute("INSERT INTO clicks VALUES ('/late', NULL), ('/late', NULL)")
    expect(cell(page, "orders", "Inserted")).to_have_text("20", timeout=ARRIVAL_SECONDS * 1000)
    expect(cell(page, "orders", "Updated")).to_have_text("5", timeout=ARRIVAL_SECONDS * 1000)
    expect(cell(page, "customers", "Deleted")).to_have_text("10", timeout=ARRIVAL_SECONDS * 1000)
    expect(cell(page, "clicks", "Inserted")).to_have_text("2", timeout=ARRIVAL_SECONDS * 1000)
    assert shop.assert_equal(3) == sum(TABLES.values()) + 20 - 10 + 2
    for table in TABLES:
        expect(cell(page, table, "In time, 24 h")).to_have_text("100 %", timeout=10_000)
    open_tab(page, "Overview")
    expect(page.locator("#head .tile", has_text="In time, 24 h")).to_contain_text("100 %", timeout=MEASURED_MS)

    # Paused within seconds; nothing arrives.
    page.locator("#head").get_by_role("button", name="Pause").click()
    expect(state).to_contain_text("Paused", timeout=PAUSE_MS)
    shop.execute("INSERT INTO orders VALUES (20000, 1, 1, NULL)", "INSERT INTO clicks VALUES ('/while paused', NULL)")
    page.wait_for_timeout(5000)
    assert target_rows("orders") == 1520
    assert target_rows("clicks") == 252

    # Resumed, they arrive.
    page.locator("#head").get_by_role("button", name="Resume").click()
    expect(state).to_contain_text("Running", timeout=20_000)
    until(lambda: (target_rows("orders"), target_rows("clicks")) == (1521, 253), shop.states)
    shop.assert_equal(3)

    # What it says of itself.
    open_tab(page, "Logs")
    expect(page.locator("#log .log-line").first).to_be_visible()
    assert page.locator("#log .level-error").count() == 0, page.locator("#log").inner_text()
    open_tab(page, "Activity")
    for words in ("Created from the connection", "Pause requested", "Resumed"):
        expect(page.locator("#activity-live")).to_contain_text(words)
    assert visitor.axe() == []

    # Deleted with its tables, by its name.
    page.locator("#delete-button").click()
    dialog = page.locator("#delete-replicator")
    dialog.get_by_label("Delete them too").check()
    button = dialog.get_by_role("button", name="Delete the replicator")
    page.fill("#delete-name", "end to")
    expect(button).to_be_disabled()
    page.fill("#delete-name", NAME)
    button.click()
    page.locator(".toast", has_text="is being deleted with its tables in the target").wait_for()
    until(lambda: not Replicator.objects.filter(name=NAME).exists(), lambda: Replicator.objects.values("status"))
    expect(page.locator("#main")).not_to_contain_text("the shop's server", timeout=10_000)
    with catalog() as lake:
        assert lake.list_tables("browser_shop") == []
    assert visitor.complaints == []
