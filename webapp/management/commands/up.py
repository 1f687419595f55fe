"""`manage.py up [--port P]`: web, workers and beat; embedded servers where no URL is configured."""

from __future__ import annotations

import os
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import InterfaceError, OperationalError, connection

from webapp.embedded.java_artifacts import ArtifactMissing, spark_jars
from webapp.embedded.ports import is_free
from webapp.embedded.processes import ServerFailed
from webapp.environment import bundles
from webapp.installation.local import LocalMachine
from webapp.management.signals import stop_on_signals

DEFAULT_PORT = 8000
DATABASE_SECONDS = 1.0


def default_port() -> int:
    """TIDEMARK_PORT."""
    return int(os.environ.get("TIDEMARK_PORT", DEFAULT_PORT))


class Command(BaseCommand):
    """Ctrl-C or SIGTERM stops everything that it started; the next start goes on where it stopped."""

    help = "Starts everything on this machine."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        parser.add_argument(
            "--port", type=int, default=default_port(), help="port of the web server (TIDEMARK_PORT, 8000)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Start, wait for a signal, stop."""
        del args
        self._stop = stop_on_signals()
        try:
            check_machine(options["port"])
            with LocalMachine(options["port"], self._say) as machine:
                self._work(machine)
        except BlockingIOError:
            message = "Tidemark is already running with this data folder. Set TIDEMARK_HOME to use another one."
            raise CommandError(message) from None
        except (ServerFailed, ArtifactMissing) as error:
            raise CommandError(str(error)) from None
        self._say("stopped")

    def _work(self, machine: LocalMachine) -> None:
        machine.wait_for_web(self._stop.is_set)
        self._ready(machine)
        machine.watch(self._stop.is_set)

    def _ready(self, machine: LocalMachine) -> None:
        link = None
        while link is None and not self._stop.is_set():
            try:
                link = first_login(machine.address)
            except (OperationalError, InterfaceError):  # it restarts: no reason to stop everything else
                connection.close()
                time.sleep(DATABASE_SECONDS)
        self._say(f"\nTidemark runs at {machine.address}")
        if link:
            self._say(f"One-time sign-in link: {link}")
        self._say("Press Ctrl-C to stop.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def check_machine(port: int) -> None:
    """What would fail later fails now, in one line."""
    if not is_free(port):
        message = f"Port {port} is in use: choose another one with --port or TIDEMARK_PORT."
        raise ServerFailed(message)
    spark_jars(bundles(settings.TIDEMARK_WAREHOUSE_URL))


def first_login(address: str) -> str:
    """A login link, or nothing where the administrator has a password."""
    from webapp.accounts.services import ensure_admin  # noqa: PLC0415 - models, once the database is there

    return "" if ensure_admin().has_usable_password() else login_link(address)


def login_link(address: str) -> str:
    """A link that signs the administrator in, once, within an hour."""
    from django.urls import reverse  # noqa: PLC0415

    from webapp.accounts.services import create_one_time_login, ensure_admin  # noqa: PLC0415

    token = create_one_time_login(user=ensure_admin(), minutes=60)
    return f"{address}{reverse('accounts:sign_in_once', args=[token])}"
