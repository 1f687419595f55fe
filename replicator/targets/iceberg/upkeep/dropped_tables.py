"""Tables that were dropped, or made again: their folders wait to be deleted (invariant 11).

Each is named by one file of `<warehouse>/_dropped/`, written before the catalog forgets the table, so that a crash
leaves at worst the name of a folder that is in use, and the look at the catalog finds that out; so does one that was
restored from before.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Collection

from replicator.faults import reach
from replicator.model.retention import Retention
from replicator.staging.storage import Storage
from replicator.targets.iceberg.table.catalog import IcebergCatalog, IcebergTable
from replicator.targets.iceberg.upkeep.expiry import own_retention
from replicator.targets.iceberg.upkeep.readable_history import plain

FOLDER = "_dropped"  # no namespace's folder begins so (`naming.location`)
_NAME = re.compile(r"(\d+)\.[0-9a-f]{32}\.json")


def drop(catalog: IcebergCatalog, table: IcebergTable, retention: Retention) -> None:
    """The catalog forgets the table; its files stay for the grace.  TargetConflict where it is not as it was read."""
    due = int(time.time() + own_retention(table, retention).grace)
    uri = f"{catalog.pool.config.warehouse.rstrip('/')}/{FOLDER}/{due}.{uuid.uuid4().hex}.json"
    stream = table.handle.io().newOutputFile(uri).create()
    try:
        stream.write(bytearray(json.dumps({"location": table.metadata["location"]}).encode()))
    finally:
        stream.close()
    reach("apply.drop.listed")
    catalog.drop(table)


def delete_due(warehouse: Storage, named: Collection[str], now: float) -> int:
    """Delete the folders whose time has come; returns their number.  `named`: metadata files that a catalog names.

    now: seconds since 1970.  A folder goes before its name: whatever is interrupted is done again.
    """
    in_use, gone = {_plain(uri) for uri in named}, 0
    for info in warehouse.files(FOLDER):
        path = warehouse.path(info)
        found = _NAME.fullmatch(path.rpartition("/")[2])
        if found is None or int(found[1]) > now:
            continue
        location = _plain(json.loads(warehouse.read(path))["location"])
        if not any(uri.startswith(f"{location}/") for uri in in_use):
            parent, _, folder = location.rpartition("/")
            reach("garbage.dropped.before")
            Storage(f"{parent}{warehouse.query}").delete_tree(folder)
            gone += 1
        warehouse.delete(path)
    return gone


def _plain(uri: str) -> str:
    """One form of each location: Hadoop writes `file:/` and `s3a:`."""
    return plain(re.sub(r"^s3[an]:", "s3:", uri)).rstrip("/")
