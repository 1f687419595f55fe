"""Nothing twice, nothing lost: restarts, stale workers, concurrent workers, compaction."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from replicator.errors import PositionLost, StagedFileLost, TargetConflict
from replicator.targets.base import Append, Create, DeleteBelow, Merge, Position, Replace, TargetChange, TargetTable
from replicator.targets.iceberg.apply import LIMITS
from replicator.targets.iceberg.direct.writer import SPARK_ONLY, DirectLimits
from replicator.targets.iceberg.table import commit
from replicator.targets.iceberg.table.position import KEPT
from replicator.targets.iceberg.target import IcebergTarget
from replicator.targets.iceberg.upkeep import maintenance
from tests.integration.spark.lake import Lake
from tests.staged import delete, insert, read, schema_of, update

KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
BAG = schema_of({"v": "string"})


def at_once(lake: Lake, table: TargetTable, change: TargetChange, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Two workers do the same change; both have written before either publishes."""
    meet = threading.Barrier(2)
    publish = commit.publish

    def late(*args: object) -> None:
        meet.wait(60)
        publish(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(commit, "publish", late)

    def attempt(worker: IcebergTarget) -> str:
        try:
            return worker.apply(table, change).how.split(" (")[0]
        except TargetConflict:
            return "conflict"

    with ThreadPoolExecutor(2) as pool:
        ends = Counter(pool.map(attempt, [lake.target, lake.another_worker()]))
    monkeypatch.undo()
    return ends


def test_two_workers_with_the_same_inserts_put_them_in_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table(KEYED)
    segment = lake.segment(KEYED, [insert(i, i, "x") for i in range(100)])
    ends = at_once(lake, table, Merge([segment], KEYED, 99), monkeypatch)
    assert ends == {"append": 1, "conflict": 1}
    assert sorted(lake.rows(table)) == [(i, "x") for i in range(100)]
    assert lake.target.apply(table, Merge([segment], KEYED, 99)).how == "skip"


def test_two_workers_with_the_same_merge_apply_it_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table(BAG)
    lake.merge(table, BAG, *[insert(i, "x") for i in range(10)])
    segment = lake.segment(BAG, [delete(10, "x"), delete(11, "x"), insert(12, "y")])
    assert at_once(lake, table, Merge([segment], BAG, 12), monkeypatch) == {"merge": 1, "conflict": 1}
    assert Counter(lake.rows(table)) == {("x",): 8, ("y",): 1}


def test_two_workers_with_the_same_chunk_append_it_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table(KEYED)
    chunk = lake.segment(KEYED, [read(i, i, "x") for i in range(50)])
    assert at_once(lake, table, Append([chunk], KEYED, 49), monkeypatch) == {"append": 1, "conflict": 1}
    assert len(lake.rows(table)) == 50
    assert lake.another_worker().apply(table, Append([chunk], KEYED, 49)).how == "skip"
    assert len(lake.rows(table)) == 50


def test_a_group_of_chunks_that_is_half_loaded_is_finished_and_not_doubled(lake: Lake) -> None:
    table = lake.table(KEYED)
    chunks = [lake.segment(KEYED, [read(10 * n + i, 10 * n + i, "x") for i in range(10)]) for n in range(3)]
    lake.target.apply(table, Append(chunks[:2], KEYED, 19))
    lake.target.apply(table, Append(chunks, KEYED, 29))
    assert sorted(row[0] for row in lake.rows(table)) == list(range(30))


def stale(
    lake: Lake,
    table: TargetTable,
    change: TargetChange,
    meanwhile: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker stops just before it publishes; another goes on; the first awakes."""
    publish = commit.publish

    def paused(*args: object) -> None:
        monkeypatch.undo()
        meanwhile()
        publish(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(commit, "publish", paused)
    with pytest.raises(TargetConflict):
        lake.another_worker().apply(table, change)


def test_a_stale_append_does_not_resurrect_what_was_deleted_since(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table(KEYED)
    chunk = lake.segment(KEYED, [read(0, 1, "a"), read(1, 2, "b")])

    def meanwhile() -> None:
        lake.target.apply(table, Append([chunk], KEYED, 1))
        lake.merge(table, KEYED, delete(5, 1, "a"), update(6, (2, "b"), (2, "B")))

    stale(lake, table, Append([chunk], KEYED, 1), meanwhile, monkeypatch)
    assert lake.rows(table) == [(2, "B")]
    assert lake.target.position(table) == Position(6, 1, 1, "L1")


def test_a_stale_commit_without_rows_does_not_turn_the_position_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table(BAG)

    def meanwhile() -> None:
        lake.target.apply(table, Merge([], BAG, 5))
        lake.merge(table, BAG, insert(6, "x"))

    stale(lake, table, Merge([], BAG, 5), meanwhile, monkeypatch)
    assert lake.target.position(table) == Position(6, -1, 1, "L1")


def test_a_crash_before_publishing_leaves_nothing_and_one_after_it_is_not_repeated(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.table(BAG)
    segment = lake.segment(BAG, [insert(0, "x"), insert(1, "x")])

    def crash(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commit, "publish", crash)
    with pytest.raises(KeyboardInterrupt):
        lake.target.apply(table, Merge([segment], BAG, 1))
    monkeypatch.undo()
    assert lake.target.position(table) == Position(-1, -1, 1, "L1")
    lake.target.apply(table, Merge([segment], BAG, 1))  # the crash here: the journal's mark is not written
    assert lake.another_worker().position(table) == Position(1, -1, 1, "L1")
    assert lake.another_worker().apply(table, Merge([segment], BAG, 1)).how == "skip"
    assert Counter(lake.rows(table)) == {("x",): 2}


@pytest.mark.parametrize("limits", [LIMITS, SPARK_ONLY], ids=["directly", "in Spark"])
def test_truncate_and_sweep_take_the_rows_below_and_carry_the_position(lake: Lake, limits: DirectLimits) -> None:
    target = lake.another_worker(limits=limits)
    table = lake.table(KEYED)
    lake.merge(table, KEYED, *[insert(i, i, "x") for i in range(4)])
    lake.merge(table, KEYED, update(4, (1, "x"), (1, "y")), insert(5, 9, "z"))
    sweep = target.apply(table, DeleteBelow(3, 10))
    assert sweep.how == ("delete (direct)" if limits is LIMITS else "delete (Spark: switched off)")
    assert sorted(lake.rows(table)) == [(1, "y"), (3, "x"), (9, "z")]
    assert target.apply(table, DeleteBelow(3, 11)).deleted == 0
    assert target.position(table) == Position(11, -1, 1, "L1")
    truncated = target.apply(table, DeleteBelow(20, 20)).how
    assert truncated == ("delete (direct)" if limits is LIMITS else "truncate (Spark: switched off)")
    assert (lake.rows(table), target.position(table)) == ([], Position(20, -1, 1, "L1"))
    target.apply(table, DeleteBelow(30, 30))
    lake.merge(table, KEYED, insert(31, 1, "again"))
    assert lake.rows(table) == [(1, "again")]
    assert target.apply(table, DeleteBelow(31, 31)).how == "skip"


def test_compaction_and_expiry_keep_rows_and_position(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table(KEYED)
    assert lake.target.maintain(table) == ""
    lake.merge(table, KEYED, *[insert(i, i, "x") for i in range(50)])
    for n in range(4):
        lake.merge(table, KEYED, update(100 + 2 * n, (n, "x"), (n, "y")), delete(101 + 2 * n, 40 + n, "x"))
    assert lake.target.maintain(table) == ""
    expected = sorted(lake.rows(table, sequence=True))
    for limit in ("MAX_DELETE_FILES", "MAX_SMALL_FILES"):
        monkeypatch.setattr(maintenance, limit, 1)
    monkeypatch.setattr(maintenance, "NEW_SNAPSHOTS", -1)
    monkeypatch.setattr(maintenance, "ORPHANS_EVERY", -1)
    later = time.time() + 3 * 3600
    monkeypatch.setattr(maintenance.time, "time", lambda: later)
    said = lake.target.maintain(table)
    assert "compacted" in said
    assert "expired" in said
    assert "orphan" in said
    assert sorted(lake.rows(table, sequence=True)) == expected
    assert lake.target.position(table) == Position(107, -1, 1, "L1")
    snapshots = lake.reader().load_table((table.namespace, table.name)).metadata.snapshots
    assert len(snapshots) <= 4  # it had five, and compaction made more
    assert len(expected) == 46
    lake.merge(table, KEYED, insert(300, 999, "after"))
    assert sorted(lake.rows(table, sequence=True)) == [*expected, (999, "after", 300)]


def test_a_position_that_somebody_expired_is_told_and_never_guessed(lake: Lake) -> None:
    table = lake.table(KEYED)
    for n in range(3):
        lake.merge(table, KEYED, insert(n, n, "x"))
    handle = lake.target._catalog.require(table).handle
    handle.newFastAppend().commit()  # a foreign commit, without a position
    handle.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()
    assert lake.target.position(table) == Position(2, -1, 1, "L1")  # by the table's property
    handle.updateProperties().set(KEPT, '{"tidemark.applied": "9", "sequence-number": 99}').commit()
    at = lake.target.position(table)  # of a later snapshot: the table was rolled back since
    assert at is not None
    assert "expired" in str(at.error)
    handle.updateProperties().remove(KEPT).commit()
    at = lake.target.position(table)
    assert at is not None
    assert (at.load, type(at.error)) == ("", PositionLost)
    with pytest.raises(PositionLost, match="expired"):
        lake.merge(table, KEYED, insert(9, 9, "x"))
    lake.target.apply(table, Create(KEYED, 1, 20, "L2"), seen=at.load)
    at = lake.target.position(table)
    assert at is not None
    assert (at.applied, at.load, at.error) == (20, "L2", None)


@pytest.mark.parametrize("limits", [LIMITS, SPARK_ONLY], ids=["directly", "in Spark"])
def test_a_staged_file_that_is_gone_is_named(lake: Lake, limits: DirectLimits) -> None:
    table = lake.table(KEYED)
    segment = lake.segment(KEYED, [insert(1, 1, "x")])
    lake.storage.delete(segment.path)
    with pytest.raises(StagedFileLost, match=segment.path):
        lake.another_worker(limits=limits).apply(table, Merge([segment], KEYED, 1))


def test_a_replace_by_a_stale_worker_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table(BAG, load="")
    chunk = lake.segment(BAG, [read(5, "a")])
    change = Replace([chunk], BAG, 1, 3, 5, "L2")

    def meanwhile() -> None:
        lake.target.apply(table, change)
        lake.merge(table, BAG, delete(6, "a"))

    stale(lake, table, change, meanwhile, monkeypatch)
    assert lake.rows(table) == []
