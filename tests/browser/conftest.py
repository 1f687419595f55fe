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
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from replicator.sources import registry
from tests.browser.factories import PASSWORD, Installation, make_installation
from tests.browser.fake_source import FORM, FakeSource

MYSQL = registry.KINDS["mysql"]
AXE = (Path(__file__).parent / "vendor" / "axe" / "axe.min.js").read_text()
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


@dataclass
class Visitor:
    """A signed-in person: a context, what the console complained of, and an accessibility check."""

    context: BrowserContext
    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.base + path)

    def listen(self) -> None:
        def heard(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"}:
                self.complaints.append(message.text)

        self.page.on("console", heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def axe(self) -> list[Any]:
        """Violations; through the debugger, since the page's own policy lets no script in.

        At its top: nothing is half below the bar.
        """
        self.page.evaluate("scrollTo(0, 0)")
        session = self.context.new_cdp_session(self.page)
        session.send("Runtime.evaluate", {"expression": AXE})
        run = f"axe.run(document, {{runOnly: {json.dumps(RULES)}}})"
        found = ".then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map(n => n.target.join(' '))])))"
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


@pytest.fixture
def visit(chromium: Browser, live_server: Any, installation: Installation) -> Iterator[Callable[..., Visitor]]:
    """visit(width=1440, scheme="light") -> a signed-in visitor."""
    contexts: list[BrowserContext] = []

    def _visit(width: int = 1440, scheme: Any = "light", height: int = 900) -> Visitor:
        # Without a graphics card each frame of an animation is the processor's.
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(60_000)  # the machine may do much beside
        contexts.append(context)
        visitor = Visitor(context, context.new_page(), live_server.url)
        visitor.listen()
        visitor.go("/login/")
        visitor.page.fill("#id_username", installation.user.get_username())
        visitor.page.fill("#id_password", PASSWORD)
        visitor.page.click("button:has-text('Sign in')")
        visitor.page.wait_for_url(f"{live_server.url}/")
        return visitor

    yield _visit
    for context in contexts:
        context.close()
