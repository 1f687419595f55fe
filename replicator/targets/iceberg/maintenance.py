"""Compaction, expiry and orphans: done when counts say so; looking costs one metadata read."""

from __future__ import annotations

import time

from replicator.faults import reach
from replicator.merge.changes import quoted
from replicator.merge.session import CATALOG
from replicator.targets.iceberg.catalog import LakeCatalog, LakeTable
from replicator.targets.iceberg.naming import sql_string
from replicator.targets.iceberg.position import depth

TARGET_FILE = 128 * 1024 * 1024
MAX_DELETE_FILES = 60
MAX_DELETED_SHARE = 0.2
MIN_DELETES = 50_000
MAX_SMALL_FILES = 60
KEEP_SNAPSHOTS = 20
MAX_SNAPSHOTS = 60
ORPHANS_EVERY = 7 * 24 * 3600
ORPHAN_AGE_MS = 3 * 24 * 3600 * 1000
CHECKED = "tidemark.orphans-checked"


def maintain(catalog: LakeCatalog, table: LakeTable) -> str:
    """A sentence of what was done; empty where nothing was due."""
    done = []
    if _compaction_due(table):
        rewritten = _compact(catalog, table)
        reach("apply.compact.after")
        done.append(f"compacted {rewritten} files")
        table = catalog.require(table.name)
    if len(table.metadata.get("snapshots", [])) > MAX_SNAPSHOTS:
        done.append(f"expired {_expire(catalog, table)} snapshots")
    if _orphans_due(table):
        _remove_orphans(catalog, table)
        done.append("looked for orphaned files")
    return f"{table.name}: {', '.join(done)}." if done else ""


def _compaction_due(table: LakeTable) -> bool:
    """Deletes are read again by every reader, and small files are opened by every reader."""
    if table.snapshot is None:
        return False
    files, rows = table.total("data-files"), table.total("records")
    if table.total("delete-files") > MAX_DELETE_FILES or table.total("position-deletes") > max(
        MIN_DELETES, rows * MAX_DELETED_SHARE
    ):
        return True
    return files - table.total("files-size") // TARGET_FILE > MAX_SMALL_FILES


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
    with catalog.pool.session({}) as spark:
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
    with catalog.pool.session({}) as spark:
        spark.sql(_call("remove_orphan_files", table, f"older_than => TIMESTAMP {sql_string(older)}")).collect()
    table.handle.updateProperties().set(CHECKED, str(int(time.time()))).commit()


def _call(procedure: str, table: LakeTable, arguments: str) -> str:
    name = f"{quoted(table.name.namespace)}.{quoted(table.name.name)}"
    return f"CALL {CATALOG}.system.{procedure}(table => {sql_string(name)}, {arguments})"
