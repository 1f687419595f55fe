"""`manage.py verify NAME [--repair] [--json]`: is the target equal, row by row?  Exit 1 if not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser

from replicator.errors import ConfigurationError, TidemarkError
from replicator.model.row_filter import RowFilter
from replicator.sources.registry import source_kind
from replicator.state.tables import HALTED, TableState
from replicator.verification import (
    OpenReader,
    Options,
    SelectionLine,
    TablePair,
    TableReport,
    absent_tables,
    compare,
)
from webapp.connections.models import Connection
from webapp.connections.selectors import full_config
from webapp.destinations.lakes import copy_config
from webapp.management.command import MetadataCommand
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, ReplicatorTable, Status
from webapp.replicators.targets import kind_of

if TYPE_CHECKING:
    from webapp.worker.store.copy_progress import CopyProgress

POLL_SECONDS = 1.0
AT_WORK = {Status.STARTING, Status.RUNNING, Status.RETRYING}


@dataclass(frozen=True)
class Notes:
    """What there is to say beside the tables' reports: by table; `dead_letters`: how many rows."""

    repaired: Sequence[str]
    skipped: Sequence[str]
    dead_letters: Mapping[str, int]
    absent: Sequence[str]

    def lines(self) -> Iterator[str]:
        """For people."""
        for name in self.skipped:
            yield f"{name} is skipped: its target table is not up to date and was not compared."
        for name, count in self.dead_letters.items():
            yield f"{name} has {count} dead-letter row{'' if count == 1 else 's'} missing in the target."
        for name in self.absent:
            yield f"{name}: NOT equal: the table exists in the source and is selected, but is not replicated."


class Command(MetadataCommand):
    """Exit codes: 0 equal, 1 not equal or not comparable, 2 wrong use."""

    help = "Compares every row of a replicator's source and target with independent readers."

    def add_arguments(self, parser: CommandParser) -> None:
        """The design's flags, and how patient to be."""
        parser.add_argument("name", help="the replicator")
        parser.add_argument(
            "--table", action="append", default=[], help="database.table (schema.table); may be repeated"
        )
        parser.add_argument("--repair", action="store_true", help="resnapshot tables that differ, then verify again")
        parser.add_argument("--json", action="store_true", help="one JSON object")
        parser.add_argument(
            "--wait",
            type=float,
            default=60,
            help="seconds to wait for changing rows to catch up, for all tables together",
        )
        parser.add_argument("--timeout", type=float, default=3600, help="seconds for the repair")
        parser.add_argument("--shown", type=int, default=20, help="differing rows shown per table")

    def handle(self, *args: Any, **options: Any) -> None:
        """Verify, repair if asked, say the outcome."""
        del args
        replicator = selectors.by_name(options["name"])
        if replicator is None:
            message = f"Unknown replicator {options['name']!r}."
            raise CommandError(message, returncode=2)
        try:
            tables, skipped = chosen(replicator, options["table"])
            reports = verify(replicator, tables, wait=options["wait"], shown=options["shown"])
            repaired = [t for t, report in zip(tables, reports, strict=True) if not report.equal]
            if options["repair"] and repaired:
                repair(replicator, repaired, options["timeout"])
                reports = verify(replicator, tables, wait=options["wait"], shown=options["shown"])
            absent = [] if options["table"] else not_taken(replicator, options["wait"])
        except TidemarkError as error:
            message = f"{error.message}\n{error.remedy}"
            raise CommandError(message, returncode=1) from None
        names = [str(t) for t in repaired] if options["repair"] else []
        dead_letters = {str(t): count for t in tables if (count := dead_letter_rows(t))}
        notes = Notes(names, [str(t) for t in skipped], dead_letters, absent)
        self._say(reports, notes, as_json=options["json"])
        if absent or not all(report.equal for report in reports):
            raise SystemExit(1)

    def _say(self, reports: Sequence[TableReport], notes: Notes, *, as_json: bool) -> None:
        if as_json:
            equal = all(report.equal for report in reports) and not notes.absent
            summary = {"equal": equal, "tables": [report.to_dict() for report in reports], **asdict(notes)}
            summary["parked"] = summary["dead_letters"]  # deprecated
            self.stdout.write(json.dumps(summary, indent=2))
            return
        for line in (*(line for report in reports for line in report.lines()), *notes.lines()):
            self.stdout.write(line)
        rows = sum(report.source_rows for report in reports)
        count = sum(report.equal for report in reports)
        self.stdout.write(f"{count} of {len(reports)} tables equal; {rows} row{'' if rows == 1 else 's'} compared.")


def dead_letter_rows(table: ReplicatorTable) -> int:
    """How many dead-letter rows it has by now."""
    return ReplicatorTable.objects.values_list("dead_letters", flat=True).get(pk=table.pk)


