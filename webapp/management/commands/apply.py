"""`manage.py apply FILE.yml`: connections, channels and replicators as code (see
`webapp.console.definitions.apply`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from replicator.errors import TidemarkError
from webapp.console.definitions.apply import apply
from webapp.management.command import MetadataCommand


class Command(MetadataCommand):
    """Exit codes: 0, 1 where the file is wrong."""

    help = "Creates and updates connections, channels and replicators from a file; prints the changes; idempotent."

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        parser.add_argument("file", help="a YAML file; - reads standard input")
        parser.add_argument("--dry-run", action="store_true", help="print the changes without applying them")

    def handle(self, *args: Any, **options: Any) -> None:
        """Apply and print."""
        del args
        try:
            text = sys.stdin.read() if options["file"] == "-" else Path(options["file"]).read_text()
            with transaction.atomic():
                changes = apply(text)
                transaction.set_rollback(options["dry_run"])
        except OSError as error:
            message = f"{options['file']} cannot be read: {error.strerror}"
            raise CommandError(message) from None
        except TidemarkError as error:
            message = f"{error.message}\n{error.remedy}"
            raise CommandError(message) from None
        for change in changes:
            self.stdout.write(change)
        if not changes:
            self.stdout.write("no changes")
