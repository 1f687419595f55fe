"""Expiry: older snapshots are thinned; their files wait (`waiting`)."""

from __future__ import annotations

from replicator.faults import reach
from replicator.model.retention import Retention
from replicator.targets.iceberg.table.catalog import STAGED, IcebergTable, Json, publish, without_snapshots
from replicator.targets.iceberg.table.position import depth
from replicator.targets.iceberg.upkeep import deletion_list, readable_history

CHECKED = "tidemark.orphans-checked"
RETENTION_STEPS, GRACE_HOURS = "tidemark.retention-steps", "tidemark.deletion-grace-hours"
# Each commit rewrites the manifests that name what it removes.  It merges manifests from three on; Iceberg's default is
# a hundred.  (Small merges: a third less of the JVM's time.)
MERGED_MANIFESTS = {"commit.manifest.min-count-to-merge": "3"}
# Keep Iceberg from deleting metadata files after each commit, down to this number.
METADATA_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "false",
    "write.metadata.previous-versions-max": "100",
}


def expire(table: IcebergTable, retention: Retention, now: float) -> int:
    """Expire snapshots; return their number.  Raises TargetConflict where `table` has had a commit since it was read.

    The list of what waits is written before; a crash between the two leaves a list of snapshots that are there.
    """
    gone = expirable(table, retention, now)
    lacking = {key: value for key, value in METADATA_PROPERTIES.items() if table.properties.get(key) != value}
    lacking |= {key: value for key, value in MERGED_MANIFESTS.items() if key not in table.properties}
    if CHECKED not in table.properties:
        lacking[CHECKED] = str(int(now))
    if not gone and not lacking:
        return 0
    snapshots = table.whole.get("snapshots", [])
    listed = [s for s in snapshots if s["snapshot-id"] in gone]
    older = [one["metadata-file"] for one in table.whole.get("metadata-log", ())]
    if older:
        deletion_list.write(table, readable_history.METADATA, older)
    if listed:
        deletion_list.write(table, readable_history.SNAPSHOTS, listed, deletion_list.expired_sizes(snapshots, gone))
    reach("apply.expire.listed")
    publish(table, without_snapshots(table, gone, lacking))
    reach("apply.expire.after")
    return len(gone)


def expirable(table: IcebergTable, retention: Retention, now: float) -> set[int]:
    """Ids of snapshots that go: thinned out, or written by a stale worker and never made current.

    What a tag or a branch names stays, with all of a branch; so does the snapshot that says the position (invariant 3).
    """
    snapshots: list[Json] = table.whole.get("snapshots", [])
    by_id = {int(s["snapshot-id"]): s for s in snapshots}
    recent = _ancestors(by_id, table.snapshot)
    named: set[int] = set()
    for name, ref in table.whole.get("refs", {}).items():
        named |= (
            {ref["snapshot-id"]}
            if name == "main" or ref["type"] == "tag"
            else set(_ancestors(by_id, ref["snapshot-id"]))
        )
    named |= set(recent[: depth(table)])
    stray = _stray(snapshots, recent, table.snapshot) - named
    series = [(one, s["timestamp-ms"] / 1000) for one, s in by_id.items() if one not in stray]
    return set(by_id) - named - retention.thinned(series, now)


def _ancestors(by_id: dict[int, Json], at: int | None) -> list[int]:
    """From this one back to where one was thinned out."""
    found = []
    while at is not None and at in by_id:
        found.append(at)
        at = by_id[at].get("parent-snapshot-id")
    return found


def _stray(snapshots: list[Json], recent: list[int], current: int | None) -> set[int]:
    """Staged for a state that has passed, since which no snapshot was thinned out: nothing can make them current."""
    if not recent:
        return set()
    ours = set(recent)
    first = next(s["sequence-number"] for s in snapshots if s["snapshot-id"] == recent[-1])
    return {
        s["snapshot-id"]
        for s in snapshots
        if STAGED in s.get("summary", {})
        and s["snapshot-id"] not in ours
        and s["sequence-number"] > first
        and s.get("parent-snapshot-id") != current
    }
