"""`manage.py run NAME [--until-current] [--timeout S]`: capture, snapshot and merge in this process."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from replicator.errors import TidemarkError
from webapp.management.command import MetadataCommand
from webapp.management.signals import stop_on_signals
from webapp.replicators import selectors
from webapp.replicators.models import Replicator
from webapp.replicators.targets import kind_of
from webapp.worker.run.outcome import ExitCode
from webapp.worker.run.spark import start_ahead


class Command(MetadataCommand):
    """Exit codes: 0 current (or stopped by a signal), 1 failed, 2 the time was over, or wrong use."""

    help = "Runs a replicator in this process, without Celery."

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        parser.add_argument("name", help="the replicator")
        parser.add_argument(
            "--until-current", action="store_true", help="exit when the current state of the source is in the target"
        )
        parser.add_argument("--timeout", type=float, default=None, help="seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run, then say how it ended."""
        del args
        replicator = selectors.by_name(options["name"])
        if replicator is None:
            message = f"Unknown replicator {options['name']!r}."
            raise CommandError(message, returncode=2)
        stop = stop_on_signals()
        if kind_of(replicator).capabilities.jvm:
            start_ahead()
        from webapp.worker.run.headless import HeadlessRun, source_position  # noqa: PLC0415 - seconds, beside the JVM's start

        try:
            reached = source_position(replicator) if options["until_current"] else None
        except TidemarkError as error:
            message = f"{error.message}\n{error.remedy}"
            raise CommandError(message, returncode=1) from None
        with HeadlessRun(replicator, stop.is_set) as run:
            outcome = run.wait(reached, options["timeout"])
        self._say(replicator, outcome)

    def _say(self, replicator: Replicator, outcome: ExitCode) -> None:
        replicator.refresh_from_db()
        for table in selectors.tables_of(replicator):
            self.stdout.write(f"{table}: {table.state}, {table.rows_read} read, {table.rows_inserted} inserted, "
                              f"{table.rows_updated} updated, {table.rows_deleted} deleted")  # fmt: skip
        if outcome is ExitCode.CURRENT:
            return
        if outcome is ExitCode.TIMEOUT:
            message = f"{replicator.name} did not become current in time."
            raise CommandError(message, returncode=ExitCode.TIMEOUT.value)
        message = "\n".join(reasons(replicator)) or f"A failed table of {replicator.name} recovers. Run it again."
        raise CommandError(message, returncode=ExitCode.FAILED.value)


def reasons(replicator: Replicator) -> list[str]:
    """What failed and what to do, a line each."""
    lines = []
    if replicator.error_code:
        lines.append(f"{replicator.name} failed: {replicator.error_message} {replicator.error_remedy}")
    failed = [table for table in selectors.tables_of(replicator) if table.state == "failed"]
    return lines + [f"{table} failed: {table.error_message} {table.error_remedy}" for table in failed]
