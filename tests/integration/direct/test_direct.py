"""Small batches of any kind, merged without Spark: the table ends as its source, and no orphaned files are left."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo

from replicator import faults
from replicator.errors import TargetConflict, TargetError
from replicator.faults import Fault, FaultInjected
from replicator.targets.base import Append, Evolve, Merge, Position, TargetTable
from replicator.targets.iceberg.direct.scan_plan import planned
from replicator.targets.iceberg.table import commit
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.direct.play import SHAPES, Play
from tests.integration.spark.lake import Lake
from tests.staged import delete, insert, read, schema_of, update

KEYED = schema_of({"id": "int", "v": "string"}, ["id"])


@pytest.mark.parametrize("keys", SHAPES, ids="+".join)
def test_random_batches_end_as_their_source(lake: Lake, keys: tuple[str, ...]) -> None:
    play = Play(Random(f"direct {keys}"), keys)
    table = lake.table(play.schema)
    ways: Counter[str] = Counter()
    for _ in range(12):
        segments = [lake.segment(play.schema, play.batch(size)) for size in (play.random.randint(1, 40), 8)]
        ways[lake.target.apply(table, Merge(segments, play.schema, play.seq)).how] += 1
        assert Counter(lake.rows(table)) == Counter(play.rows.values())
    assert ways["merge (direct)"] + ways["append (direct)"] == 12
    for name in play.schema.key:  # statistics prune nothing that is there
        for value in (min(column := play.column(name)), max(column)):
            found = lake.reader().load_table((table.namespace, table.name)).scan(EqualTo(name, value)).to_arrow()
            assert found.num_rows == column.count(value)


def deletes_of(lake: Lake, table: TargetTable) -> Counter[str]:
    """Delete files by the data file that they belong to, as pyiceberg plans a read."""
    tasks = lake.reader().load_table((table.namespace, table.name)).scan().plan_files()
    return Counter({task.file.file_path: len(task.delete_files) for task in tasks})


def files_of(lake: Lake, table: TargetTable) -> set[str]:
    """Without metadata files: Iceberg's catalog leaves the one that it wrote for a compare-and-set which failed."""
    place = lake.reader().load_table((table.namespace, table.name)).location().removeprefix("file://")
    found = (path for path in Path(place).rglob("*") if path.is_file())
    return {str(path) for path in found if not path.name.endswith((".crc", ".metadata.json"))}


def test_merges_leave_few_manifests_and_none_that_no_snapshot_names(lake: Lake) -> None:
    table = lake.table(KEYED)
    for n in range(8):
        lake.merge(table, KEYED, insert(2 * n, n, "x"), *([update(2 * n + 1, (n - 1, "x"), (n - 1, "y"))] if n else []))
    opened = lake.reader().load_table((table.namespace, table.name))
    named = {Path(one.manifest_list).name for one in opened.snapshots()}
    for snapshot in opened.snapshots():
        named |= {Path(one.manifest_path).name for one in snapshot.manifests(opened.io)}
    there = {Path(one).name for one in files_of(lake, table) if one.endswith(".avro")}
    assert there == named
    current = opened.current_snapshot()
    assert current is not None
    assert len(current.manifests(opened.io)) <= 4  # two of data, two of deletes


def test_a_data_file_never_has_more_than_one_delete_file_and_goes_with_its_last_row(lake: Lake) -> None:
    table, random = lake.table(KEYED), Random(5)
    rows = dict.fromkeys(range(400), "x")
    chunk = lake.segment(KEYED, [read(n, n, "x") for n in rows])
    lake.target.apply(table, Append([chunk], KEYED, 399))
    seq = 400
    for _ in range(50):
        some = random.sample(range(400), 25)
        changes = [update(seq + i, (n, rows[n]), (n, f"y{seq}")) for i, n in enumerate(some)]
        rows |= dict.fromkeys(some, f"y{seq}")
        seq += 25
        assert lake.merge(table, KEYED, *changes) == "merge"
        assert max(deletes_of(lake, table).values()) <= 1
    assert sorted(lake.rows(table)) == sorted(rows.items())
    assert len(deletes_of(lake, table)) < 51  # those without a row that lives are gone
    lake.merge(table, KEYED, *[delete(seq + n, n, rows[n]) for n in rows])
    assert (lake.rows(table), deletes_of(lake, table)) == ([], Counter())


