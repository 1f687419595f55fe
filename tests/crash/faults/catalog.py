"""Catalogs that have the copies of all histories: REST, behind a front that makes trouble, and AWS Glue."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from replicator.targets.iceberg.destination import NO_LAKE, lake_catalog
from replicator.verification import CatalogConfig
from testing.servers.glue import EmbeddedGlue
from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.rest_front import RestFront
from tests.crash.faults.lake import Lake
from tests.crash.faults.store import S3Store

NAME = "company"
AWAY_SECONDS = (0.2, 3.0)


class RestLake(Lake):
    """Workers come through the front; readers ask the catalog itself."""

    kind = "iceberg"

    def __init__(self, folder: Path, breaking: threading.Lock, store: S3Store | None = None) -> None:
        """See `Lake`; `folder`: the catalog's."""
        super().__init__(breaking, store)
        if store is None:
            self.server = EmbeddedRestCatalog(folder)
            self.folder = Path(self.server.warehouse.removeprefix("file://"))
        else:
            self.server = EmbeddedRestCatalog(folder, warehouse=f"{store.url}/rest", properties=store.properties)
            self.folder = store.folder / "rest"
        self.front = RestFront(self.server.uri)
        self.settings = self._settings(self.front.uri, troubled=True)

    def start(self) -> None:
        super().start()
        self.server.start()
        self.front.start()

    def reader(self) -> CatalogConfig:
        """See `Lake`."""
        return _as_read(self._settings(self.server.uri, troubled=False))

    def _settings(self, uri: str, *, troubled: bool) -> dict[str, str]:
        store = {"store": "file"} if self.store is None else self.store.settings(troubled=troubled)
        return {"catalog": "rest", "uri": uri, "auth": "none", **store}

    def _troubles(self, chance: random.Random) -> dict[str, Callable[[], object]]:
        front = self.front

        def away() -> None:
            with front.refusing():
                self.over.wait(chance.uniform(*AWAY_SECONDS))

        return {
            "catalog: lost answer": lambda: front.lose_answer(method=chance.choice(("POST", "")), path=""),
            "catalog: 504 after the commit": lambda: front.forward_and_answer(504),
            **{
                f"catalog: {status}": lambda status=status: front.answer(status, method="", path="")
                for status in (500, 503, 429)
            },
            "catalog: slow": lambda: front.delay(chance.random(), chance.random(), times=3, method="", path=""),
            "catalog: away": away,
            "catalog: killed": lambda: _kill(self, self.server, chance),
        }

    def _calm(self) -> None:
        self.front.clear()

    def _stop(self) -> None:
        self.front.stop()
        self.server.stop(signal.SIGKILL)


class GlueLake(Lake):
    """AWS Glue simulated by moto, with tables on S3; each process takes the credentials from its environment."""

    kind = "iceberg"

    def __init__(self, folder: Path, breaking: threading.Lock, store: S3Store) -> None:
        """See `RestLake`."""
        super().__init__(breaking, store)
        self._s3, self._server = store, EmbeddedGlue(folder)
        self.folder = store.folder / "glue"
        self.settings = self._settings(troubled=True)

    def start(self) -> None:
        super().start()
        os.environ |= self._s3.credentials
        self._server.start()

    def reader(self) -> CatalogConfig:
        """See `Lake`."""
        return _as_read(self._settings(troubled=False))

    def _settings(self, *, troubled: bool) -> dict[str, str]:
        endpoint = self._s3.settings(troubled=troubled)["store_endpoint"]
        glue = {"catalog": "glue", "glue_endpoint": self._server.endpoint, "region": self._server.region}
        return {**glue, "warehouse": f"{self._s3.url}/glue", "store_endpoint": endpoint}

    def _troubles(self, chance: random.Random) -> dict[str, Callable[[], object]]:
        return {"catalog: killed": lambda: _kill(self, self._server, chance)}

    def _stop(self) -> None:
        self._server.stop(signal.SIGKILL)


def _kill(lake: Lake, server: EmbeddedRestCatalog | EmbeddedGlue, chance: random.Random) -> None:
    server.stop(signal.SIGKILL)
    lake.over.wait(chance.uniform(*AWAY_SECONDS))
    server.start()


def _as_read(settings: dict[str, str]) -> CatalogConfig:
    found = lake_catalog(settings, NO_LAKE)
    return CatalogConfig("lake", found.python.get("uri", ""), found.warehouse, found.python)
