"""Tidemark's command line: `tidemark help` lists the commands; `python -m webapp` and `manage.py` are the same."""

from __future__ import annotations

import faulthandler
import os
import sys

LEAVE_SECONDS = 20.0


def main() -> None:
    """Hand over to Django; settings come from the environment."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - after the setting above

    from webapp.installation.embedded_database import metadata_database  # noqa: PLC0415

    try:
        with metadata_database(sys.argv[1] if len(sys.argv) > 1 else ""):
            execute_from_command_line(sys.argv)
    finally:
        # A thread that waits for ever, for a server that does not answer, does not
        # keep the process: it says where it waits.
        faulthandler.dump_traceback_later(LEAVE_SECONDS, exit=True)


if __name__ == "__main__":
    main()
