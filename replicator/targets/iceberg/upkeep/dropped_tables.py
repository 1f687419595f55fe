"""Tables that were dropped, or made again: they wait in a namespace of their own to be deleted (invariant 11).

The catalog has them under a name that says when they are due, so no list has to agree with it: a catalog that is
restored from before has the table under its old name again, and nothing deletes it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable

from replicator.errors import TargetError
from replicator.faults import reach
from replicator.model.retention import Retention
from replicator.targets.iceberg.jvm.session import guarded
from replicator.targets.iceberg.table.catalog import IcebergCatalog, IcebergTable
from replicator.targets.iceberg.upkeep.expiry import own_retention

LOGGER = logging.getLogger("tidemark.upkeep")
_NAME = re.compile(r"(\d+)_[0-9a-f]{12}")


def drop(catalog: IcebergCatalog, table: IcebergTable, retention: Retention) -> None:
    """The table loses its name; its files stay for the grace.  TargetConflict where it is not as it was read."""
    catalog.drop(table, int(time.time() + own_retention(table, retention).grace))


def due(names: Iterable[str], now: float) -> list[str]:
    """Names of dropped tables whose time has come.  now: seconds since 1970."""
    return [name for name in names if (found := _NAME.fullmatch(name)) and int(found[1]) <= now]


def delete_due(catalog: IcebergCatalog, now: float) -> int:
    """Delete the tables whose time has come, with their files; returns their number.

    One that cannot be deleted, as its files are in a store of before, stays, and keeps no other from it.  Raises
    TargetError where none can.
    """
    deleted, failure = 0, None
    for name in due(catalog.dropped(), now):
        reach("garbage.dropped.before")
        try:
            with guarded():
                catalog.purge(name)
        except TargetError as error:
            failure = error
            LOGGER.warning("The dropped table %s stays for now: %s", name, error.message)
        else:
            deleted += 1
    if failure and not deleted:
        raise failure
    return deleted
