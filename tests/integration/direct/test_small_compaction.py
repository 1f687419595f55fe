"""Compaction in small steps, without Spark: few files, no row lost, and merges that come in between."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from replicator.errors import TargetConflict
from replicator.targets.base import Append, Evolve, Merge, Position, TargetTable
from replicator.targets.iceberg.table import commit
from replicator.targets.iceberg.upkeep import maintenance
from tests.integration.direct.test_direct import deletes_of, files_of
from tests.integration.spark.lake import Lake
from tests.staged import insert, read, schema_of, update

KEYED = schema_of({"id": "int", "v": "string"}, ["id"])


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object) -> int:
        raise AssertionError(args)

    monkeypatch.setattr(maintenance, "_compact", never)


def test_small_files_stay_few_and_rows_stay_what_they_are(lake: Lake) -> None:
    table, random = lake.table(KEYED), Random(7)
    rows: dict[int, str] = {}
    seq, most, rewritten = 0, 0, 0
    for _ in range(70):
        changes = []
        for key in random.sample(range(300), 6):
            new = f"{seq}" * 5
            changes.append(update(seq, (key, rows[key]), (key, new)) if key in rows else insert(seq, key, new))
            rows[key], seq = new, seq + 1
        lake.merge(table, KEYED, *changes)
        rewritten += "compacted" in lake.target.maintain(table)
        most = max(most, len(deletes_of(lake, table)))
    assert sorted(lake.rows(table)) == sorted(rows.items())
    assert lake.target.position(table) == Position(seq - 1, -1, 1, "L1")
    assert most <= maintenance.SMALL_FILES
    assert rewritten <= 8  # of 70: most merges only add a file


def test_worn_files_lose_their_deleted_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "MIN_DELETES", 50)
    table = lake.table(KEYED)
    chunk = lake.segment(KEYED, [read(n, n, "x") for n in range(200)])
    lake.target.apply(table, Append([chunk], KEYED, 199))
    lake.merge(table, KEYED, *[update(200 + n, (n, "x"), (n, "y")) for n in range(45)])
    assert lake.target.maintain(table) == ""
    lake.merge(table, KEYED, *[update(300 + n, (n, "x"), (n, "y")) for n in range(45, 60)])
    before = lake.rows(table, sequence=True)
    assert lake.target.maintain(table, busy=True) == ""
    assert lake.target.maintain(table) == f"{table}: compacted 1 file."
    assert set(deletes_of(lake, table).values()) <= {0}
    assert sorted(lake.rows(table, sequence=True)) == sorted(before)
    assert lake.target.maintain(table) == ""


def test_older_files_come_out_under_the_tables_present_columns(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "SMALL_FILES", 2)
    table = lake.table(KEYED)
    lake.merge(table, KEYED, insert(0, 1, "a"), insert(1, 2, "b"))
    wide = schema_of({"more": "decimal(9,2)", "id": "bigint", "w": "string"}, ["id"])
    lake.target.apply(table, Evolve(wide, 2, {"v": "w"}))
    for n in range(2):
        segment = lake.segment(wide, [insert(2 + n, None, 10 + n, "c")], 2)
        lake.target.apply(table, Merge([segment], wide, 2 + n))
    assert lake.target.maintain(table) == f"{table}: compacted 3 files."
    assert sorted(lake.rows(table), key=str) == [(None, 1, "a"), (None, 10, "c"), (None, 11, "c"), (None, 2, "b")]


def test_a_merge_during_a_compaction_wins_and_the_compaction_leaves_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SMALL_FILES", 2)
    table = filled(lake)
    written = merge_before_publishing(lake, table, monkeypatch)
    with pytest.raises(TargetConflict):
        lake.another_worker().maintain(table)
    assert len(written[0]) >= 3  # data, manifests, manifest list
    assert not written[0] & files_of(lake, table)
    assert sorted(lake.rows(table)) == [(0, "x"), (1, "new"), (2, "x"), (3, "x")]
    assert lake.target.position(table) == Position(10, -1, 1, "L1")
    assert "compacted" in lake.target.maintain(table)
    assert sorted(lake.rows(table)) == [(0, "x"), (1, "new"), (2, "x"), (3, "x")]


def test_a_compaction_during_a_merge_wins_and_the_merge_is_told(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "SMALL_FILES", 2)
    table = filled(lake)
    batch = Merge([lake.segment(KEYED, [update(10, (1, "x"), (1, "new"))])], KEYED, 10)
    publish = commit.publish

    def late(*args: Any) -> None:
        monkeypatch.setattr(commit, "publish", publish)
        assert "compacted" in lake.target.maintain(table)
        publish(*args)

    monkeypatch.setattr(commit, "publish", late)
    with pytest.raises(TargetConflict):
        lake.another_worker().apply(table, batch)
    assert sorted(lake.rows(table)) == [(n, "x") for n in range(4)]
    lake.target.apply(table, batch)
    assert sorted(lake.rows(table)) == [(0, "x"), (1, "new"), (2, "x"), (3, "x")]


def filled(lake: Lake) -> TargetTable:
    """Four files of one row."""
    table = lake.table(KEYED)
    for n in range(4):
        lake.merge(table, KEYED, insert(n, n, "x"))
    return table


def merge_before_publishing(lake: Lake, table: TargetTable, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """A merge comes in just before the next commit is published; returns where the files of that commit will be
    listed.
    """
    publish, before = commit.publish, files_of(lake, table)
    found: list[set[str]] = []

    def late(*args: Any) -> None:
        monkeypatch.setattr(commit, "publish", publish)
        found.append(files_of(lake, table) - before)
        lake.merge(table, KEYED, update(10, (1, "x"), (1, "new")))
        publish(*args)

    monkeypatch.setattr(commit, "publish", late)
    return found
