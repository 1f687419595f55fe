"""What our commands share."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.management.base import BaseCommand
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

INTERRUPTED = 130  # as shells say it
LACKS = (
    "The metadata database has another schema version: {} of its migrations {} missing. Run `manage.py migrate` first"
    " (docs/backup.md: what to do before an upgrade)."
)


class MetadataCommand(BaseCommand):
    """Needs the metadata database as this version has it, and says so in a sentence; ends with one at Ctrl-C, too.

    Django's own checks, which load every page, are `make lint`'s: a start is half as long without them.
    """

    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """From a command line; exit code 1 where the database does not answer, or is of another version."""
        try:
            missing = self._missing()
        except OperationalError as error:
            self.stderr.write(self.style.ERROR(f"The metadata database does not respond: {str(error).strip()}"))
            raise SystemExit(1) from None
        if missing:
            self.stderr.write(self.style.ERROR(LACKS.format(missing, "is" if missing == 1 else "are")))
            raise SystemExit(1)
        try:
            super().run_from_argv(list(argv))
        except KeyboardInterrupt:
            self.stderr.write(f"{argv[1]} was interrupted.")
            raise SystemExit(INTERRUPTED) from None

    @staticmethod
    def _missing() -> int:
        executor = MigrationExecutor(connection)
        return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
