"""Embedded Trino: the core server with the Iceberg connector, for tests.

Both come from Maven; they need a newer Java than the product: that of TRINO_JAVA_HOME, or one below /usr/lib/jvm.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from webapp.embedded.java_artifacts import Artifact, cache_folder, fetched
from webapp.embedded.ports import LOOPBACK, free_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

VERSION = "476"
JAVA = 24  # at least
SERVER = Artifact(
    "io.trino",
    "trino-server-core",
    VERSION,
    "0f388f9967c177ae70a47c099082fc95387f0c3cb96d8000d1d41fc3a5223158",
    packaging="tar.gz",
)
ICEBERG = Artifact(
    "io.trino",
    "trino-iceberg",
    VERSION,
    "99edba5b491ed94d599aeb61e0794272d3569d8b563f3bb8569e8a49daa87b6c",
    packaging="zip",
)
START_SECONDS = 180.0
OPTIONS = (
    "-Xmx1500m", "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", "-Djdk.attach.allowAttachSelf=true",
    "--add-modules=jdk.incubator.vector",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """Of a query: columns by name and Trino's type, and rows as JSON has their values."""

    columns: list[tuple[str, str]]
    rows: list[list[Any]]


class EmbeddedTrino:
    """One server on loopback, with one catalog."""

    def __init__(self, folder: Path, catalog: Mapping[str, str], port: int | None = None) -> None:
        """`folder` holds settings, data and log; `catalog`: properties of the Iceberg connector for `lake`."""
        self.folder = folder.resolve()
        self.port = port or free_port()
        self._catalog = dict(catalog)
        self._child: Child | None = None

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up, or with what is to be installed."""
        program, java = _unpacked(), newer_java()
        if java is None:
            message = f"Trino {VERSION} requires Java {JAVA} or later: set TRINO_JAVA_HOME."
            raise ServerFailed(message)
        settings = self.folder / "catalog" / "lake.properties"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.touch(mode=0o600)
        settings.write_text(_lines({"connector.name": "iceberg", **self._catalog}))
        config = self.folder / "config.properties"
        config.write_text(
            _lines(
                {
                    "coordinator": "true", "node-scheduler.include-coordinator": "true",
                    "http-server.http.port": str(self.port), "discovery.uri": f"http://{LOOPBACK}:{self.port}",
                    "query.max-memory": "512MB", "query.max-memory-per-node": "512MB",
                    "memory.heap-headroom-per-node": "256MB", "catalog.config-dir": str(settings.parent),
                    "plugin.dir": str(program / "plugin"),
                }
            )
        )  # fmt: skip
        node = {"node.environment": "test", "node.data-dir": str(self.folder / "data"), "config": str(config)}
        node |= {"node.bind-ip": LOOPBACK, "node.internal-address": LOOPBACK}
        own = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}  # of another Java
        claim(self.port)
        self._child = start(
            "trino",
            [str(java), *OPTIONS, *(f"-D{name}={value}" for name, value in node.items()), "-cp",
                f"{program}/lib/*", "io.trino.server.TrinoServer"],
            self.folder / "trino.log",
            environment=own,
            cwd=self.folder,
        )  # fmt: skip
        if not self._started(self._child):
            message = f"Embedded Trino did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None

    def query(self, statement: str) -> Answer:
        """All rows; RuntimeError with Trino's words."""
        told = self._asked(f"http://{LOOPBACK}:{self.port}/v1/statement", statement)
        columns: list[tuple[str, str]] = []
        rows: list[list[Any]] = []
        while True:
            if "error" in told:
                message = f"{statement}: {told['error']['message']}"
                raise RuntimeError(message)
            columns = [(one["name"], one["type"]) for one in told.get("columns", ())] or columns
            rows += told.get("data", ())
            if "nextUri" not in told:
                return Answer(columns, rows)
            told = self._asked(told["nextUri"])

    def _asked(self, url: str, body: str = "") -> dict[str, Any]:
        headers = {"X-Trino-User": "tests", "X-Trino-Time-Zone": "UTC"}
        headers["X-Trino-Client-Capabilities"] = "PARAMETRIC_DATETIME"  # without it, times are rounded to milliseconds
        request = Request(url, body.encode() or None, headers)  # noqa: S310 - loopback
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def _started(self, child: Child) -> bool:
        """It answers before it is ready."""
        until = time.monotonic() + START_SECONDS
        while child.alive and time.monotonic() < until:
            with contextlib.suppress(OSError):
                if not self._asked(f"http://{LOOPBACK}:{self.port}/v1/info")["starting"]:
                    return True
            time.sleep(0.1)
        return False


def newer_java() -> Path | None:
    """The java command of a Java that Trino runs on."""
    homes = [Path(home) for home in (os.environ.get("TRINO_JAVA_HOME"),) if home]
    for home in (*homes, *sorted(Path("/usr/lib/jvm").glob("*"))):
        told = home / "release"
        version = re.search(r'JAVA_VERSION="(\d+)', told.read_text()) if told.exists() else None
        if version and int(version[1]) >= JAVA and (home / "bin" / "java").exists():
            return home / "bin" / "java"
    return None


def _unpacked() -> Path:
    """The server's folder in the cache, with the connector as its only plugin."""
    folder = cache_folder() / f"trino-{VERSION}"
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory(dir=cache_folder()) as place:
        with tarfile.open(fetched(SERVER)) as archive:
            archive.extractall(place, filter="data")
        made = Path(place, f"trino-server-core-{VERSION}")
        (made / "plugin").rename(made / "others")
        with zipfile.ZipFile(fetched(ICEBERG)) as plugin:
            plugin.extractall(made / "plugin")  # noqa: S202 - the file is pinned
        with contextlib.suppress(OSError):  # another process was faster
            made.rename(folder)
    return folder


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())
