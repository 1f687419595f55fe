"""`manage.py snapshot NAME [--table t …] [--keys … | --keys-file F | --where …] [--stop | --pause | --resume]`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from replicator.errors import TidemarkError
from webapp.management.command import MetadataCommand
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.services.partial_snapshots import signal_statement

WRONG_USE = 2


class Command(MetadataCommand):
    """Exit codes: 0, 1 where the request is refused (it says why), 2 for wrong use."""

    help = "Starts snapshots of tables, or of rows of one table, while they stream; stops, pauses and resumes them."

    def add_arguments(self, parser: CommandParser) -> None:
        """See the module."""
        parser.add_argument("name", help="the replicator")
        parser.add_argument(
            "--table",
            action="append",
            default=[],
            help="database.table (schema.table); may be repeated; default: all tables",
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--keys", nargs="+", metavar="KEY", help="rows by key; several columns as CSV or a JSON array"
        )
        what.add_argument("--keys-file", metavar="FILE", help="the same, one key per line; - reads standard input")
        what.add_argument(
            "--where", metavar="CONDITION", help="rows that match this condition in the SQL of the source"
        )
        what.add_argument("--stop", action="store_true", help="stop running snapshots")
        what.add_argument("--pause", action="store_true", help="pause running snapshots")
        what.add_argument("--resume", action="store_true", help="resume paused snapshots")
        what.add_argument(
            "--signal-table", action="store_true", help="print the CREATE TABLE statement of the signalling table"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, and say what was done."""
        del args
        replicator = selectors.by_name(options["name"])
        if replicator is None:
            message = f"Unknown replicator {options['name']!r}."
            raise CommandError(message, returncode=WRONG_USE)
        if options["signal_table"]:
            self.stdout.write(f"{signal_statement(replicator)};")
            return
        tables = _chosen(replicator, options["table"])
        act = _action(options, tables)
        for table in tables:
            try:
                self.stdout.write(act(table))
            except TidemarkError as error:
                message = f"{error.message}\n{error.remedy}"
                raise CommandError(message, returncode=1) from None


def _chosen(replicator: Replicator, names: Sequence[str]) -> list[ReplicatorTable]:
    found = list(selectors.tables_of(replicator).select_related("replicator__connection", "replicator__destination"))
    wanted, unknown = selectors.tables_called(replicator, found, names)
    if unknown:
        message = f"{replicator.name} has no table {unknown[0]}."
        raise CommandError(message, returncode=WRONG_USE)
    return wanted


def _action(options: dict[str, Any], tables: Sequence[ReplicatorTable]) -> Callable[[ReplicatorTable], str]:
    for name, act in (("stop", _stop), ("pause", _pause), ("resume", _resume)):
        if options[name]:
            return act
    keys = "\n".join(options["keys"]) if options["keys"] else _file(options["keys_file"])
    if keys is None and options["where"] is None:
        return _whole
    if len(tables) != 1 or not options["table"]:
        message = "Keys and conditions apply to one table. Name it with --table."
        raise CommandError(message, returncode=WRONG_USE)
    if keys is None:
        return lambda table: f"{services.read_rows(table=table, condition=options['where']).what} are read."
    return lambda table: f"{services.read_keys(table=table, keys=keys).what} are read."


def _file(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{name} cannot be read: {error}"
        raise CommandError(message, returncode=WRONG_USE) from None


def _whole(table: ReplicatorTable) -> str:
    services.resnapshot_table(table=table)
    return f"{table} is resnapshotted."


def _stop(table: ReplicatorTable) -> str:
    return f"{table}: {_snapshots(services.stop_snapshots(table=table))} stopped."


def _pause(table: ReplicatorTable) -> str:
    return f"{table}: {_snapshots(services.set_paused(table=table, paused=True))} paused."


def _resume(table: ReplicatorTable) -> str:
    return f"{table}: {_snapshots(services.set_paused(table=table, paused=False))} resumed."


def _snapshots(number: int) -> str:
    return f"{number or 'no'} snapshot{'' if number == 1 else 's'}"
