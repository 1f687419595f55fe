"""Readers keep their files (invariant 11): expiry thins, deletion waits, and a crash at any edge deletes nothing that
is needed.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import DataScan

from replicator import faults
from replicator.errors import ConfigurationError, ValuesLost
from replicator.faults import Fault, FaultInjected
from replicator.model.retention import Retention
from replicator.targets.base import Create, Drop, Merge, Position, TargetTable
from replicator.targets.iceberg.direct import compaction
from replicator.targets.iceberg.direct.data_files import lake_files
from replicator.targets.iceberg.direct.scan_plan import planned as planned_files
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.target import IcebergTarget
from replicator.targets.iceberg.upkeep import deletion_list, dropped_tables, expiry, maintenance, readable_history
from replicator.targets.upkeep import GRACE_HOURS, RETENTION_STEPS, own_retention
from tests.integration.spark.lake import Lake
from tests.staged import insert, schema_of, update

KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
RETENTION = Retention.parse()
DAY = 86_400
MERGES = 150
NOW = time.time() + 3 * 3600  # as if the snapshots of a test were made hours ago, all in one


@pytest.fixture(autouse=True)
def _unarmed() -> Iterator[None]:
    yield
    faults.disarm()


def changed(lake: Lake, count: int, table: TargetTable | None = None, first: int = 0) -> TargetTable:
    """A table of ten rows, all of which each merge replaces."""
    if table is None:
        table = lake.table(KEYED)
        lake.merge(table, KEYED, *[insert(first + n, n, "x") for n in range(10)])
        first += 10
    for n in range(count):
        changes = [update(first + 10 * n + key, (key, "?"), (key, f"{first}-{n}")) for key in range(10)]
        lake.merge(table, KEYED, *changes)
    return table


def loaded(lake: Lake, table: TargetTable) -> IcebergTable:
    return lake.target._catalog.require(table)


def files(lake: Lake, table: TargetTable) -> set[str]:
    folder = Path(loaded(lake, table).metadata["location"].removeprefix("file:"))
    return {str(file) for file in folder.rglob("*") if file.is_file()}


def planned(lake: Lake, table: TargetTable) -> tuple[DataScan, list[Any]]:
    scan = lake.reader().load_table((table.namespace, table.name)).scan()
    return scan, list(scan.plan_files())


def finished(plan: tuple[DataScan, list[Any]]) -> list[tuple[Any, ...]]:
    scan, tasks = plan
    data = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter).to_table(tasks)
    return sorted(zip(*(data.column(name).to_pylist() for name in ("id", "v")), strict=True))


def deleted(lake: Lake, table: TargetTable, now: float, retention: Retention = RETENTION) -> int:
    found = loaded(lake, table)
    return deletion_list.delete_due(found, deletion_list.lists(found), retention.grace, now)


def test_expiry_deletes_nothing_and_the_grace_deletes_what_no_snapshot_needs(lake: Lake) -> None:
    table = changed(lake, 12)
    plan, before = planned(lake, table), files(lake, table)
    expected = finished(plan)
    changed(lake, 3, table, first=500)
    assert expiry.expire(loaded(lake, table), RETENTION, NOW) >= 14
    assert len(loaded(lake, table).whole["snapshots"]) <= 2
    assert before <= files(lake, table)
    assert deleted(lake, table, NOW + 2) == 0
    assert finished(plan) == expected
    assert deleted(lake, table, time.time() + DAY + 60) > 30
    left = files(lake, table)
    assert not [file for file in left if f"/{readable_history.FOLDER}/" in file]
    assert len([file for file in left if file.endswith((".parquet", ".avro"))]) <= 8
    assert sorted(lake.rows(table)) == [(key, "500-2") for key in range(10)]
    changed(lake, 1, table, first=700)
    assert sorted(lake.rows(table)) == [(key, "700-0") for key in range(10)]


def test_a_tag_a_branch_and_the_position_stay(lake: Lake) -> None:
    table = changed(lake, 6)
    ids = [s["snapshot-id"] for s in loaded(lake, table).whole["snapshots"]]
    manage = loaded(lake, table).handle.manageSnapshots()
    manage.createTag("kept", ids[1]).createBranch("side", ids[3]).commit()
    position = lake.target.position(table)
    for _ in range(2):  # as compactions: without a position
        loaded(lake, table).handle.newFastAppend().commit()
    assert expiry.expire(loaded(lake, table), RETENTION, NOW + 30 * DAY) == 2  # the branch keeps all before it
    left = [s["snapshot-id"] for s in loaded(lake, table).whole["snapshots"]]
    assert left[:4] == ids[:4]
    assert len(left) == 4 + 3
    assert lake.target.position(table) == position
    deleted(lake, table, NOW + 60 * DAY)
    reader = lake.reader().load_table((table.namespace, table.name))
    assert reader.scan(snapshot_id=ids[1]).to_arrow().num_rows == 10
    assert reader.scan(snapshot_id=ids[3]).to_arrow().num_rows == 10
    assert min(lake.rows(table)) == (0, "10-5")


@pytest.mark.parametrize("point", ["apply.expire.listed", "apply.expire.after"])
def test_a_crash_at_an_edge_of_expiry_keeps_what_is_needed(lake: Lake, point: str) -> None:
    table = changed(lake, 8)
    faults.arm([Fault(point, "fail")])
    with pytest.raises(FaultInjected):
        expiry.expire(loaded(lake, table), RETENTION, NOW)
    snapshots = loaded(lake, table).whole["snapshots"]
    assert (len(snapshots) == 9) is (point == "apply.expire.listed")
    changed(lake, 1, table, first=500)
    deleted(lake, table, NOW + 2 * DAY)
    reader = lake.reader().load_table((table.namespace, table.name))
    for snapshot in snapshots:  # the list of the lost commit has made nothing go
        assert reader.scan(snapshot_id=snapshot["snapshot-id"]).to_arrow().num_rows == 10
    expiry.expire(loaded(lake, table), RETENTION, NOW)
    deleted(lake, table, NOW + 2 * DAY)
    assert len([file for file in files(lake, table) if file.endswith(".parquet")]) <= 3
    assert len(lake.rows(table)) == 10


@pytest.mark.parametrize("point", ["apply.delete.before", "apply.delete.between", "apply.delete.after"])
def test_a_crash_at_an_edge_of_deletion_is_done_again(lake: Lake, point: str) -> None:
    table = changed(lake, 8)
    expiry.expire(loaded(lake, table), RETENTION, NOW)
    for hit in (1, 2):
        faults.arm([Fault(point, "fail", hit)])
        try:
            deleted(lake, table, NOW + 2 * DAY)
        except FaultInjected:
            assert len(lake.rows(table)) == 10
    faults.disarm()
    deleted(lake, table, NOW + 2 * DAY)
    left = files(lake, table)
    assert not [file for file in left if f"/{readable_history.FOLDER}/" in file]
    assert len([file for file in left if file.endswith((".parquet", ".avro"))]) <= 8
    assert len(lake.rows(table)) == 10


def test_a_catalog_that_is_behind_makes_nothing_go(lake: Lake) -> None:
    """The metadata database was restored from before: what it does not know may be needed, and is found in the
    folder.
    """
    table = changed(lake, 4)
    with lake.catalog_at(table) as restore:
        changed(lake, 6, table, first=500)
        expiry.expire(loaded(lake, table), RETENTION, NOW)
        newest = loaded(lake, table).base.metadataFileLocation()
        rows = sorted(lake.rows(table))
        restore()
        before = files(lake, table)
        behind = loaded(lake, table)
        assert deletion_list.behind(behind, deletion_list.lists(behind))
        assert deleted(lake, table, NOW + 9 * DAY) == 0
        assert files(lake, table) == before
        assert "points to an older state" in lake.target.maintain(table)
        named = behind.base.metadataFileLocation()
        assert readable_history.plain(readable_history.newest_metadata(named, {}) or "") == readable_history.plain(
            newest
        )
    assert sorted(lake.rows(table)) == rows


@pytest.mark.parametrize("left", ["newer ones", "nothing"])
def test_a_catalog_whose_metadata_file_is_gone_names_the_newest_or_forgets_the_table(lake: Lake, left: str) -> None:
    """A database restored from longer ago than metadata files stay; by a process that knew the table, and by one that
    did not.
    """
    table = changed(lake, 2)
    with lake.catalog_at(table) as restore:
        old = loaded(lake, table).base.metadataFileLocation()
        changed(lake, 2, table, first=500)
        rows = sorted(lake.rows(table))
        restore()
        folder = Path(old.removeprefix("file:"))
        folder.unlink()
        if left == "nothing":
            for file in folder.parent.iterdir():
                file.unlink()
        restore()
        for target in (lake.target, lake.another_worker()):
            if left == "nothing":  # gone, with its rows: what that means for it, its mode decides
                assert target.position(table) is None
                continue
            restore()
            with pytest.raises(ValuesLost, match=r"restored metadata database\. The table is resnapshotted"):
                target.position(table)
            assert sorted(lake.rows(table)) == rows
        lake.target.apply(table, Create(KEYED, 1, -1, "L2"))
        assert lake.target.position(table) == Position(-1, -1, 1, "L2")


def test_old_metadata_files_go_after_an_hour_and_the_newest_never(lake: Lake) -> None:
    table = changed(lake, 8)
    expiry.expire(loaded(lake, table), RETENTION, NOW)
    changed(lake, 2, table, first=500)
    named = lambda: [file for file in files(lake, table) if file.endswith(".metadata.json")]
    assert len(named()) == 1 + 1 + 8 + 1 + 2
    found = loaded(lake, table)
    log = found.handle.updateProperties().set("write.metadata.previous-versions-max", "1")
    log.commit()
    deleted(lake, table, time.time() + 3700)
    assert len(named()) == 5  # those that are younger than the list
    assert len(lake.rows(table)) == 10


def test_expiry_is_looked_at_now_and_then_and_says_what_it_did(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = changed(lake, 3)
    assert lake.target.maintain(table) == ""
    monkeypatch.setattr(maintenance, "NEW_SNAPSHOTS", 2)
    changed(lake, 4, table, first=500)
    monkeypatch.setattr(maintenance.time, "time", lambda: NOW)
    assert "expired" in lake.target.maintain(table)
    assert lake.target.maintain(table) == ""


def test_metadata_stays_below_a_mebibyte(lake: Lake) -> None:
    """With `RETENTION.most` snapshots, each as large as that of a merge."""
    table = changed(lake, 3)
    snapshot = loaded(lake, table).whole["snapshots"][-1]
    assert RETENTION.most * (len(json.dumps(snapshot, separators=(",", ":"))) + 60) < 1 << 20


@pytest.mark.parametrize("change", [Drop(), Create(KEYED, 2, -1, "L2")])
def test_readers_of_a_table_that_is_dropped_or_made_anew_keep_its_files(lake: Lake, change: Drop | Create) -> None:
    """After the grace all of it goes, and of no other table."""
    table, other = changed(lake, 4), changed(lake, 1)
    expiry.expire(loaded(lake, table), RETENTION, NOW)
    plan = planned(lake, table)
    expected, catalog = finished(plan), lake.target._catalog
    folder = Path(loaded(lake, table).metadata["location"].removeprefix("file:"))
    dropped_tables.delete_due(catalog, time.time() + 2 * DAY)  # of other tests
    lake.target.apply(table, change)
    assert dropped_tables.delete_due(catalog, time.time() + DAY - 60) == 0
    assert finished(plan) == expected
    assert dropped_tables.delete_due(catalog, time.time() + DAY + 60) == 1
    assert not folder.exists()
    assert dropped_tables.delete_due(catalog, time.time() + 2 * DAY) == 0
    assert len(lake.rows(other)) == 10
    assert lake.target.position(table) == (Position(-1, -1, 2, "L2") if isinstance(change, Create) else None)


def test_a_drop_that_was_interrupted_is_complete_and_a_restored_catalog_has_the_table_again(lake: Lake) -> None:
    table = changed(lake, 2)
    faults.arm([Fault("apply.moved.before", "fail")])
    with pytest.raises(FaultInjected):
        lake.target.apply(table, Drop())
    faults.disarm()
    assert lake.target.apply(table, Drop()).how == "skip"
    with closing(sqlite3.connect(lake.catalog_file)) as catalog:  # as it was before
        catalog.execute(
            "UPDATE iceberg_tables SET table_namespace = ?, table_name = ? WHERE table_namespace = 'tidemark_dropped'",
            (table.namespace, table.name),
        )
        catalog.commit()
    assert dropped_tables.delete_due(lake.target._catalog, time.time() + 2 * DAY) == 0
    assert len(lake.rows(table)) == 10


def test_what_another_program_expired_and_compacted_leaves_the_position(lake: Lake) -> None:
    table = changed(lake, 3)
    at = lake.target.position(table)
    handle = loaded(lake, table).handle
    older = loaded(lake, table).whole["snapshots"][1]["snapshot-id"]
    handle.newFastAppend().commit()
    newest = loaded(lake, table).snapshot
    expire = handle.expireSnapshots().cleanExpiredFiles(False)
    for snapshot in loaded(lake, table).whole["snapshots"]:
        if snapshot["snapshot-id"] not in {newest, older}:
            expire.expireSnapshotId(snapshot["snapshot-id"])
    expire.commit()
    assert lake.target.position(table) == at
    lake.merge(table, KEYED, insert(9_000, 99, "z"))
    assert len(lake.rows(table)) == 11


def test_many_snapshots_cost_a_merge_nothing_to_describe(lake: Lake) -> None:
    table = changed(lake, 45)
    found = loaded(lake, table)
    assert (found.snapshots, len(found.metadata["snapshots"]), len(found.whole["snapshots"])) == (46, 20, 46)
    assert found.snapshot == found.whole["current-snapshot-id"]
    for _ in range(25):  # the position is further back than what is described
        loaded(lake, table).handle.newFastAppend().commit()
    assert lake.target.position(table) is not None
    oldest = found.whole["snapshots"][0]["snapshot-id"]
    found.handle.manageSnapshots().rollbackTo(oldest).commit()
    rolled = loaded(lake, table)
    assert (rolled.snapshot, rolled.total("records")) == (oldest, 10)
    segment = lake.segment(KEYED, [insert(9_000, 99, "z")])
    lake.target.apply(table, Merge([segment], KEYED, 9_000))
    assert len(lake.rows(table)) == 11


def test_a_table_has_its_own_retention_by_its_properties(lake: Lake) -> None:
    table = changed(lake, 1)
    properties = loaded(lake, table).handle.updateProperties()
    properties.set(RETENTION_STEPS, "1h/1m").set(GRACE_HOURS, "2").commit()
    own = own_retention(table, loaded(lake, table).properties, RETENTION)
    assert own == Retention.parse("1h/1m", 2)
    loaded(lake, table).handle.updateProperties().remove(RETENTION_STEPS).commit()
    assert own_retention(table, loaded(lake, table).properties, RETENTION) == Retention(RETENTION.steps, 7200)
    loaded(lake, table).handle.updateProperties().set(GRACE_HOURS, "soon").commit()
    with pytest.raises(ConfigurationError, match=GRACE_HOURS):
        lake.target.maintain(table)


def test_how_far_back_a_table_can_be_read_is_told_without_a_jvm(lake: Lake) -> None:
    table = changed(lake, 4)
    before = readable_history.readable(lake.reader().load_table((table.namespace, table.name)))
    times = [snapshot["timestamp-ms"] for snapshot in loaded(lake, table).whole["snapshots"]]
    assert before.oldest is not None
    assert (before.oldest.timestamp() * 1000, before.snapshots, before.waiting) == (pytest.approx(min(times)), 5, 0)
    expiry.expire(loaded(lake, table), RETENTION, NOW)
    after = readable_history.readable(lake.reader().load_table((table.namespace, table.name)))
    assert after.snapshots <= 2
    assert after.waiting > 0


def test_disk_stays_bounded_over_a_compressed_day(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is an hour: what is kept is what the last seconds wrote, and in the end next to nothing."""
    monkeypatch.setattr(lake.target, "_retention", Retention.parse("2s/1s 8s/2s", 1 / 3600))
    for name, value in {"NEW_SNAPSHOTS": 5, "EXPIRY_SECONDS": 1, "DELETION_SECONDS": 0.5}.items():
        monkeypatch.setattr(maintenance, name, value)
    monkeypatch.setattr(deletion_list, "METADATA_SECONDS", 1)
    table, most = changed(lake, 1), 0
    for n in range(MERGES):
        changed(lake, 1, table, first=1000 + 10 * n)
        lake.target.maintain(table)
        most = max(most, len(files(lake, table)))
        time.sleep(0.05)  # 20 a second at most
    assert most < 4 * MERGES  # each writes six files
    deadline = time.monotonic() + 60
    while len([one for one in files(lake, table) if not one.endswith(".metadata.json")]) > 20:  # of those 100 stay
        assert time.monotonic() < deadline
        time.sleep(0.3)
        lake.target.maintain(table)
    assert sorted(lake.rows(table)) == [(key, f"{990 + 10 * MERGES}-0") for key in range(10)]


