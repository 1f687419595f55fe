"""The tables that a selection takes when capture first sees it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from django.db import transaction
from django.db.models import Q

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.sources.base import Source, TableInfo
from replicator.state.tables import HALTED, TableState
from webapp.monitoring.models import Stage
from webapp.replicators.models import Replicator, ReplicatorTable, SchemaVersion
from webapp.replicators.selection.assessment import selected_tables
from webapp.replicators.selection.entries import (
    PROTECTIONS,
    SelectionEntry,
    ensure_table,
    mode_of,
    modes_of,
    selected,
)
from webapp.replicators.selection.target_names import TargetName, target_of
from webapp.replicators.services.tables import replan
from webapp.worker.failure.failures import fail_table
from webapp.worker.store.table_lifecycle import carry_protections

PLACES = ("target_namespace", "target_name", "own_namespace", "own_name")


class TooEarly(Exception):
    """The source lacks a table with masks, a row filter or excluded columns, and the log has not reported its fate yet.
    Another table that the source shows may be that one under a new name (invariant 12).
    """


def discover(replicator: Replicator, source: Source, *, patient: bool = False) -> bool:
    """Make rows for the tables of lines that were not looked at yet; True where there were such lines.

    The plan's version changes, so that capture starts over with the new tables.  Where `patient`: TooEarly.
    """
    lines = list(replicator.selection.filter(discovered=False))
    if not lines:
        return False
    names = source.names()
    fresh = {names.name(line.database) for line in lines}
    # What an earlier version stored as it was typed leaves out and is left out under the source's name, too (invariant
    # 12).
    entries = [SelectionEntry.of(line) for line in replicator.selection.all() if names.name(line.database) in fresh]
    found = selected_tables(source.catalog(), names.selection(selected(entries)))
    # A table that is missing although its line was looked at before has left the source since: the log reports that.
    seen = {names.table(TableId(one.database, one.table)) for one in replicator.selection.filter(discovered=True)}
    found = {table: info for table, info in found.items() if info is not None or table not in seen}
    missing = [row for row in _protected(replicator, fresh) if found.get(row.table_id) is None]
    moved = _moved(replicator, source, missing, found) if missing else []
    followed = {row.table_id for row in missing if row.tracked and row.table_state not in HALTED}
    if patient and followed - {old for old, _ in moved}:
        raise TooEarly
    with transaction.atomic():
        still = replicator.selection.select_for_update().filter(pk__in=[line.pk for line in lines], discovered=False)
        if still.count() != len(lines):
            return False  # another worker, or the user, was quicker: what was found may be old
        carry_protections(replicator, moved)
        made = _make_rows(replicator, found)
        for table, info in sorted(found.items()):
            if table in made:
                continue
            row = make_row(replicator, table)
            if info is not None:
                if row.table_state is TableState.DROPPED:  # recreated while the log was not followed
                    ReplicatorTable.objects.filter(pk=row.pk).update(state=TableState.WAITING.value)
                ReplicatorTable.objects.filter(pk=row.pk, rows_estimate=None).update(rows_estimate=info.rows)
        for line in lines:
            if not line.new_tables:
                taken = names.selection(selected([replace(SelectionEntry.of(line), found=None)]))
                line.found = sorted(table.name for table in found if table in taken)
            line.discovered = True
            line.save(update_fields=["found", "discovered"])
        replan(replicator)
    return True


def _protected(replicator: Replicator, databases: Collection[str]) -> list[ReplicatorTable]:
    """Return tables, not dropped in the source as far as known, whose lines mask, filter or exclude something."""
    lines = [line for line in replicator.selection.all() if any(getattr(line, name) for name in PROTECTIONS)]
    names = {(line.database, line.table) for line in lines if line.database in databases}
    rows = ReplicatorTable.objects.filter(replicator=replicator).exclude(state=TableState.DROPPED.value)
    return [row for row in rows if (row.database, row.name) in names]


def _moved(
    replicator: Replicator,
    source: Source,
    missing: Sequence[ReplicatorTable],
    found: Mapping[TableId, TableInfo | None],
) -> list[tuple[TableId, TableId]]:
    """Old and new names of those that the source shows under another name, where it tells tables apart."""
    rows = ReplicatorTable.objects.filter(replicator=replicator)
    there = {TableId(*name) for name in rows.values_list("database", "name")}
    fresh = sorted(table for table, info in found.items() if info is not None and table not in there)
    newest = SchemaVersion.objects.filter(table__in=missing).order_by("table_id", "-version").distinct("table_id")
    versions = {version.table_id: version.parsed for version in newest}
    known = {row.table_id: version for row in missing if (version := versions.get(row.pk)) and version.identity}
    if not known or not fresh:
        return []
    described = source.catalog().describe(fresh).values()
    schemas = [schema for schema in described if isinstance(schema, TableSchema) and schema.identity]
    return [(table, new.table) for table, old in known.items() for new in schemas if not new.is_another(old)]


def _make_rows(replicator: Replicator, found: Mapping[TableId, TableInfo | None]) -> set[TableId]:
    """What `make_row` does, in a few statements, for those that are new and whose places in the target no row has;
    returns them.
    """
    rows = ReplicatorTable.objects.filter(replicator=replicator)
    there = {TableId(*name) for name in rows.values_list("database", "name")}
    places = {table: TargetName(*target_of(replicator, table)) for table in sorted(found) if table not in there}
    spaces = {place[0] for place in places.values()}
    near = ReplicatorTable.objects.filter(Q(target_namespace__in=spaces) | Q(own_namespace__in=spaces))
    shared = {TargetName(*place) for place in rows.exclude(target_part="").values_list(*PLACES[:2], "target_part")}
    near = near.exclude(~Q(target_part=""), replicator=replicator)
    taken = {place for both in near.values_list(*PLACES) for place in (both[:2], both[2:])}
    often, columns = Counter(places.values()), defaultdict[tuple[str, ...], set[str]](set)
    for one in (*places.values(), *shared):
        columns[one[:2]].add(one.column)  # tables that share one agree about it
    free = {
        table: place
        for table, place in places.items()
        if place[:2] not in taken and place not in shared and often[place] == len(columns[place[:2]]) == 1
    }
    modes = modes_of(replicator)
    fresh = [
        ReplicatorTable(
            replicator=replicator,
            database=table.database,
            name=table.name,
            target_namespace=namespace,
            target_name=name,
            target_part=part,
            mode=mode_of(replicator, table, modes),
            rows_estimate=info.rows if (info := found[table]) is not None else None,
        )
        for table, (namespace, name, part) in free.items()
    ]
    ReplicatorTable.objects.bulk_create(fresh, batch_size=500, ignore_conflicts=True)
    return set(free)


def make_row(replicator: Replicator, table: TableId) -> ReplicatorTable:
    """The table's row; where another replicator writes its target, it is made under a free name and FAILED."""
    try:
        with transaction.atomic():
            return ensure_table(replicator, table)
    except ConfigurationError as error:
        row, created = ReplicatorTable.objects.get_or_create(
            replicator=replicator,
            database=table.database,
            name=table.name,
            defaults={
                "target_namespace": f"{replicator.uid}.{table.database}",
                "target_name": table.name,
                "mode": mode_of(replicator, table),
                "state": TableState.WAITING.value,
            },
        )
        if created:
            fail_table(row, Stage.CAPTURE, error)
        return row
