"""A REST catalog that has the copies of all histories, behind a front that makes trouble."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replicator.verification import CatalogConfig
from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.rest_front import RestFront

NAME = "company"
EVERY_SECONDS = (1.0, 5.0)
AWAY_SECONDS = (0.2, 3.0)


class RestLake:
    """Workers come through the front; readers ask the catalog itself."""

    kind = "iceberg"

    def __init__(self, folder: Path, breaking: threading.Lock) -> None:
        """`breaking`: held while nothing may be broken."""
        self.server = EmbeddedRestCatalog(folder)
        self.front = RestFront(self.server.uri)
        self.settings = {"catalog": "rest", "uri": self.front.uri, "auth": "none", "store": "file"}
        self.made: Counter[str] = Counter()
        self._breaking, self._over = breaking, threading.Event()
        self._quiet = 0

    @property
    def warehouse(self) -> str:
        """The URL below which the tables are."""
        return self.server.warehouse

    def start(self) -> None:
        self.server.start()
        self.front.start()

    def trouble(self) -> None:
        """Until `stop`.  In the thread that has started the server, which ends with it."""
        chance = random.Random()
        while not self._over.wait(chance.uniform(*EVERY_SECONDS)):
            what = chance.choice(("lost answer", "504 after the commit", "500", "503", "429", "slow", "away", "killed"))
            with self._breaking:
                if self._over.is_set():
                    return
                if self._quiet:
                    continue
                self.made[f"catalog: {what}"] += 1
                self._make(what, chance)

    def _make(self, what: str, chance: random.Random) -> None:
        match what:
            case "lost answer":
                self.front.lose_answer(method=chance.choice(("POST", "")), path="")
            case "504 after the commit":
                self.front.forward_and_answer(504)
            case "500" | "503" | "429":
                self.front.answer(int(what), method="", path="")
            case "slow":
                self.front.delay(chance.random(), chance.random(), times=3, method="", path="")
            case "away":
                with self.front.refusing():
                    self._over.wait(chance.uniform(*AWAY_SECONDS))
            case _:
                self.server.stop(signal.SIGKILL)
                self._over.wait(chance.uniform(*AWAY_SECONDS))
                self.server.start()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """No trouble inside the block: a history comes to its end."""
        with self._breaking:
            self._quiet += 1
            self.front.clear()
        try:
            yield
        finally:
            with self._breaking:
                self._quiet -= 1

    def stop(self) -> None:
        self._over.set()
        with self._breaking:
            self.front.stop()
            self.server.stop(signal.SIGKILL)

    def reader(self) -> CatalogConfig:
        """As readers open it."""
        return CatalogConfig("lake", self.server.uri, "", {"type": "rest", "uri": self.server.uri})