def test_a_file_of_deletion_vectors_stays_while_one_of_them_is_needed(lake: Lake) -> None:
    table = TargetTable("shop", "vectors")
    IcebergTarget(lake.spark, lake.storage, "r1", layout=Layout(version=3)).apply(table, Create(KEYED, 1, -1, "L1"))
    for first in (0, 10):  # two data files
        lake.merge(table, KEYED, *[insert(first + n, first + n, "x") for n in range(10)])
    both = [update(20, (1, "x"), (1, "y")), update(21, (11, "x"), (11, "y"))]
    lake.merge(table, KEYED, *both)
    vectors = [file for file in files(lake, table) if file.endswith(".puffin")]
    assert len(vectors) == 1
    lake.merge(table, KEYED, update(30, (2, "x"), (2, "z")))  # another vector of the first file
    expiry.expire(loaded(lake, table), RETENTION, NOW)
    deleted(lake, table, NOW + 2 * DAY)
    assert vectors[0] in files(lake, table)
    rows = dict.fromkeys(range(20), "x") | {1: "y", 11: "y", 2: "z"}
    assert sorted(lake.rows(table)) == sorted(rows.items())
    found = loaded(lake, table)
    data_files = lake_files(found)
    assert data_files is not None
    compaction.rewrite(data_files, found, planned_files(found))
    lake.merge(table, KEYED, insert(40, 99, "new"))  # the snapshot of the position stays
    rows[99] = "new"
    expiry.expire(loaded(lake, table), RETENTION, NOW)
    deleted(lake, table, NOW + 2 * DAY)
    assert not [file for file in files(lake, table) if file.endswith(".puffin")]
    assert sorted(lake.rows(table)) == sorted(rows.items())
