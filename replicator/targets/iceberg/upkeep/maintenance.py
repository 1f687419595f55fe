"""Compaction, expiry and orphans: done when counts say so; looking costs one metadata read."""

from __future__ import annotations

import time
from dataclasses import dataclass

from replicator.faults import reach
from replicator.model.retention import Retention
from replicator.targets.iceberg.destination import CATALOG
from replicator.targets.iceberg.direct.compaction import chosen, rewrite, small_by_partition
from replicator.targets.iceberg.direct.data_files import LakeFiles, Unreadable, lake_files
from replicator.targets.iceberg.direct.scan_plan import planned
from replicator.targets.iceberg.table.catalog import IcebergCatalog, IcebergTable
from replicator.targets.iceberg.table.naming import quoted, sql_string
from replicator.targets.iceberg.upkeep import deletion_list, readable_history
from replicator.targets.iceberg.upkeep.expiry import CHECKED, expire
from replicator.targets.upkeep import own_retention

TARGET_FILE = 128 * 1024 * 1024
MAX_DELETE_FILES = 60  # more than one to a data file: direct merges make one, Spark's several
MAX_DELETED_SHARE = 0.2
MIN_DELETES = 5_000
SPARKS_DELETED_SHARE = 0.5
SPARKS_MIN_DELETES = 50_000
SMALL_FILES = 16
MAX_SMALL_FILES = 60
NEW_SNAPSHOTS = 60  # expiry is due after this number
EXPIRY_SECONDS = 600  # or after this time
DELETION_SECONDS = 3600  # between deletions; the grace where it is shorter, but at least EXPIRY_SECONDS
ORPHANS_EVERY = 7 * 24 * 3600
ORPHAN_AGE_MS = 3 * 24 * 3600 * 1000


@dataclass
class _Looked:
    """When this process last looked at a table, how many snapshots expiry left, and how many small files compaction
    left, of one that is partitioned.
    """

    expiry: float = 0
    deletion: float = 0
    snapshots: int = 0
    small_files: int = 0


_LOOKED: dict[str, _Looked] = {}


def maintain(catalog: IcebergCatalog, table: IcebergTable, retention: Retention, *, busy: bool = False) -> str:
    """A sentence of what was done; empty where nothing was due.  busy: see `Target`."""
    done = []
    if rewritten := _compacted(catalog, table, busy=busy):
        reach("apply.compact.after")
        done.append(f"compacted {rewritten} file{'' if rewritten == 1 else 's'}")
        table = catalog.require(table.name)
    retention = own_retention(table.name, table.properties, retention)
    looked, now = _LOOKED.setdefault(table.uuid, _Looked()), time.time()
    if table.snapshots >= looked.snapshots + NEW_SNAPSHOTS or now - looked.expiry > EXPIRY_SECONDS:
        looked.expiry, expired = now, expire(table, retention, now)
        if expired:
            done.append(f"expired {expired} snapshots")
        table = catalog.require(table.name)
        looked.snapshots = table.snapshots
    if now - looked.deletion > min(DELETION_SECONDS, max(EXPIRY_SECONDS, retention.grace)):
        looked.deletion = now
        done += _deleted_files(table, retention, now)
    if _orphans_due(table):
        done += _list_orphans(catalog, table)
    return f"{table.name}: {', '.join(done)}." if done else ""


def _deleted_files(table: IcebergTable, retention: Retention, now: float) -> list[str]:
    lists = deletion_list.lists(table)
    if deletion_list.behind(table, lists):
        return ["the catalog points to an older state than the table's folder, so no file is deleted"]
    deleted = deletion_list.delete_due(table, lists, retention.grace, now)
    return [f"deleted {deleted} unreferenced files"] if deleted else []


