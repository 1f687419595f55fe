"""Commands without `up`: where no DATABASE_URL is set, the embedded Postgres runs for as long as a command needs it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from webapp import environment
from webapp.embedded.ports import wait_for_port
from webapp.embedded.postgres import EmbeddedPostgres

# Commands that need the metadata database; `up` and `demo` bring their own servers.
COMMANDS = frozenset({
    "apply", "run", "status", "verify", "migrate", "showmigrations", "shell", "dbshell", "createsuperuser",
    "changepassword",
    "lake_reader", "rotate_key",
})  # fmt: skip
LOCK_FILE = "services.lock"
USERS_FILE = "services.users"
START_SECONDS = 30.0


@contextmanager
def metadata_database(command: str) -> Iterator[None]:
    """DATABASE_URL is set inside the block: the user's, that of a running `up`, or that of a server of our own."""
    if command not in COMMANDS or environment.secret("DATABASE_URL"):
        yield
        return
    folder = environment.home()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / USERS_FILE).open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        if _running(folder):
            yield
            return
        with _owned(folder, users):
            yield


def _running(folder: Path) -> bool:
    """Another process holds the servers, and the database answers: its URL is in the services file."""
    with (folder / LOCK_FILE).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _answers(folder)
    return False


def _answers(folder: Path) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        url = environment.embedded_services(folder).get("DATABASE_URL")
        if url and wait_for_port(urlsplit(url).port or 0, 0.1):
            return True
        time.sleep(0.1)
    return False


@contextmanager
def _owned(folder: Path, users: IO[str]) -> Iterator[None]:
    """Start it, tell the others where it is, and stop it when the last of them has gone."""
    with hold_services(folder):
        postgres = EmbeddedPostgres(folder / "postgres", environment.kept_port(folder, "postgres"))
        postgres.start()
        try:
            environment.publish_services(folder, {"DATABASE_URL": postgres.url})
            os.environ["DATABASE_URL"] = postgres.url
            _migrate()
            yield
        finally:
            environment.publish_services(folder, {})
            os.environ.pop("DATABASE_URL", None)
            fcntl.flock(users, fcntl.LOCK_EX)
            postgres.stop()


@contextmanager
def hold_services(folder: Path) -> Iterator[None]:
    """Only one process at a time starts servers below a data folder; BlockingIOError where another one does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _migrate() -> None:
    import django  # noqa: PLC0415 - only once DATABASE_URL is set
    from django.core.management import call_command  # noqa: PLC0415

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()
    call_command("migrate", verbosity=0, interactive=False)
