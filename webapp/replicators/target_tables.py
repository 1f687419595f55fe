"""The copy of a table as the target has it, read from the target itself on request."""

from __future__ import annotations

from replicator.errors import TidemarkError
from replicator.targets.iceberg.upkeep.readable_history import Readable, readable
from replicator.targets.kind import InspectedTable, Preview
from replicator.targets.registry import DEFAULT
from webapp.connections.selectors import full_config
from webapp.destinations.lakes import built_in_lake, lake_of
from webapp.replicators.models import ReplicatorTable
from webapp.replicators.targets import kind_of

PREVIEW_ROWS = 50


def target_report(table: ReplicatorTable) -> InspectedTable | None:
    """None where the target has no such table, or its kind cannot say.  Raises TargetError."""
    report = kind_of(table.replicator).report
    if report is None or not table.made_load:
        return None
    place = full_config(table.replicator.destination)
    return report(place, built_in_lake(), table.target_namespace, table.target_name)


def target_preview(table: ReplicatorTable) -> Preview | None:
    """As `target_report`."""
    preview = kind_of(table.replicator).preview
    if preview is None or not table.made_load:
        return None
    place = full_config(table.replicator.destination)
    return preview(place, built_in_lake(), table.target, PREVIEW_ROWS)


def sharing(table: ReplicatorTable) -> list[ReplicatorTable]:
    """The other tables that share its target table, by name; none where it has one for itself."""
    if not table.target_part:
        return []
    same = {"target_namespace": table.target_namespace, "target_name": table.target_name}
    rows = ReplicatorTable.objects.filter(replicator_id=table.replicator_id, **same)
    return list(rows.exclude(pk=table.pk).exclude(target_part="").order_by("database", "name"))


def past_of(table: ReplicatorTable) -> Readable | None:
    """Return how far back the table can be read, and how many bytes wait to be deleted.

    None where the target has no such table, is not a lake, or its catalog or its files cannot be read now.
    """
    from replicator.targets.iceberg import reading  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    destination = table.replicator.destination
    if not table.made_load or destination.kind != DEFAULT:
        return None
    try:
        with reading.opened(lake_of(destination)) as catalog:
            found = reading.table(catalog, table.target_namespace, table.target_name)
            return None if found is None else readable(found)
    except TidemarkError:
        return None
