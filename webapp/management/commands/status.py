"""`manage.py status [NAME] [--json]`."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from webapp.management.command import MetadataCommand
from webapp.replicators import selectors
from webapp.replicators.models import Replicator
from webapp.replicators.source_log import log_kept


class Command(MetadataCommand):
    """Exit codes: 0, 1 where one has failed, 2 for an unknown name."""

    help = "Prints the status of replicators."

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        parser.add_argument("name", nargs="?", help="a replicator; default: all")
        parser.add_argument("--json", action="store_true", help="one object for NAME, else a list")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print."""
        del args
        if options["name"]:
            found = selectors.by_name(options["name"])
            if found is None:
                message = f"Unknown replicator {options['name']!r}."
                raise CommandError(message, returncode=2)
            summaries = [_summary(found)]
        else:
            summaries = [_summary(replicator) for replicator in selectors.list_replicators()]
        if options["json"]:
            self.stdout.write(json.dumps(summaries[0] if options["name"] else summaries, indent=2, default=str))
        else:
            self._table(summaries)
        if any(summary["status"] == "failed" for summary in summaries):
            raise SystemExit(1)

    def _table(self, summaries: list[dict[str, Any]]) -> None:
        if not summaries:
            self.stdout.write("No replicators yet. Create one in the browser, or with `manage.py apply FILE.yml`.")
        for summary in summaries:
            lag = summary["lag_seconds"]
            lag_text = "" if lag is None else f", {lag:.1f} s behind"
            self.stdout.write(
                f"{summary['name']}: {summary['status']}{', current' if summary['current'] else ''}{lag_text}"
            )
            if error := summary.get("error"):
                self.stdout.write(f"  {error['message']} {error['remedy']}")
            if kept := summary.get("log_kept", {}).get("message"):
                self.stdout.write(f"  {kept}")
            for table in summary["tables"]:
                rows = ", ".join(f"{count} {what}" for what, count in table["rows"].items() if count)
                self.stdout.write(f"  {table['table']}: {table['state']}{', ' + rows if rows else ''}")
                if table["dead_letters"]:
                    self.stdout.write(f"    {table['dead_letters']} dead-letter rows: missing in the target")
                if error := table.get("error"):
                    self.stdout.write(f"    {error['message']} {error['remedy']}")


def _summary(replicator: Replicator) -> dict[str, Any]:
    kept = log_kept(replicator)
    return selectors.summary(replicator) | ({} if kept is None else {"log_kept": kept.to_dict()})