def chosen(replicator: Replicator, names: Sequence[str]) -> tuple[list[ReplicatorTable], list[ReplicatorTable]]:
    """Return the replicator's tables that the source still has, and those left out because a user skipped them.

    CommandError for a name that is not among them, or of a skipped one.
    """
    tables = [t for t in selectors.tables_of(replicator) if t.state != TableState.DROPPED.value]
    wanted, unknown = selectors.tables_called(replicator, tables, names)
    if unknown:
        message = f"{replicator.name} has no table {unknown[0]}."
        raise CommandError(message, returncode=2)
    skipped = [table for table in wanted if table.state == TableState.SKIPPED.value]
    if names and skipped:
        message = f"{skipped[0]} is skipped. Resume it before verification."
        raise CommandError(message, returncode=2)
    return [table for table in wanted if table not in skipped], skipped


def verify(replicator: Replicator, tables: Sequence[ReplicatorTable], *, wait: float, shown: int) -> list[TableReport]:
    """Reports in the order of `tables`.  ConfigurationError for a target that keeps changes and no rows."""
    kind = kind_of(replicator)
    if not kind.capabilities.verified:
        message = f"{replicator.name} writes to {kind.title}, which cannot be compared row by row."
        raise ConfigurationError(message, remedy=kind.compare or "Compare it with a program of your own.")
    retries = int(wait // Options.wait)
    options = Options(
        zero_dates="text" if replicator.parsed_options.zero_dates == "text" else "null",
        shown=shown,
        retries=retries,
        before_recheck=progress(replicator, tables).wait if retries else None,
        ignore_extra_columns=replicator.parsed_options.ddl_policy.get("drop_column") == "ignore",
    )
    return compare(
        source_reader(replicator.connection), copy_config(replicator.destination), pairs(replicator, tables), options
    )


def progress(replicator: Replicator, tables: Sequence[ReplicatorTable]) -> CopyProgress:
    """What ends looking again as soon as the journal proves that a difference stays."""
    from webapp.worker.store.copy_progress import CopyProgress  # noqa: PLC0415 - the sources, which not every run needs

    return CopyProgress(replicator, tables, Options.wait)


def not_taken(replicator: Replicator, wait: float) -> list[str]:
    """Tables that the selection takes and the replicator does not know, not even `wait` seconds later."""
    lines = [
        SelectionLine(
            one.database,
            one.table,
            one.excluded,
            one.pattern,
            None if one.new_tables or not one.discovered else one.found,
        )
        for one in replicator.selection.all()
    ]
    own = source_kind(replicator.connection.kind).own_databases(full_config(replicator.connection))

    def known() -> set[tuple[str, str]]:
        rows = selectors.tables_of(replicator).exclude(state=TableState.DROPPED.value)
        return set(rows.values_list("database", "name"))

    def absent() -> list[tuple[str, str]]:
        return absent_tables(source_reader(replicator.connection), lines, known(), own)

    found = absent()
    if found and replicator.status in AT_WORK and wait:
        progress(replicator, []).captured(wait)
        found = absent()
    return [f"{database}.{name}" for database, name in found]


def pairs(replicator: Replicator, tables: Sequence[ReplicatorTable]) -> list[TablePair]:
    """Keys come from the newest schema version: they only name rows, and decide nothing about equality."""
    taken = selectors.table_set(replicator)
    at_work = replicator.status in AT_WORK
    found = []
    for table in tables:
        still = not at_work or table.state in HALTED
        newest = table.schemas.order_by("-version").first()
        key = newest.parsed.key if newest else ()
        left_out = taken.columns_left_out(table.table_id)
        masks = {name: mask.to_dict() for name, mask in taken.masks.get(table.table_id, {}).items()}
        chosen = [
            {"column": one.column, "operator": one.operator.value, "values": [value.text for value in one.literals]}
            for one in taken.row_filters.get(table.table_id, RowFilter()).conditions
        ]
        computed = {name: one.to_dict() for name, one in taken.computed.of(table.table_id).items()}
        pair = TablePair(
            table.database, table.name, table.target_namespace, table.target_name, key, left_out,
            mode=table.mode, masks=masks, salt=taken.salt, row_filter=chosen, still=still,
            computed=computed, part=table.target.tenant,
        )  # fmt: skip
        found.append(pair)
    return found


def source_reader(connection: Connection) -> OpenReader:
    """What opens verification's own reader of a connection's source.  ConfigurationError where its kind has none."""
    kind = source_kind(connection.kind)
    if kind.verification_reader is None:
        raise ConfigurationError(f"Sources of the kind {kind.title} cannot be verified.")
    return partial(kind.verification_reader, full_config(connection))


def repair(replicator: Replicator, tables: Sequence[ReplicatorTable], timeout: float) -> None:
    """Snapshot these tables again and wait until they stream again; without workers this process does it."""
    for table in tables:
        services.resnapshot_table(table=table, reason="verification found differences")
    replicator.refresh_from_db()
    if replicator.status not in AT_WORK:
        call_command("run", replicator.name, until_current=True, timeout=timeout)
        return
    deadline = time.monotonic() + timeout
    ids, done = [table.pk for table in tables], {TableState.STREAMING.value, TableState.FAILED.value}
    while set(ReplicatorTable.objects.filter(pk__in=ids).values_list("state", flat=True)) - done:
        if time.monotonic() > deadline:
            message = f"The repair did not end within {timeout:g} s; it continues in the workers."
            raise CommandError(message, returncode=1)
        time.sleep(POLL_SECONDS)