@pytest.mark.parametrize("point", ["apply.stage.before", "apply.publish.before"])
def test_a_merge_that_fails_before_it_is_visible_leaves_no_file(lake: Lake, point: str) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, *[insert(n, n, "x") for n in range(10)])
    segment = lake.segment(KEYED, [update(20, (1, "x"), (1, "y")), delete(21, 2, "x"), insert(22, 30, "z")])
    before = files_of(lake, table)
    faults.arm([Fault(point, "fail")])
    try:
        with pytest.raises(FaultInjected):
            lake.target.apply(table, Merge([segment], KEYED, 22))
    finally:
        faults.disarm()
    assert files_of(lake, table) == before
    assert lake.target.position(table) == Position(9, -1, 1, "L1")
    assert lake.target.apply(table, Merge([segment], KEYED, 22)).how == "merge (direct)"
    assert sorted(lake.rows(table))[:2] == [(0, "x"), (1, "y")]


def test_a_stale_merge_changes_nothing_and_leaves_no_file(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker commits between the read and the compare-and-set."""
    table = lake.table(KEYED)
    lake.merge(table, KEYED, *[insert(n, n, "x") for n in range(10)])
    batch = Merge([lake.segment(KEYED, [update(20, (1, "x"), (1, "y")), delete(21, 2, "x")])], KEYED, 21)
    publish = commit.publish
    seen: list[set[str]] = []

    def late(*args: Any) -> None:
        monkeypatch.undo()
        mine = files_of(lake, table)
        lake.target.apply(table, batch)
        lake.merge(table, KEYED, update(30, (1, "y"), (1, "newest")))
        seen.append(files_of(lake, table) - (mine - before))
        publish(*args)

    before = files_of(lake, table)
    monkeypatch.setattr(commit, "publish", late)
    with pytest.raises(TargetConflict):
        lake.another_worker().apply(table, batch)
    assert files_of(lake, table) == seen[0]
    assert lake.target.position(table) == Position(30, -1, 1, "L1")
    assert sorted(lake.rows(table))[:2] == [(0, "x"), (1, "newest")]


def test_a_commit_that_was_repeated_because_its_answer_was_lost_keeps_its_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog's own client does so where a connection breaks, and is refused: it compares with what is no longer
    there.
    """
    table = lake.table(KEYED)
    lake.merge(table, KEYED, *[insert(n, n, "x") for n in range(10)])
    batch = Merge([lake.segment(KEYED, [update(20, (1, "x"), (1, "y")), delete(21, 2, "x")])], KEYED, 21)
    publish = commit.publish

    def twice(*args: Any) -> None:
        monkeypatch.undo()
        publish(*args)
        publish(*args)

    monkeypatch.setattr(commit, "publish", twice)
    lake.target.apply(table, batch)
    assert lake.target.position(table) == Position(21, -1, 1, "L1")
    assert sorted(lake.rows(table))[:3] == [(0, "x"), (1, "y"), (3, "x")]


def test_a_commit_before_the_snapshot_is_written_is_met_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, *[insert(n, n, "x") for n in range(10)])
    batch = Merge([lake.segment(KEYED, [*(update(20 + n, (n, "x"), (n, "y")) for n in range(10))])], KEYED, 29)
    prepared = commit.prepared
    left: list[set[str]] = []

    def late(*args: Any) -> Any:
        monkeypatch.undo()
        mine = files_of(lake, table) - before
        lake.target.apply(table, batch)
        left.append(files_of(lake, table) - mine)
        return prepared(*args)

    before = files_of(lake, table)
    monkeypatch.setattr(commit, "prepared", late)
    with pytest.raises(TargetConflict):
        lake.another_worker().apply(table, batch)
    assert files_of(lake, table) == left[0]
    assert sorted(lake.rows(table)) == [(n, "y") for n in range(10)]


