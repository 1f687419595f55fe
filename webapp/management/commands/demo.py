"""`manage.py demo [--source …] [--destination …] [--port P] [--no-wait]`: everything, with sample sources and running
replicators.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandParser

from webapp.installation.local import LocalMachine
from webapp.management.commands import up

if TYPE_CHECKING:
    from webapp.replicators.models import Replicator


class Command(up.Command):
    """Ctrl-C stops everything that it started; the next start goes on where it stopped."""

    help = "Starts everything with sample shops (live traffic) on MariaDB and Postgres, and a replicator for each."

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        super().add_arguments(parser)
        parser.add_argument(
            "--source",
            choices=("mariadb", "postgres", "both"),
            default="both",
            help="databases of the sample shop (both)",
        )
        parser.add_argument(
            "--destination",
            choices=("postgres", "redshift", "snowflake", "bigquery", "spanner"),
            help="copy the shops a second time, into Postgres or a warehouse's stand-in",
        )
        parser.add_argument("--no-wait", action="store_true", help="do not wait until the targets are current")

    def handle(self, *args: Any, **options: Any) -> None:
        """As `up`."""
        self._wait = not options["no_wait"]
        self._source, self._destination = options["source"], options["destination"]
        super().handle(*args, **options)

    def _work(self, machine: LocalMachine) -> None:
        from webapp.demo.setup import chosen, ensure_replicator, live  # noqa: PLC0415 - models
        from webapp.demo.warehouses import ensure_copy, live_warehouse  # noqa: PLC0415

        with ExitStack() as stack:
            replicators, shops = [], chosen(self._source, machine.folder)
            for shop in shops:
                self._say(f"starting the sample shop ({shop.product})")
                stack.enter_context(live(shop))
                replicators.append(ensure_replicator(shop))
            if self._destination:
                self._say(f"starting a warehouse ({self._destination})")
                warehouse = stack.enter_context(live_warehouse(self._destination, machine.folder))
                replicators += [ensure_copy(warehouse, shop) for shop in shops]
            stack.callback(machine.stop_processes)  # before the sources that they read
            self._follow(machine, replicators)

    def _follow(self, machine: LocalMachine, replicators: list[Replicator]) -> None:
        from webapp.demo.setup import wait_until_current  # noqa: PLC0415 - models

        machine.wait_for_web(self._stop.is_set)
        if self._wait:
            for replicator in wait_until_current(replicators, self._stop.is_set, self._say):
                if not self._stop.is_set():
                    reason = replicator.error_message or "see its page"
                    self._say(f"The replicator {replicator.name} is {replicator.status}: {reason}")
        self._ready(machine)
        machine.watch(self._stop.is_set)
