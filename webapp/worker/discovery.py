"""The tables that a selection takes when capture first sees it."""

from __future__ import annotations

from dataclasses import replace

from django.db import transaction

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.sources.base import Source
from replicator.state.tables import TableState
from webapp.monitoring.models import Stage
from webapp.replicators.assessment import selected_tables
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.selection import SelectionEntry, ensure_table, mode_of, selected
from webapp.replicators.table_services import replan
from webapp.worker.failures import fail_table


def discover(replicator: Replicator, source: Source) -> bool:
    """Make rows for the tables of lines that were not looked at yet; True where there were such lines.

    The plan's version changes, so that capture starts over with the new tables.
    """
    lines = list(replicator.selection.filter(discovered=False))
    if not lines:
        return False
    names = source.names()
    fresh = {names.name(line.database) for line in lines}
    # What an earlier version stored as it was typed leaves out and is left out under the source's name, too (invariant 12).
    entries = [SelectionEntry.of(line) for line in replicator.selection.all() if names.name(line.database) in fresh]
    found = selected_tables(source.catalog(), names.selection(selected(entries)))
    with transaction.atomic():
        still = replicator.selection.select_for_update().filter(pk__in=[line.pk for line in lines], discovered=False)
        if still.count() != len(lines):
            return False  # another worker, or the user, was quicker: what was found may be old
        for table, info in sorted(found.items()):
            row = make_row(replicator, table)
            if info is not None:
                if row.table_state is TableState.DROPPED:  # made again where nobody looked (in the log it would be met)
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
                "mode": lambda: mode_of(replicator, table),
                "state": TableState.WAITING.value,
            },
        )
        if created:
            fail_table(row, Stage.CAPTURE, error)
        return row
