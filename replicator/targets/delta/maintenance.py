"""Compaction of small files, and deletion of files that no version needs that can still be read (ADR 42)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from replicator.faults import reach
from replicator.model.retention import Retention
from replicator.targets.delta.failures import explained
from replicator.targets.delta.live_files import LiveFiles
from replicator.targets.delta.schema_update import retention_hours, retention_properties, set_properties
from replicator.targets.delta.table import DataFile, OpenTable
from replicator.targets.upkeep import own_retention

SMALL_FILE = 32 * 1024 * 1024
MAX_SMALL_FILES = 16
MAX_BYTES = 96 * 1024 * 1024  # of files read in one step: it delays the merges of its table
DELETION_SECONDS = 3600


@dataclass
class _Looked:
    """When this process last looked at what may be deleted of a table."""

    deletion: float = 0


_LOOKED: dict[str, _Looked] = {}


def maintain(table: OpenTable, retention: Retention) -> str:
    """A sentence of what was done; empty where nothing was due."""
    done = []
    if rewritten := _compact(table):
        reach("apply.compact.after")
        done.append(f"compacted {rewritten} files")
        table = _again(table)
    looked, now = _LOOKED.setdefault(table.uri, _Looked()), time.time()
    if now - looked.deletion > DELETION_SECONDS:
        looked.deletion = now
        own = own_retention(table.name, table.configuration, retention)
        wanted = retention_properties(own)
        if any(table.configuration.get(name) != value for name, value in wanted.items()):
            set_properties(table, wanted)
        if deleted := delete_unneeded(table, retention_hours(own)):
            done.append(f"deleted {deleted} unreferenced files")
    return f"{table.name}: {', '.join(done)}." if done else ""


def delete_unneeded(table: OpenTable, hours: int) -> int:
    """Files that no version of the last `hours` needs, those of writes that never were committed among them; their
    number.
    """
    with explained(table.store):
        found = table.delta.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        if not found:
            return 0
        reach("apply.delete.before")
        gone = table.delta.vacuum(
            hours,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
        )
    reach("apply.delete.after")
    return len(gone)


def _compact(table: OpenTable) -> int:
    """Combine small files; return how many there were.  The commit says that it changes no data."""
    chosen = _small(table.files())
    if not chosen:
        return 0
    files = LiveFiles(table, threading.Event())
    with files.discarded_on_failure():
        files.combine(chosen)
    files.commit(table.position, changes=False)
    return len(chosen)


def _small(files: Sequence[DataFile]) -> list[DataFile]:
    """The smallest ones, where there are many."""
    small = sorted((one for one in files if one.size < SMALL_FILE), key=lambda one: one.size)
    if len(small) <= MAX_SMALL_FILES:
        return []
    size = 0
    chosen: list[DataFile] = []
    for one in small:
        size += one.size
        if chosen and size > MAX_BYTES:
            break
        chosen.append(one)
    return chosen


def _again(table: OpenTable) -> OpenTable:
    found = OpenTable.load(table.store, table.name)
    if found is None:
        raise AssertionError(table.name)
    return found
