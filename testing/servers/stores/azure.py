"""Embedded Azure Data Lake Storage: Azurite over a folder, for tests.

It speaks the protocol of Azure's blobs, shared keys included; `azure.js` adds what Iceberg needs of Data Lake Storage.
npm installs it on first use.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from webapp.embedded.java_artifacts import cache_folder
from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

VERSION = "3.35.0"  # later ones require Node 22
PROGRAM = Path(__file__).with_suffix(".js")
START_SECONDS = 60.0


class EmbeddedAzure:
    """One server on loopback, with one account and one container.

    What it holds stays in its folder, also when it is killed.
    """

    container = "tidemark"
    account = "tidemark"

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """`folder` holds containers and log."""
        self.folder = folder.resolve()
        self.port = port or free_port()
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """A place in the container."""
        return f"abfss://{self.container}@{self.host}"

    @property
    def host(self) -> str:
        """The account's host name in URLs; it is never resolved."""
        return f"{self.account}.dfs.core.windows.net"

    @property
    def authority(self) -> str:
        """The server's address."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def endpoint(self) -> str:
        """The account's address."""
        return f"http://{self.authority}/{self.account}"

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up, or with what is to be installed."""
        folder, node = _installed(), _command("node")
        (self.folder / "blobs").mkdir(parents=True, exist_ok=True)
        claim(self.port)
        command = [
            node, str(PROGRAM), "--blobHost", LOOPBACK, "--blobPort", str(self.port), "--skipApiVersionCheck",
            "--location", str(self.folder / "blobs"), "--silent", "--disableTelemetry",
        ]  # fmt: skip
        environment = {**os.environ, "AZURITE": str(folder), "AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}
        self._child = start("azure", command, self.folder / "azure.log", environment=environment)
        if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
            message = f"Embedded Azure did not start:\n{self._child.tail()}"
            raise ServerFailed(message)
        self._make_container()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None

    def _make_container(self) -> None:
        from pyarrow.fs import AzureFileSystem

        client = AzureFileSystem(
            account_name=self.account,
            account_key=self.key,
            blob_storage_authority=self.authority,
            blob_storage_scheme="http",
            dfs_storage_authority=self.authority,
            dfs_storage_scheme="http",
        )
        client.create_dir(self.container)


def _installed() -> Path:
    """The folder of the program, installed once into the cache."""
    folder = cache_folder() / f"azurite-{VERSION}"
    if folder.exists():
        return folder
    npm = _command("npm")
    cache_folder().mkdir(parents=True, exist_ok=True)
    print(f"installing azurite {VERSION}", flush=True)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as place:
        installed = Path(place, "azurite")
        command = [npm, "install", "--prefix", str(installed), "--no-audit", "--no-fund", "--ignore-scripts"]
        result = subprocess.run([*command, f"azurite@{VERSION}"], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            message = f"Embedded Azure could not be installed:\n{result.stderr.strip()[-1000:]}"
            raise ServerFailed(message)
        with contextlib.suppress(OSError):  # another process was faster
            installed.rename(folder)
    return folder


def _command(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        message = f"Embedded Azure requires Node.js: the command `{name}` was not found."
        raise ServerFailed(message)
    return found
