"""Tables that were dropped or recreated: they wait in a separate namespace to be deleted (invariant 11).

The catalog has them under a name that says when they are due, so no list has to agree with it.  A catalog that is
restored to an earlier state has the table under its old name again, and nothing deletes it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from replicator.faults import reach
from replicator.model.retention import Retention
from replicator.targets.iceberg.jvm.session import guarded
from replicator.targets.iceberg.table.catalog import IcebergCatalog, IcebergTable
from replicator.targets.upkeep import delete_each, own_retention

_NAME = re.compile(r"(\d+)_[0-9a-f]{12}")


def drop(catalog: IcebergCatalog, table: IcebergTable, retention: Retention) -> None:
    """The table loses its name; its files stay for the grace.  TargetConflict where it is not as it was read."""
    catalog.drop(table, int(time.time() + own_retention(table.name, table.properties, retention).grace))


def due(names: Iterable[str], now: float) -> list[str]:
    """Names of dropped tables whose time has come.  now: seconds since 1970."""
    return [name for name in names if (found := _NAME.fullmatch(name)) and int(found[1]) <= now]


def delete_due(catalog: IcebergCatalog, now: float) -> int:
    """Delete the tables whose time has come, with their files; see `delete_each`."""

    def purge(name: str) -> bool:
        reach("garbage.dropped.before")
        with guarded():
            catalog.purge(name)
        return True

    return delete_each(due(catalog.dropped(), now), purge)
