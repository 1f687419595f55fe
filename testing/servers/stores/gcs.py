"""Embedded Google Cloud Storage: fake-gcs-server over a folder, for tests.

It serves the JSON API with resumable uploads, without authentication.  Go builds it on first use.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from webapp.embedded.java_artifacts import cache_folder
from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

VERSION = "1.56.1"
PROGRAM = "fake-gcs-server"
MODULE = f"github.com/fsouza/{PROGRAM}@v{VERSION}"
START_SECONDS = 60.0


class EmbeddedGcs:
    """One server on loopback, with one bucket.

    What it holds stays in its folder, also when it is killed.
    """

    bucket = "tidemark"
    project = "tidemark"

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """`folder` holds buckets and log."""
        self.folder = folder.resolve()
        self.port = port or free_port()
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """A place in the bucket."""
        return f"gs://{self.bucket}"

    @property
    def endpoint(self) -> str:
        """The endpoint for clients."""
        return f"http://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up, or with what is to be installed."""
        program = _built()
        (self.folder / "buckets" / self.bucket).mkdir(parents=True, exist_ok=True)
        claim(self.port)
        command = [
            str(program), "-scheme", "http", "-host", LOOPBACK, "-port", str(self.port),
            "-backend", "filesystem", "-filesystem-root", str(self.folder / "buckets"),
            "-public-host", f"{LOOPBACK}:{self.port}", "-external-url", self.endpoint, "-log-level", "warn",
        ]  # fmt: skip
        self._child = start("gcs", command, self.folder / "gcs.log")
        if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
            message = f"Embedded Google Cloud Storage did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None


def _built() -> Path:
    """The program, built once into the cache."""
    folder = cache_folder() / f"gcs-{VERSION}"
    if (folder / PROGRAM).exists():
        return folder / PROGRAM
    go = shutil.which("go")
    if go is None:
        message = "Embedded Google Cloud Storage requires Go, which builds it: the command `go` was not found."
        raise ServerFailed(message)
    cache_folder().mkdir(parents=True, exist_ok=True)
    print(f"building {PROGRAM} {VERSION}", flush=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as place:
        built = Path(place, "bin")
        result = subprocess.run(
            [go, "install", MODULE],
            env={**os.environ, "GOBIN": str(built), "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            message = f"Embedded Google Cloud Storage could not be built:\n{result.stderr.strip()[-1000:]}"
            raise ServerFailed(message)
        with contextlib.suppress(OSError):  # another process was faster
            built.rename(folder)
    return folder / PROGRAM
