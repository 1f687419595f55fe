"""How far back the copy of a table can be read in the target, and how many bytes wait to be deleted."""

from __future__ import annotations

from replicator.errors import TidemarkError
from replicator.targets.iceberg import reading
from replicator.targets.iceberg.upkeep.readable_history import Readable, readable
from replicator.targets.registry import DEFAULT
from webapp.destinations.lakes import lake_of
from webapp.replicators.models import ReplicatorTable


def past_of(table: ReplicatorTable) -> Readable | None:
    """None where the target has no such table, or is no lake, or its catalog or its files cannot be read now."""
    destination = table.replicator.destination
    if not table.made_load or destination.kind != DEFAULT:
        return None
    try:
        with reading.opened(lake_of(destination)) as catalog:
            found = reading.table(catalog, table.target_namespace, table.target_name)
            return None if found is None else readable(found)
    except TidemarkError:
        return None
