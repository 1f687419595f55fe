"""What the embedded MariaDB and MySQL have in common: one server on loopback, its folder, its administrator."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pymysql
from pymysql.cursors import Cursor

from webapp.embedded.ports import LOOPBACK, free_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

USER = "tidemark"
START_SECONDS = 60.0
FOR_GOOD = ("lower-case-table-names",)  # options that a data folder is made with


class MySQLFamilyServer(ABC):
    """One server on loopback with the settings that replication needs; a second start goes on with its data."""

    product: ClassVar[str]
    defaults: ClassVar[Mapping[str, str]]

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        options: dict[str, str] | None = None,
        password: str = "tidemark",
    ) -> None:
        """`options` are added to (or replace) the server's defaults."""
        self.folder = folder.resolve()
        self.host = LOOPBACK
        self.port = port or free_port()
        self.user = USER
        self.password = password
        self._options = {**self.defaults, **(options or {})}
        self._child: Child | None = None
        digest = hashlib.blake2b(str(self.folder).encode(), digest_size=6).hexdigest()
        # A socket's path may have 107 characters at most, so it does not lie in the folder.
        self.socket = Path(tempfile.gettempdir()) / f"tidemark-{digest}.sock"

    @property
    def address(self) -> dict[str, Any]:
        """host, port, user, password of an administrator."""
        return {"host": self.host, "port": self.port, "user": self.user, "password": self.password}

    @property
    def log(self) -> Path:
        return self.folder / f"{self.product.lower()}.log"

    def connect(self, **more: Any) -> pymysql.Connection[Cursor]:
        """An administrator's connection, autocommit."""
        return pymysql.connect(**self.address, autocommit=True, charset="utf8mb4", ssl_disabled=True, **more)

    def start(self) -> None:
        """Make the data folder if need be and start; ServerFailed with the log's end otherwise."""
        base = self._programs()
        data = self.folder / "data"
        if not (data / "mysql").exists():
            self._make(base, data)
        claim(self.port)
        self._remove_socket()
        command = [*self._server(base), *self._arguments(base, data)]
        self._child = start(self.product.lower(), command, self.log, environment=self._environment(base))
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Clean shutdown by default; SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how, 30.0)
            self._child = None
            self._remove_socket()

    @property
    def running(self) -> bool:
        """It was started and has not ended."""
        return self._child is not None and self._child.alive

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop and start on the same port."""
        self.stop(how)
        self.start()

    # What differs

    @abstractmethod
    def _programs(self) -> Path:
        """The folder of the server's programs, fetched and unpacked once into the cache."""

    @abstractmethod
    def _server(self, base: Path) -> list[str]:
        """The server's program, and the options that only this product needs at each start."""

    @abstractmethod
    def _install(self, base: Path, data: Path) -> list[str]:
        """The command that fills the empty data folder."""

    @abstractmethod
    def _environment(self, base: Path) -> dict[str, str]:
        """For the server's programs."""

    # What does not

    def _arguments(self, base: Path, data: Path) -> list[str]:
        own = {
            "basedir": str(base),
            "datadir": str(data),
            "socket": str(self.socket),
            "port": str(self.port),
            "bind-address": LOOPBACK,
            "pid-file": str(self.folder / "server.pid"),
            "lc-messages-dir": str(base / "share"),
            "tmpdir": str(self._temporary()),
        }
        options = [f"--{name}={value}" for name, value in (own | self._options).items()]
        return ["--skip-name-resolve", *as_root(), *options]

    def _remove_socket(self) -> None:
        """Nor may MySQL's lock of a killed server stay: its process id may be another program's by now."""
        for name in (self.socket.name, f"{self.socket.name}.lock"):
            self.socket.with_name(name).unlink(missing_ok=True)

    def _temporary(self) -> Path:
        """Its own: a server that starts clears leftovers of any server there."""
        folder = self.folder / "tmp"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _make(self, base: Path, data: Path) -> None:
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        lasting = [f"--{name}={self._options[name]}" for name in FOR_GOOD if name in self._options]
        child = start(
            f"{self.product.lower()}-install",
            [*self._install(base, data), *lasting],
            self.folder / "install.log",
            environment={**self._environment(base), "TMPDIR": str(self._temporary())},
            cwd=base,
        )
        if child.process.wait() != 0:
            shutil.rmtree(data, ignore_errors=True)
            message = f"Embedded {self.product} could not create its data folder:\n{child.tail(100)}"
            raise ServerFailed(message)

    def _wait(self) -> None:
        assert self._child is not None
        deadline = time.monotonic() + START_SECONDS
        while self._child.alive and time.monotonic() < deadline:
            with contextlib.suppress(pymysql.MySQLError):
                self.connect(connect_timeout=2).close()
                return
            time.sleep(0.1)
        tail = self._child.tail()
        self.stop(signal.SIGKILL)
        message = f"Embedded {self.product} did not start:\n{tail}"
        raise ServerFailed(message)


def as_root() -> list[str]:
    """Return the option without which servers refuse to run as root."""
    return ["--user=root"] if os.geteuid() == 0 else []
