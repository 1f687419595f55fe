"""Everything on this machine: servers where no URL is configured, web, workers, beat; stopped together."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from webapp import environment
from webapp.embedded.postgres import EmbeddedPostgres
from webapp.embedded.processes import ProcessGroup, ServerFailed
from webapp.embedded.redis import EmbeddedRedis
from webapp.installation.embedded_database import hold_services

ROOT = Path(__file__).resolve().parents[2]
# (queue, pool, how many at a time): one thread for each replicator that is busy; those beyond take turns of a slice
WEB_PROCESSES = 2
SNAPSHOT_PLACES = 8  # processes at most: a replicator has one at a time, however many tables it reads
WORKERS = (("control", "threads", 4), ("capture", "threads", 24), ("snapshot", "prefork", 2), ("merge", "threads", 24))
WEB_SECONDS = 60.0
WATCH_SECONDS = 1.0


class LocalMachine:
    """`with LocalMachine(port) as machine:` starts everything; leaving the block stops what it started."""

    def __init__(self, port: int, say: Callable[[str], None] = print) -> None:
        """`port` of the pages, on loopback unless TIDEMARK_BIND says otherwise."""
        self.folder = environment.home()
        self.port = port
        self._say = say
        self._stack = ExitStack()
        self._group = ProcessGroup(self.folder / "log")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Servers, migrations, processes; ServerFailed or BlockingIOError (another one runs) otherwise."""
        with self._stack:
            self._stack.enter_context(hold_services(self.folder))
            self._servers()
            self._migrate()
            self._stack.callback(self._group.stop)
            self._processes()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Processes first, then the servers that they use."""
        self._stack.close()

    def watch(self, stopped: Callable[[], bool]) -> None:
        """Restart processes that exit unexpectedly, until `stopped()`."""
        while not stopped():
            for child in self._group.dead():
                self._say(f"{child.name} exited unexpectedly and is restarted; its log is {child.log}")
                self._group.children.remove(child)
                self._start(child.name)
            time.sleep(WATCH_SECONDS)

    def stop_processes(self) -> None:
        """Before a source that they read goes away."""
        self._group.stop()

    def wait_for_web(self, stopped: Callable[[], bool]) -> None:
        """Until the pages answer."""
        deadline = time.monotonic() + WEB_SECONDS
        while time.monotonic() < deadline and not stopped():
            try:
                with urlopen(f"{self.address}/healthz", timeout=2):  # noqa: S310 - our own address
                    return
            except (URLError, OSError):
                time.sleep(0.1)
        if not stopped():
            tail = next((child.tail() for child in self._group.children if child.name == "web"), "")
            message = f"The web server did not start:\n{tail}"
            raise ServerFailed(message)

    def _servers(self) -> None:
        own: dict[str, str] = {}
        if not environment.secret("DATABASE_URL"):
            self._say("starting Postgres")
            postgres = EmbeddedPostgres(self.folder / "postgres", environment.kept_port(self.folder, "postgres"))
            postgres.start()
            self._stack.callback(postgres.stop)
            own["DATABASE_URL"] = postgres.url
        if not environment.secret("REDIS_URL"):
            self._say("starting Redis")
            redis = EmbeddedRedis(self.folder / "redis", environment.kept_port(self.folder, "redis"))
            redis.start()
            self._stack.callback(redis.stop)
            own["REDIS_URL"] = redis.url
        os.environ.update(own)
        self._configure({name: environment.secret(name) for name in ("DATABASE_URL", "REDIS_URL")})
        environment.publish_services(self.folder, own)
        self._stack.callback(environment.publish_services, self.folder, {})

    @staticmethod
    def _configure(urls: Mapping[str, str]) -> None:
        """Its settings were loaded before the servers had addresses."""
        from django.conf import settings  # noqa: PLC0415 - not before
        from django.db import connections  # noqa: PLC0415

        settings.DATABASE_URL, settings.REDIS_URL = urls["DATABASE_URL"], urls["REDIS_URL"]
        fresh = environment.database(urls["DATABASE_URL"])
        connections.close_all()
        settings.DATABASES["default"].update(fresh)
        connections["default"].settings_dict.update(fresh)

    def _migrate(self) -> None:
        from django.core.management import call_command  # noqa: PLC0415 - only once the database is there

        self._say("migrating")
        (self.folder / "static").mkdir(parents=True, exist_ok=True)
        call_command("migrate", verbosity=0, interactive=False)

    def _processes(self) -> None:
        self._say("starting web, workers and beat")
        for name in ("web", *(queue for queue, _, _ in WORKERS), "beat"):
            self._start(name)

    def _start(self, name: str) -> None:
        self._group.start(name, self.command(name), {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"})

    def command(self, name: str) -> list[str]:
        """What starts the web server, the worker of a queue, or beat."""
        bind = os.environ.get("TIDEMARK_BIND", "127.0.0.1")
        if name == "web":
            return [
                sys.executable, "-m", "gunicorn", "webapp.wsgi:application", "--bind", f"{bind}:{self.port}",
                "--worker-class", "webapp.web.serving.WebWorker", "--threads", "8", "--workers", str(WEB_PROCESSES),
                "--chdir", str(ROOT),
                "--graceful-timeout", "3", "--no-control-socket",
            ]  # fmt: skip
        celery = [sys.executable, "-m", "celery", "--workdir", str(ROOT), "-A", "webapp.celery"]
        if name == "beat":
            return [*celery, "beat", "--schedule", str(self.folder / "beat"), "--pidfile=", "-l", "WARNING"]
        pool, count = next((pool, count) for queue, pool, count in WORKERS if queue == name)
        # A process that waits for a source's statement is not at work: another is made, so that two such do not stop
        # all snapshots.
        places = ["--autoscale", f"{SNAPSHOT_PLACES},{count}"] if pool == "prefork" else ["-c", str(count)]
        return [
            *celery, "worker", "-Q", name, "--pool", pool, *places, "-n", f"{name}@%h",
            "--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING",
        ]  # fmt: skip
