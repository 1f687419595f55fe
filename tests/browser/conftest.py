"""A headless Chromium that is signed in, and a source without a server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, expect, sync_playwright

from replicator.sources import registry
from tests.browser.factories import PASSWORD, Installation, make_installation
from tests.browser.fake_source import FORM, FakeSource

MYSQL = registry.KINDS["mysql"]
AXE = (Path(__file__).parent / "vendor" / "axe" / "axe.min.js").read_text()
# (width, scheme) of a way through a page; every page is looked at in both by test_pages.
LOOKS = [(1440, "light"), pytest.param(390, "dark", marks=pytest.mark.long)]
RESTING = "/resting"  # of the same process as the pages, without a script; the server knows nothing of it
NOTHING = "<!doctype html><link rel=icon href=data:,>"
# Colours change with the next frame that is drawn, which under load is a while after emulate_media() was called.
REPAINTED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  await frame().then(frame);
  await Promise.allSettled(document.getAnimations().map(one => one.finished));
}"""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session", autouse=True)
def static_root() -> None:
    """Whitenoise warns where the folder of collected files is absent; warnings are errors here."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@pytest.fixture
def fake_source(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = replace(registry.KINDS["mysql"], open=FakeSource, form=FORM)
    monkeypatch.setitem(registry.KINDS, "mysql", kind)


@pytest.fixture
def installation(transactional_db: None, fake_source: None) -> Installation:
    return make_installation()


def shape(page: Page, width: int, height: int, scheme: Any) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)


@dataclass
class Windows:
    """Each is taken by one test at a time and given back clean: to open one costs seconds of the processor."""

    browser: Browser
    base: str
    free: list[Page] = field(default_factory=list)

    def take(self, width: int, height: int, scheme: Any) -> Page:
        page = self.free.pop() if self.free else self._open()
        shape(page, width, height, scheme)
        return page

    def _open(self) -> Page:
        # Without a graphics card each frame of an animation is the processor's.
        context = self.browser.new_context(reduced_motion="reduce")
        context.set_default_timeout(60_000)  # the machine may do much beside
        expect.set_options(timeout=60_000)
        page = context.new_page()
        self._rest(page)
        return page

    def _rest(self, page: Page) -> None:
        page.route(self.base + RESTING, lambda route: route.fulfill(body=NOTHING, content_type="text/html"))
        page.goto(self.base + RESTING)
        page.unroute_all()

    def give_back(self, page: Page) -> None:
        """Reset the page and its context; a test removes its own event listeners."""
        context = page.context
        for other in context.pages:
            if other is not page:
                other.close()
        page.unroute_all()
        context.unroute_all()
        context.set_offline(offline=False)
        self._rest(page)
        page.mouse.move(0, 0)
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        context.clear_cookies()
        session = context.new_cdp_session(page)
        session.send("Network.clearBrowserCache")  # a page of another session is not this one's
        session.detach()
        self.free.append(page)


@dataclass
class Visitor:
    """A signed-in person: a context, what the console complained of, and an accessibility check."""

    context: BrowserContext
    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.base + path)

    def look(self, width: int, scheme: Any, height: int = 900) -> None:
        """At the same page, another way, once its colours have changed."""
        shape(self.page, width, height, scheme)
        self.page.evaluate(REPAINTED)

    def __post_init__(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", self._failed)

    def leave(self) -> None:
        self.page.remove_listener("console", self._heard)
        self.page.remove_listener("pageerror", self._failed)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def _failed(self, error: Error) -> None:
        self.complaints.append(str(error))

    def sign_in(self, user: User) -> None:
        """By a session of the user's, and in the browser's own time zone, as after the form."""
        client = Client()
        client.force_login(user)
        zone = self.page.evaluate("encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)")
        cookies = {settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value, "zone": zone}
        self.context.add_cookies([{"name": name, "value": value, "url": self.base} for name, value in cookies.items()])

    def sign_in_by_form(self, user: User) -> None:
        """Then the fleet is shown."""
        self.go("/login/")
        self.page.fill("#id_username", user.get_username())
        self.page.fill("#id_password", PASSWORD)
        self.page.click("button:has-text('Sign in')")
        self.page.wait_for_url(f"{self.base}/")

    def axe(self) -> list[Any]:
        """Violations; through the debugger, since the page's own policy lets no script in.

        At its top: nothing is half below the bar.
        """
        self.page.evaluate("scrollTo(0, 0)")
        session = self.context.new_cdp_session(self.page)
        session.send("Runtime.evaluate", {"expression": AXE})
        run = f"axe.run(document, {json.dumps({'runOnly': RULES, 'resultTypes': ['violations']})})"
        told = "one => `${one.target.join(' ')}: ${one.failureSummary}`"
        found = f".then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map({told})])))"
        answer = session.send(
            "Runtime.evaluate", {"expression": run + found, "awaitPromise": True, "returnByValue": True}
        )
        session.detach()
        violations: list[Any] = json.loads(answer["result"]["value"])
        return violations

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        wider: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return wider


@pytest.fixture(scope="session")
def windows(chromium: Browser, live_server: Any) -> Windows:
    return Windows(chromium, live_server.url)


@pytest.fixture
def visit(windows: Windows, installation: Installation) -> Iterator[Callable[..., Visitor]]:
    """visit(width=1440, scheme="light") -> a signed-in visitor, who has yet to go somewhere."""
    visitors: list[Visitor] = []

    def _visit(width: int = 1440, scheme: Any = "light", height: int = 900, *, by_form: bool = False) -> Visitor:
        page = windows.take(width, height, scheme)
        visitor = Visitor(page.context, page, windows.base)
        visitors.append(visitor)
        if by_form:
            visitor.sign_in_by_form(installation.user)
        else:
            visitor.sign_in(installation.user)
        return visitor

    yield _visit
    for visitor in visitors:
        visitor.leave()
        windows.give_back(visitor.page)
