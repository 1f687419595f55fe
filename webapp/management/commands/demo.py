"""`manage.py demo [--port P] [--no-wait]`: everything, with a sample source and a running replicator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandParser

from webapp.local import LocalMachine
from webapp.management.commands import up

if TYPE_CHECKING:
    from webapp.replicators.models import Replicator


class Command(up.Command):
    """Ctrl-C stops everything that it started; the next start goes on where it stopped."""

    help = "Starts everything with a sample shop (live traffic) and a replicator that copies it."

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        super().add_arguments(parser)
        parser.add_argument("--no-wait", action="store_true", help="do not wait until the copy is current")

    def handle(self, *args: Any, **options: Any) -> None:
        """As `up`."""
        self._wait = not options["no_wait"]
        super().handle(*args, **options)

    def _work(self, machine: LocalMachine) -> None:
        from webapp.demo.setup import ensure_replicator, live_shop  # noqa: PLC0415 - models

        self._say("starting the sample shop (MariaDB)")
        with live_shop(machine.folder) as server:
            try:
                self._follow(machine, ensure_replicator(server))
            finally:
                machine.stop_processes()

    def _follow(self, machine: LocalMachine, replicator: Replicator) -> None:
        from webapp.demo.setup import wait_until_current  # noqa: PLC0415 - models

        machine.wait_for_web(self._stop.is_set)
        if self._wait and not wait_until_current(replicator, self._stop.is_set, self._say) and not self._stop.is_set():
            reason = replicator.error_message or "its page says more"
            self._say(f"The replicator {replicator.name} is {replicator.status}: {reason}")
        self._ready(machine)
        machine.watch(self._stop.is_set)
