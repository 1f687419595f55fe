"""Tables that were dropped: empty and marked in their own log until their folder may go (invariant 11).

A note in a folder of the location says where and when to look; the table's log decides.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from replicator.errors import TargetError
from replicator.faults import reach
from replicator.model.retention import Retention
from replicator.targets.base import TargetTable
from replicator.targets.delta.destination import DeltaStore
from replicator.targets.delta.failures import explained
from replicator.targets.delta.table import OpenTable, file_system, local_path
from replicator.targets.upkeep import delete_each, own_retention

NOTES = "~dropped"  # no namespace's folder is called so
PURGED = "tidemark.purged"  # the folder is being deleted
LOG = "_delta_log"
_NOTE = re.compile(r"(\d+)_[0-9a-f]{12}\.json")


def drop(store: DeltaStore, table: OpenTable, retention: Retention) -> None:
    """Delete the rows for readers of the newest version.  TargetConflict where the table is not as it was read.

    retention: the default, where the table has none.
    """
    own = own_retention(table.name, table.configuration, retention)
    table.drop(announce(store, table.name, own))


def announce(store: DeltaStore, name: TargetTable, retention: Retention) -> int:
    """Write the note, before the commit that it is of; when the folder may go, seconds since 1970."""
    due = int(time.time() + retention.grace) + 1
    files = _location(store)
    with explained(store):
        if urlsplit(store.location).scheme == "file":
            files.create_dir(NOTES)
        with files.open_output_stream(f"{NOTES}/{due}_{uuid.uuid4().hex[:12]}.json") as note:
            note.write(json.dumps([name.namespace, name.name]).encode())
    return due


def delete_due(store: DeltaStore, now: float) -> int:
    """Delete the folders of tables whose time has come; see `delete_each`."""
    files = _location(store)

    def delete(note: str) -> bool:
        with explained(store):
            with files.open_input_stream(note) as told:
                name = TargetTable(*json.loads(told.read()))
            deleted = _delete(store, name, now)
            files.delete_file(note)
        return deleted

    return delete_each(_due(store, files, now), delete)


def _delete(store: DeltaStore, name: TargetTable, now: float) -> bool:
    """Delete a table's folder.  False where the table does not exist, is not dropped (any more), or not long enough.

    The log's last entry is deleted last: as long as it exists, no worker creates a table in the folder.
    """
    try:
        table = OpenTable.load(store, name)
    except TargetError:
        table = None
        if not _is_half_gone(store, name):
            raise
    else:
        if table is None or not table.dropped or table.dropped > now:
            return False
        table.commit(table.position, numbers={PURGED: 1}, dropped=table.dropped)
    reach("garbage.dropped.before")
    uri = store.uri(name)
    files = file_system(store, uri)
    with explained(store):
        found = [one for one in files.get_file_info(pafs.FileSelector("", recursive=True)) if one.is_file]
        for one in sorted(found, key=lambda file: _late(file.path)):
            files.delete_file(one.path)
        above, _, last = uri.rpartition("/")
        file_system(store, above).delete_dir(last)
    return True


def _late(path: str) -> tuple[bool, bool, str]:
    """Data files first, then checkpoints, then the log in its order."""
    return LOG in path, path.endswith(".json"), path


def _is_half_gone(store: DeltaStore, name: TargetTable) -> bool:
    """Is there a log whose newest entry says that the folder is being deleted?"""
    files = file_system(store, store.uri(name))
    with explained(store):
        found = files.get_file_info(pafs.FileSelector(LOG, allow_not_found=True))
        entries = sorted(one.path for one in found if one.path.endswith(".json"))
        if not entries:
            return False
        with files.open_input_stream(entries[-1]) as entry:
            return PURGED in entry.read().decode()


def _due(store: DeltaStore, files: pafs.FileSystem, now: float) -> Iterable[str]:
    with explained(store):
        found = files.get_file_info(pafs.FileSelector(NOTES, allow_not_found=True))
    names = [(one.path, _NOTE.fullmatch(one.base_name)) for one in found]
    return sorted(path for path, name in names if name and int(name[1]) <= now)


def _location(store: DeltaStore) -> pafs.FileSystem:
    with explained(store):
        if urlsplit(store.location).scheme == "file":
            local_path(store.location).mkdir(parents=True, exist_ok=True)
    return file_system(store, store.location)
