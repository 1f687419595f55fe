"""`manage.py rotate_key [--finish]`: another key for the stored secrets.

A key in a file (TIDEMARK_HOME/secret.key) is replaced here, and the old one kept beside it, where running processes
and new ones read both; after they were started again, `--finish` encrypts what was stored meanwhile and deletes the old
one.  A key in TIDEMARK_SECRET_KEY is changed where it is set, with the old one in TIDEMARK_SECRET_KEY_OLD until this
command has run.
"""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from webapp import environment
from webapp.installation import key_rotation
from webapp.management.command import MetadataCommand


class Command(MetadataCommand):
    """Exit codes: 0, 1 where there is no key to change to."""

    help = "Encrypts all stored secrets under a new key."

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        parser.add_argument(
            "--finish", action="store_true", help="delete the old key after every process was restarted"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print what was done; no key is printed."""
        del args
        folder, in_file = settings.TIDEMARK_HOME, not os.environ.get("TIDEMARK_SECRET_KEY")
        if not in_file and not settings.SECRET_KEY_FALLBACKS:
            message = (
                "TIDEMARK_SECRET_KEY is set: change it there, put the old one into TIDEMARK_SECRET_KEY_OLD, restart"
                " every process, and run this again."
            )
            raise CommandError(message)
        if in_file and not options["finish"]:
            settings.SECRET_KEY = environment.fresh_secret_key(folder)
            settings.SECRET_KEY_FALLBACKS = environment.old_secret_keys(folder)
        done = key_rotation.rekey()
        self.stdout.write(f"{done.changed} secret{'' if done.changed == 1 else 's'} encrypted under the new key.")
        for name in done.unreadable:
            self.stdout.write(f"The secrets of the {name} cannot be decrypted with any known key. Enter them again.")
        if in_file and options["finish"]:
            environment.forget_old_secret_key(folder)
            self.stdout.write("The old key is deleted.")
        elif in_file:
            self.stdout.write("Restart web, workers and beat, then run: manage.py rotate_key --finish")
        else:
            self.stdout.write("TIDEMARK_SECRET_KEY_OLD is no longer needed.")
