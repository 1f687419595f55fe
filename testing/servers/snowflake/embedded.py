"""An embedded stand-in for Snowflake: fakesnow (DuckDB behind Snowflake's HTTP protocol), for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from webapp.embedded.java_artifacts import cache_folder
from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

ROOT = Path(__file__).parents[3]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VERSION = "0.12.1"
START_SECONDS = 120.0


class EmbeddedSnowflake:
    """One server on loopback, with an empty database."""

    user = "tidemark"
    password = "snow and ice"  # noqa: S105 - of a server that only tests reach
    database = "COPY"

    def __init__(self, folder: Path, port: int | None = None, idle_seconds: float = 5.0) -> None:
        """`folder` holds the log.  idle_seconds: after which an open transaction is rolled back."""
        self.folder, self.port, self._idle_seconds = folder.resolve(), port or free_port(), idle_seconds
        self._child: Child | None = None

    @property
    def settings(self) -> dict[str, str]:
        """A destination's."""
        return {
            "account": "test", "host": f"http://{LOOPBACK}:{self.port}", "user": self.user,
            "authentication": "password", "password": self.password, "database": self.database, "warehouse": "W",
            "commit_seconds": "0",
        }  # fmt: skip

    @property
    def options(self) -> dict[str, Any]:
        """Of the vendor's client."""
        from replicator.targets.snowflake.config import destination
        from replicator.targets.snowflake.connection import client_options

        return client_options(destination(self.settings))

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        claim(self.port)
        command = [sys.executable, "-W", "ignore", "-m", "testing.servers.snowflake.front", str(self.port),
            str(self.folder), str(self._idle_seconds)]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(_installed())}
        self._child = start("snowflake", command, self.folder / "snowflake.log", environment=environment, cwd=ROOT)
        if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
            message = f"Embedded Snowflake did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """What it holds is gone."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None


def _installed() -> Path:
    """Its packages, installed once into the cache: they are other versions than Tidemark's."""
    folder = cache_folder() / f"fakesnow-{VERSION}"
    if folder.exists():
        return folder
    cache_folder().mkdir(parents=True, exist_ok=True)
    print(f"installing fakesnow {VERSION}", flush=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as place:
        made = Path(place, "site")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--target", str(made), "--requirement", str(REQUIREMENTS)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            message = f"fakesnow could not be installed:\n{result.stderr.strip()[-1000:]}"
            raise ServerFailed(message)
        with suppress(OSError):  # another process was faster
            made.rename(folder)
    return folder
