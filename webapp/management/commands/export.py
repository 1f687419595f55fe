"""`manage.py export [NAME…]`: connections, channels and replicators as the file that `manage.py apply` takes; no secret
is in it.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from replicator.errors import TidemarkError
from webapp.console.definitions.export import export
from webapp.management.command import MetadataCommand


class Command(MetadataCommand):
    """Exit codes: 0, 1 for an unknown name."""

    help = "Writes connections, channels and replicators as YAML to standard output; secrets as variable names."

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        parser.add_argument("names", nargs="*", help="replicators with their dependencies; default: everything")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print."""
        del args
        try:
            self.stdout.write(export(options["names"]), ending="")
        except TidemarkError as error:
            message = f"{error.message}\n{error.remedy}"
            raise CommandError(message) from None
