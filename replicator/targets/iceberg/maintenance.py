"""Compaction, expiry and orphans: done when counts say so; looking costs one metadata read."""

from __future__ import annotations

import time

from replicator.faults import reach
from replicator.merge.changes import quoted
from replicator.merge.session import CATALOG
from replicator.targets.iceberg.catalog import LakeCatalog, LakeTable
from replicator.targets.iceberg.files import lake_files
from replicator.targets.iceberg.naming import sql_string
from replicator.targets.iceberg.plan import Unreadable, planned
from replicator.targets.iceberg.position import depth
from replicator.targets.iceberg.rewrite import chosen, rewrite

TARGET_FILE = 128 * 1024 * 1024
MAX_DELETE_FILES = 60  # more than one to a data file: direct merges make one, Spark's several
MAX_DELETED_SHARE = 0.2
MIN_DELETES = 5_000
SPARKS_DELETED_SHARE = 0.5
SPARKS_MIN_DELETES = 50_000
SMALL_FILES = 16
MAX_SMALL_FILES = 60
KEEP_SNAPSHOTS = 20
MAX_SNAPSHOTS = 60
ORPHANS_EVERY = 7 * 24 * 3600
ORPHAN_AGE_MS = 3 * 24 * 3600 * 1000
CHECKED = "tidemark.orphans-checked"


def maintain(catalog: LakeCatalog, table: LakeTable, *, reloading: bool = False) -> str:
    """A sentence of what was done; empty where nothing was due.  reloading: see `Target`."""
    done = []
    if rewritten := _compacted(catalog, table, reloading=reloading):
        reach("apply.compact.after")
        done.append(f"compacted {rewritten} file{'' if rewritten == 1 else 's'}")
        table = catalog.require(table.name)
    if len(table.metadata.get("snapshots", [])) > MAX_SNAPSHOTS:
        done.append(f"expired {_expire(catalog, table)} snapshots")
    if _orphans_due(table):
        _remove_orphans(catalog, table)
        done.append("looked for orphaned files")
    return f"{table.name}: {', '.join(done)}." if done else ""


def _compacted(catalog: LakeCatalog, table: LakeTable, *, reloading: bool) -> int:
    """Number of files that were rewritten: a bounded number of bytes without Spark, or all by Spark where that cannot keep up."""
    if table.snapshot is None:
        return 0
    files = lake_files(catalog.pool.config.warehouse)
    if _compaction_due(table, alone=files is None, reloading=reloading):
        return _compact(catalog, table)
    worn = not reloading and _deleted(table, MIN_DELETES, MAX_DELETED_SHARE)
    if files is None or not (worn or _small_files(table) > SMALL_FILES):
        return 0
    try:
        found = chosen(planned(table), SMALL_FILES, worn=worn)
    except Unreadable:
        return 0  # another's files: Spark's turn comes
    if found:
        rewrite(files, table, found)
    return len(found)


def _small_files(table: LakeTable) -> int:
    return table.total("data-files") - table.total("files-size") // TARGET_FILE


def _deleted(table: LakeTable, least: int, share: float) -> bool:
    return table.total("position-deletes") > max(least, table.total("records") * share)


def _compaction_due(table: LakeTable, *, alone: bool, reloading: bool) -> bool:
    """By Spark.  Deletes are read again by every reader, and small files are opened by every reader.

    alone: there is no other compaction than Spark's.
    """
    share = MAX_DELETED_SHARE if alone else SPARKS_DELETED_SHARE
    many = table.total("delete-files") - table.total("data-files") > MAX_DELETE_FILES
    worn = not reloading and _deleted(table, SPARKS_MIN_DELETES, share)
    return many or worn or _small_files(table) > MAX_SMALL_FILES


def _compact(catalog: LakeCatalog, table: LakeTable) -> int:
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


def _expire(catalog: LakeCatalog, table: LakeTable) -> int:
    """The snapshot that says the position stays, however many compactions came after it (invariant 3).

    Also removes what stale workers staged and did not publish.
    """
    before = len(table.metadata["snapshots"])
    keep = max(KEEP_SNAPSHOTS, depth(table) + 1)
    now = int(time.time() * 1000)
    table.handle.expireSnapshots().expireOlderThan(now).retainLast(keep).cleanExpiredFiles(True).commit()  # noqa: FBT003
    return before - len(catalog.require(table.name).metadata["snapshots"])


def _orphans_due(table: LakeTable) -> bool:
    """Counted from the table's birth or the last look."""
    snapshots = table.metadata.get("snapshots", [])
    if not snapshots:
        return False
    since = int(table.properties.get(CHECKED, snapshots[0]["timestamp-ms"] // 1000))
    return time.time() - since > ORPHANS_EVERY


def _remove_orphans(catalog: LakeCatalog, table: LakeTable) -> None:
    """Files of writes that never were committed, three days old at least: a write takes minutes."""
    older = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - ORPHAN_AGE_MS / 1000))
    listed = ", prefix_listing => true" if catalog.pool.config.warehouse.startswith("s3://") else ""  # not by Hadoop
    arguments = f"older_than => TIMESTAMP {sql_string(older)}{listed}"
    with catalog.session({}) as spark:
        spark.sql(_call("remove_orphan_files", table, arguments)).collect()
    table.handle.updateProperties().set(CHECKED, str(int(time.time()))).commit()


def _call(procedure: str, table: LakeTable, arguments: str) -> str:
    name = f"{quoted(table.name.namespace)}.{quoted(table.name.name)}"
    return f"CALL {CATALOG}.system.{procedure}(table => {sql_string(name)}, {arguments})"