def test_a_commit_that_would_leave_a_file_it_was_to_remove_is_not_published(lake: Lake) -> None:
    """Iceberg says nothing of a file that it does not find."""
    one, other = lake.table(KEYED), lake.table(KEYED)
    for table in (one, other):
        lake.merge(table, KEYED, *[insert(n, n, "x") for n in range(3)])
    loaded = lake.target._catalog.require(one)
    (file,) = planned(lake.target._catalog.require(other))
    before = files_of(lake, one)
    with pytest.raises(TargetError, match="should have removed 1 files"):
        commit.commit_directly(loaded, None, lambda t: t.newRowDelta().removeRows(file.java.get()), lambda: None, 1)
    assert files_of(lake, one) == before
    assert lake.target.position(one) == Position(2, -1, 1, "L1")


def test_rows_of_the_initial_load_that_are_newer_than_the_waiting_log_stay(lake: Lake) -> None:
    """The guard, where a file has rows on both sides of the batch (invariants 4 and 5)."""
    table = lake.table(KEYED, applied=9)
    chunk = lake.segment(KEYED, [read(20 + n, n, f"read {n}") for n in range(10)])
    lake.target.apply(table, Append([chunk], KEYED, 29))
    log = [update(10 + n, (n, "old"), (n, "older")) for n in range(5)] + [delete(15, 5, "old"), delete(40, 6, "x")]
    log += [update(41, (7, "x"), (7, "newer")), update(42, (8, "x"), (18, "moved")), update(16, (9, "x"), (19, "went"))]
    result = lake.target.apply(table, Merge([lake.segment(KEYED, sorted(log, key=lambda c: c.seq))], KEYED, 42))
    assert result.how == "merge (direct)"
    expected = {n: f"read {n}" for n in (0, 1, 2, 3, 4, 5, 9)} | {7: "newer", 18: "moved", 19: "went"}
    assert dict(lake.rows(table)) == expected


def test_keys_of_a_widened_column_are_found_in_older_files(lake: Lake) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, insert(0, 1, "a"), insert(1, 2, "b"))
    wide = schema_of({"id": "bigint", "more": "int", "v": "string"}, ["id"])
    lake.target.apply(table, Evolve(wide, 2))
    segment = lake.segment(wide, [update(2, (1, None, "a"), (1, 7, "A")), insert(3, 2**40, 8, "c")], 2)
    assert lake.target.apply(table, Merge([segment], wide, 3)).how == "merge (direct)"
    assert sorted(lake.rows(table), key=str) == [(1, 7, "A"), (2**40, 8, "c"), (2, None, "b")]


def test_two_workers_at_once_apply_a_batch_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, *[insert(n, n, "x") for n in range(10)])
    batch = Merge([lake.segment(KEYED, [*(update(20 + n, (n, "x"), (n, "y")) for n in range(5))])], KEYED, 24)
    meet, publish = threading.Barrier(2), commit.publish

    def late(*args: Any) -> None:
        meet.wait(60)
        publish(*args)

    monkeypatch.setattr(commit, "publish", late)

    def attempt(worker: IcebergTarget) -> str:
        try:
            return worker.apply(table, batch).how
        except TargetConflict:
            return "conflict"

    with ThreadPoolExecutor(2) as pool:
        ends = Counter(pool.map(attempt, [lake.target, lake.another_worker()]))
    assert ends == {"merge (direct)": 1, "conflict": 1}
    assert sorted(lake.rows(table)) == [(n, "y" if n < 5 else "x") for n in range(10)]
