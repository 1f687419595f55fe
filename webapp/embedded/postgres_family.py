"""What the embedded Postgres servers have in common: one server on loopback, its folder, its administrator."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import psutil
import psycopg2

from webapp.embedded.ports import LOOPBACK, free_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

USER = "tidemark"
START_SECONDS = 30.0
_IN_USE = "pre-existing shared memory block"
_PERSISTENT = "/var/tmp"  # noqa: S108 - of this machine, outlives a restart, and every user may walk there
UNPRIVILEGED = "nobody"  # Postgres refuses to run as root


class PostgresServer(ABC):
    """One server on loopback; a second start on the same folder goes on with its data."""

    defaults: ClassVar[Mapping[str, str]]
    made_with: ClassVar[Sequence[str]] = ()  # options of initdb

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        database: str,
        options: dict[str, str] | None = None,
        durable: bool = True,
    ) -> None:
        """`options` are added to (or replace) the server's defaults.

        `durable=False` leaves out fsync, for tests: commits outlive SIGKILL, but not the machine.
        """
        self._unprivileged = UNPRIVILEGED if os.geteuid() == 0 else None
        self.folder = data_folder(folder.resolve())
        self.host = LOOPBACK
        self.port = port or free_port()
        self.user = USER
        self.database = database
        unsafe = {} if durable else {"fsync": "off", "full_page_writes": "off"}
        self._options = {**self.defaults, **unsafe, **(options or {})}
        self._child: Child | None = None
        self._secret = self.folder / "password"

    @property
    @abstractmethod
    def password(self) -> str:
        """The administrator's: loopback is open to every user of a machine."""

    @property
    def address(self) -> dict[str, Any]:
        """host, port, user, password, dbname of an administrator, for psycopg2.connect."""
        return {
            "host": self.host, "port": self.port, "user": self.user, "password": self.password, "dbname": self.database
        }  # fmt: skip

    @property
    def log(self) -> Path:
        return self.folder / "log" / "postgres.log"

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.alive

    def connect(self, **more: Any) -> psycopg2.extensions.connection:
        """An administrator's connection, autocommit."""
        connection: psycopg2.extensions.connection = psycopg2.connect(**{**self.address, **more})
        connection.autocommit = True
        return connection

    def start(self) -> None:
        """Make the data folder if need be, start, make the database; ServerFailed with the log's end otherwise."""
        programs = self._programs()
        data = self.folder / "data"
        self._own()
        if not (data / "PG_VERSION").exists():
            self._make(programs, data)
        _stop_orphan(data)
        claim(self.port)
        command = [str(programs / "postgres"), *self._arguments(data)]
        deadline = time.monotonic() + START_SECONDS
        while True:
            self._child = start("postgres", command, self.log, user=self._unprivileged, farewell=signal.SIGINT)
            try:
                self._wait(deadline)
                break
            except ServerFailed as error:  # a killed server's processes are a moment longer there than it
                if _IN_USE not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)
        self._create_database()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Fast shutdown by default; SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop and start on the same port."""
        self.stop(how)
        self.start()

    # What differs

    @abstractmethod
    def _programs(self) -> Path:
        """The folder of `postgres` and `initdb`, where the server's user can walk to."""

    # What does not

    def _arguments(self, data: Path) -> list[str]:
        own = {"listen_addresses": LOOPBACK, "port": str(self.port), "unix_socket_directories": ""}
        settings = own | self._options
        return ["-D", str(data), *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))]

    def _make(self, programs: Path, data: Path) -> None:
        shutil.rmtree(data, ignore_errors=True)
        self._secret.touch(mode=0o600)
        self._secret.write_text(self.password)
        if self._unprivileged is not None:
            shutil.chown(self._secret, self._unprivileged)
        command = [
            str(programs / "initdb"), "-D", str(data), "-U", USER, "--auth=scram-sha-256",
            f"--pwfile={self._secret}", "--encoding=UTF8",
            "--locale=C", "--no-sync", *self.made_with,
        ]  # fmt: skip
        child = start("initdb", command, self.folder / "log" / "initdb.log", user=self._unprivileged)
        if child.process.wait() != 0:
            message = f"Embedded Postgres could not create its data folder:\n{child.tail()}"
            raise ServerFailed(message)

    def _own(self) -> None:
        for item in (self.folder, self.folder / "log"):
            item.mkdir(parents=True, exist_ok=True)
            item.chmod(0o700)
            if self._unprivileged is not None:
                shutil.chown(item, self._unprivileged)

    def _wait(self, deadline: float) -> None:
        """Until it takes connections: after a crash it first recovers."""
        assert self._child is not None
        while self._child.alive and time.monotonic() < deadline:
            with suppress(psycopg2.OperationalError):
                self.connect(dbname="postgres", connect_timeout=5).close()
                return
            time.sleep(0.05)
        message = f"Embedded Postgres did not start:\n{self._child.tail()}"
        self.stop(signal.SIGKILL)
        raise ServerFailed(message)

    def _create_database(self) -> None:
        connection = self.connect(dbname="postgres", connect_timeout=5)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (self.database,))
                if cursor.fetchone() is None:
                    cursor.execute(f'CREATE DATABASE "{self.database}"')
        finally:
            connection.close()


def _stop_orphan(data: Path) -> None:
    """A server that outlived a killed parent still holds the folder: stop it by the process id that it wrote.

    Where that id has since gone to another program, Postgres would take it for a server: the file is removed.
    """
    lock = data / "postmaster.pid"
    with suppress(OSError, ValueError, IndexError, psutil.NoSuchProcess):
        process = psutil.Process(int(lock.read_text().splitlines()[0]))
        if str(data) not in process.cmdline():
            lock.unlink()
            return
        process.send_signal(signal.SIGINT)
        with suppress(psutil.TimeoutExpired):
            process.wait(10.0)


def open_to_others(path: Path) -> bool:
    """May every user walk to `path`?"""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents) if part.exists())


def reachable(folder: Path) -> Path:
    """The folder itself if a server's user can walk to it, else one in /var/tmp that stands for it; ours alone."""
    if _entered(folder):
        return folder
    digest = hashlib.blake2b(str(folder).encode(), digest_size=6).hexdigest()
    return _stand_in(_PERSISTENT, digest) / folder.name


def data_folder(folder: Path) -> Path:
    """Where a server has the data of `folder`: there if its user can walk to it, else in TIDEMARK_SERVER_FOLDERS
    (/var/tmp), by a name that a file beside `folder` holds.

    Where that file was removed with all that lay beside it, another server begins, and the data of before are left.
    """
    if _entered(folder):
        return folder
    name = folder.with_name(f"{folder.name}.folder")
    if not name.exists():
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder.parent) as new, suppress(FileExistsError):
            new.write(secrets.token_hex(6))
            new.flush()
            os.link(new.name, name)
    return _stand_in(os.environ.get("TIDEMARK_SERVER_FOLDERS") or _PERSISTENT, name.read_text()) / folder.name


def _entered(folder: Path) -> bool:
    existing = next(part for part in (folder.parent, *folder.parent.parents) if part.exists())
    return os.geteuid() != 0 or open_to_others(existing)


def _stand_in(base: str, name: str) -> Path:
    stand_in = Path(base) / f"tidemark-{name}"
    stand_in.mkdir(exist_ok=True)
    if stand_in.is_symlink() or stand_in.stat().st_uid != os.geteuid():
        message = f"{stand_in} belongs to another user: remove it."
        raise ServerFailed(message)
    stand_in.chmod(0o755)
    return stand_in
