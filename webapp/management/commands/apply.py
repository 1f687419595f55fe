"""`manage.py apply FILE.yml`: connections and replicators as code (see `webapp.replicators.as_code`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from replicator.errors import TidemarkError
from webapp.replicators.as_code import apply


class Command(BaseCommand):
    """Exit codes: 0, 1 where the file is wrong."""

    help = "Makes connections and replicators as a file says; prints what changed; idempotent."

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        parser.add_argument("file", help="a YAML file; - reads standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        """Apply and print."""
        del args
        try:
            text = sys.stdin.read() if options["file"] == "-" else Path(options["file"]).read_text()
            changes = apply(text)
        except OSError as error:
            message = f"{options['file']} cannot be read: {error.strerror}"
            raise CommandError(message) from None
        except TidemarkError as error:
            message = f"{error.message}\n{error.remedy}"
            raise CommandError(message) from None
        for change in changes:
            self.stdout.write(change)
        if not changes:
            self.stdout.write("nothing to change")