def _compacted(catalog: IcebergCatalog, table: IcebergTable, *, busy: bool) -> int:
    """Number of files that were rewritten: a bounded number of bytes without Spark, or all by Spark where that cannot
    keep up.
    """
    if table.snapshot is None:
        return 0
    files = lake_files(table)
    looked = _LOOKED.setdefault(table.uuid, _Looked())
    if _compaction_due(table, alone=files is None, busy=busy):
        return _compact(catalog, table)
    if files is None:
        return _compact_many(catalog, table, looked)
    worn = not busy and _deleted(table, MIN_DELETES, MAX_DELETED_SHARE)
    # Of a table that is far behind, to put them together is a third of what its merges take: as late as may be.
    if worn or _many_small_files(table, looked, MAX_SMALL_FILES * 4 // 5 if busy else SMALL_FILES):
        return _compact_some(catalog, table, files, looked, worn=worn)
    return 0


def _compact_some(
    catalog: IcebergCatalog, table: IcebergTable, files: LakeFiles, looked: _Looked, *, worn: bool
) -> int:
    try:
        plan = planned(table)
        fullest = next(iter(small_by_partition(plan)), [])
        if len(fullest) > MAX_SMALL_FILES:
            return _compact(catalog, table)
        found = chosen(plan, SMALL_FILES, worn=worn)
        if found:
            rewrite(files, table, found)
    except Unreadable:  # another's files
        return _compact_many(catalog, table, looked)
    looked.small_files = _small_files(table) if _partitioned(table) and not found else 0
    return len(found)


def _compact_many(catalog: IcebergCatalog, table: IcebergTable, looked: _Looked) -> int:
    """By Spark, where small files have become many."""
    if not _many_small_files(table, looked, MAX_SMALL_FILES):
        return 0
    done = _compact(catalog, table)
    looked.small_files = _small_files(catalog.again(table)) if _partitioned(table) else 0
    return done


def _many_small_files(table: IcebergTable, looked: _Looked, most: int) -> bool:
    """Each partition may have some, so that only new ones count there; of thousands not every merge is looked at."""
    return _small_files(table) > looked.small_files + max(most, looked.small_files // 10)


def _small_files(table: IcebergTable) -> int:
    return table.total("data-files") - table.total("files-size") // TARGET_FILE


def _partitioned(table: IcebergTable) -> bool:
    return any(spec["fields"] for spec in table.metadata["partition-specs"])


def _deleted(table: IcebergTable, least: int, share: float) -> bool:
    return table.total("position-deletes") > max(least, table.total("records") * share)


def _compaction_due(table: IcebergTable, *, alone: bool, busy: bool) -> bool:
    """Is compaction by Spark due?  Every reader re-reads the deletes and opens all small files.

    alone: there is no other compaction than Spark's.
    """
    share = MAX_DELETED_SHARE if alone else SPARKS_DELETED_SHARE
    many = table.total("delete-files") - table.total("data-files") > MAX_DELETE_FILES
    worn = not busy and _deleted(table, SPARKS_MIN_DELETES, share)
    return many or worn or (not _partitioned(table) and _small_files(table) > MAX_SMALL_FILES)


def _compact(catalog: IcebergCatalog, table: IcebergTable) -> int:
    """Its snapshot carries no position; `position` searches past it."""
    options = {
        "target-file-size-bytes": str(TARGET_FILE),
        "min-input-files": "5",
        "delete-file-threshold": "1",
        "remove-dangling-deletes": "true",
        "max-concurrent-file-group-rewrites": "2",
    }
    pairs = ", ".join(f"{sql_string(key)}, {sql_string(value)}" for key, value in options.items())
    with catalog.session({}) as spark:
        row = spark.sql(_call("rewrite_data_files", table, f"options => map({pairs})")).collect()[0]
    return int(row["rewritten_data_files_count"])


def _orphans_due(table: IcebergTable) -> bool:
    """Counted from the table's birth or the last look."""
    return CHECKED in table.properties and time.time() - int(table.properties[CHECKED]) > ORPHANS_EVERY


def _list_orphans(catalog: IcebergCatalog, table: IcebergTable) -> list[str]:
    """Files of writes that never were committed, three days old at least: a write takes minutes.

    Files that wait to be deleted are among them.  They wait once more, so that none goes before its grace is over.
    """
    if deletion_list.behind(table, deletion_list.lists(table)):
        return []
    older = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - ORPHAN_AGE_MS / 1000))
    listed = (
        ", prefix_listing => true" if not table.metadata["location"].startswith(("file:", "hdfs:")) else ""
    )  # not by Hadoop
    arguments = f"older_than => TIMESTAMP {sql_string(older)}, dry_run => true{listed}"
    with catalog.session({}) as spark:
        rows = spark.sql(_call("remove_orphan_files", table, arguments)).collect()
    folder = f"/{readable_history.FOLDER}/"
    if paths := [row[0] for row in rows if folder not in row[0]]:
        deletion_list.write(table, readable_history.PATHS, paths)
    table.handle.updateProperties().set(CHECKED, str(int(time.time()))).commit()
    return ["looked for orphaned files"]


def _call(procedure: str, table: IcebergTable, arguments: str) -> str:
    name = f"{quoted(table.name.namespace)}.{quoted(table.name.name)}"
    return f"CALL {CATALOG}.system.{procedure}(table => {sql_string(name)}, {arguments})"
