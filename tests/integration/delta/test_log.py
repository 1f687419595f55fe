"""The Delta log alone decides positions, the order of commits and drops, also where other programs write to it."""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from deltalake import DeltaTable, Field, TableFeatures, write_deltalake

from replicator import faults
from replicator.errors import ConfigurationError, TargetConflict, TargetError
from replicator.faults import Fault, FaultInjected
from replicator.model.mode import Mode
from replicator.model.retention import Retention
from replicator.targets.base import (
    NO_TABLE,
    Append,
    Create,
    DeleteBelow,
    Drop,
    Evolve,
    Merge,
    Position,
    Rename,
    Replace,
    TargetChange,
    TargetTable,
)
from replicator.targets.delta import dropped_tables, maintenance
from replicator.targets.delta.table import OpenTable
from replicator.targets.upkeep import GRACE_HOURS
from tests.integration.delta.lake import DeltaLake
from tests.staged import insert, read, schema_of, update

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
KEYLESS = schema_of({"v": "string"})
WIDER = schema_of({"id": "int", "v": "string", "more": "timestamp_ntz"}, ["id"])
OTHER = schema_of({"id": "bigint", "w": "string"}, ["id"])


def filled(lake: DeltaLake, rows: int = 10, load: str = "L1") -> TargetTable:
    table = lake.table(KEYED, load=load)
    lake.merge(table, KEYED, *[insert(n, n, "x") for n in range(rows)])
    return table


def log_of(lake: DeltaLake, table: TargetTable) -> list[str]:
    return sorted(one.name for one in (lake.folder(table) / "_delta_log").iterdir() if one.suffix != ".crc")


@pytest.mark.parametrize("load", ["", "L1", "0123456789abcdef0123456789abcdef", "ö" * 20])
@pytest.mark.parametrize("mode", list(Mode))
def test_the_position_outlives_the_logs_entries(lake: DeltaLake, load: str, mode: Mode) -> None:
    table = lake.table(KEYED, load=load, mode=mode, applied=2**60)
    lake.target.apply(table, DeleteBelow(0, 2**60 + 5, item="token"))
    said = Position(2**60 + 5, -1, 1, load, mode)
    found = lake.target.position(table)
    assert found == said
    assert found.item == "token"
    other = lake.open(table)
    if mode is not Mode.CHANGELOG:
        other.alter.set_table_properties({"delta.appendOnly": "false"})
    other = lake.open(table)
    other.optimize.compact()
    other.vacuum(0, dry_run=False, enforce_retention_duration=False)
    other = lake.open(table)
    other.create_checkpoint()
    for entry in (lake.folder(table) / "_delta_log").glob("*.json"):
        if int(entry.stem) < other.version() or mode is Mode.CHANGELOG:
            entry.unlink()
    found = lake.target.position(table)
    assert found == said
    assert found.item == ("" if "tidemark" not in "".join(log_of(lake, table)) else found.item)


def test_another_program_that_turns_the_rows_back_turns_the_position_back(lake: DeltaLake) -> None:
    table = filled(lake)
    later = Merge([lake.segment(KEYED, [update(20, (1, "x"), (1, "y"))])], KEYED, 20)
    lake.target.apply(table, later, "L1")
    lake.open(table).restore(1)
    lake.open(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert lake.target.position(table) == Position(9, -1, 1, "L1")
    assert (1, "x") in lake.rows(table)
    assert lake.target.apply(table, later, "L1").how == "merge"
    assert lake.target.position(table) == Position(20, -1, 1, "L1")
    assert (1, "y") in lake.rows(table)
    before = lake.open(table).history(2)[1]["timestamp"]
    lake.open(table).restore(dt.datetime.fromtimestamp(before / 1000, dt.UTC))
    with pytest.raises(TargetError, match="does not say which"):
        lake.target.position(table)


def test_a_table_with_a_feature_that_tidemark_does_not_keep_is_not_written(lake: DeltaLake) -> None:
    table = filled(lake)
    lake.open(table).alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(TargetError, match="deletionVectors"):
        lake.merge(table, KEYED, insert(30, 30, "x"))


def changes(lake: DeltaLake) -> dict[str, tuple[Callable[[], TargetChange], str]]:
    """Return for each kind of change a factory, and how the target applies it."""
    return {
        "append": (lambda: Append([lake.segment(KEYED, [read(30, 30, "a")])], KEYED, 30), "append"),
        "merge": (lambda: Merge([lake.segment(KEYED, [update(20, (1, "x"), (1, "y"))])], KEYED, 20), "merge"),
        "insert": (lambda: Merge([lake.segment(KEYED, [insert(20, 20, "n")])], KEYED, 20), "append"),
        "delete below": (lambda: DeleteBelow(5, 20), "delete"),
        "add a column": (lambda: Evolve(WIDER, 2), "evolve"),
        "rewrite": (lambda: Evolve(OTHER, 2, {"v": "w"}), "evolve"),
        "no column": (lambda: Evolve(KEYED, 2), "evolve"),
        "recreate": (lambda: Create(WIDER, 1, 50, "L2"), "recreate"),
        "drop": (Drop, "drop"),
        "rename": (lambda: Rename(TargetTable("shop", f"new_{time.monotonic_ns()}")), "rename"),
        "replace": (lambda: Replace([lake.segment(KEYED, [read(60, 60, "r")])], KEYED, 1, 59, 60, "L9"), "replace"),
    }


KINDS = list(changes(None))  # type: ignore[arg-type]
NO_FILES = {"add a column", "no column", "recreate", "drop", "rename"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_an_older_version_is_refused_and_leaves_no_file(
    lake: DeltaLake, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker commits between the read and the commit, once for each commit that the change has."""
    table, (make, _) = filled(lake), changes(lake)[kind]
    real, numbers = OpenTable._publish, iter(range(40, 60))

    def late(self: OpenTable, *args: Any, **options: Any) -> None:
        with monkeypatch.context() as inner:
            inner.setattr(OpenTable, "_publish", real)
            if self.name == table:
                number = next(numbers)
                lake.merge(table, KEYED, insert(number, number, "theirs"))
        real(self, *args, **options)

    monkeypatch.setattr(OpenTable, "_publish", late)
    with pytest.raises(TargetConflict):
        lake.target.apply(table, make(), "L1")
    monkeypatch.undo()
    assert sorted(row[0] for row in lake.rows(table))[:10] == list(range(10))
    assert (40, "theirs") in lake.rows(table)
    position = lake.target.position(table)
    assert position is not None
    assert (position.applied, position.load, position.schema_version) == (40, "L1", 1)
    tracked = {one for n in range(lake.open(table).version() + 1) for one in names_at(lake, table, n)}
    assert lake.data_files(table) <= tracked


def names_at(lake: DeltaLake, table: TargetTable, version: int) -> set[str]:
    return {one.rpartition("/")[2] for one in DeltaTable(lake.store.uri(table), version=version).file_uris()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_whose_answer_was_lost_was_done(lake: DeltaLake, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, (make, how) = filled(lake), changes(lake)[kind]
    real = OpenTable._publish

    def lost(self: OpenTable, at: Position, act: Callable[[Any], None], **options: Any) -> None:
        def acted(properties: Any) -> None:
            act(properties)
            message = "error sending request"
            raise OSError(message)

        real(self, at, acted, **options)

    monkeypatch.setattr(OpenTable, "_publish", lost)
    assert lake.target.apply(table, make(), "L1").how == how


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_that_failed_may_come_yet_and_is_done_again(
    lake: DeltaLake, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may execute an abandoned request later, so the files that it names are not deleted."""
    table, (make, how) = filled(lake), changes(lake)[kind]
    before, real, change = lake.data_files(table), OpenTable._publish, make()

    def failing(self: OpenTable, at: Position, act: Callable[[Any], None], **options: Any) -> None:
        del act

        def refused(properties: Any) -> None:
            del properties
            message = "error sending request"
            raise OSError(message)

        real(self, at, refused, **options)

    monkeypatch.setattr(OpenTable, "_publish", failing)
    with pytest.raises(TargetError, match="does not answer"):
        lake.target.apply(table, change, "L1")
    monkeypatch.undo()
    assert lake.data_files(table) >= before
    assert (len(lake.data_files(table)) > len(before)) is (kind not in NO_FILES)
    assert len(lake.rows(table)) == 10
    assert lake.target.apply(table, change, "L1").how == how


@pytest.mark.parametrize("kind", ["append", "merge", "insert", "delete below", "replace"])
def test_several_workers_at_a_time_apply_it_once(lake: DeltaLake, kind: str) -> None:
    table, (make, how) = filled(lake), changes(lake)[kind]
    change, barrier = make(), threading.Barrier(4)

    def one(_: int) -> str:
        barrier.wait()
        try:
            return lake.another_worker().apply(table, change, "L1").how
        except TargetConflict:
            return "conflict"

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(one, range(4)))
    assert told.count(how) == 1
    assert set(told) <= {how, "conflict", "skip"}
    once = DeltaLake(lake.store, lake.storage)
    expected = filled(once)
    once.target.apply(expected, change, "L1")
    assert sorted(lake.rows(table)) == sorted(once.rows(expected))


def test_two_workers_that_create_one_table_make_one(lake: DeltaLake) -> None:
    table, barrier = TargetTable("shop", "both"), threading.Barrier(4)

    def one(number: int) -> str:
        barrier.wait()
        try:
            return lake.another_worker().apply(table, Create(KEYED, 1, number, f"L{number}"), NO_TABLE).how
        except TargetConflict:
            return "conflict"

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(one, range(4)))
    assert sorted(told) == ["conflict"] * 3 + ["create"]
    position = lake.target.position(table)
    assert position is not None
    assert position.load == f"L{told.index('create')}"


def test_a_dropped_table_is_empty_until_its_folder_goes(lake: DeltaLake) -> None:
    table, now = filled(lake), time.time()
    lake.target.apply(table, Drop(), "L1")
    assert lake.target.position(table) is None
    assert lake.rows(table) == []
    assert DeltaTable(lake.store.uri(table), version=1).to_pyarrow_table().num_rows == 10
    assert dropped_tables.delete_due(lake.store, now + 23 * 3600) == 0
    assert lake.folder(table).exists()
    assert dropped_tables.delete_due(lake.store, now + 25 * 3600) == 1
    assert not lake.folder(table).exists()
    assert dropped_tables.delete_due(lake.store, now + 25 * 3600) == 0
    lake.target.apply(table, Create(KEYED, 1, -1, "L2"), NO_TABLE)
    lake.merge(table, KEYED, insert(0, 1, "new"))
    assert lake.rows(table) == [(1, "new")]


def test_a_dropped_or_renamed_table_goes_by_its_own_properties(lake: DeltaLake) -> None:
    """`ALTER TABLE … SET TBLPROPERTIES`, as another program does it."""
    table, new, newest, now = filled(lake), TargetTable("own", "t"), TargetTable("own", "u"), time.time()
    own = {GRACE_HOURS: "2", "theirs": "kept"}
    lake.open(table).alter.set_table_properties(own, raise_if_not_exists=False)
    lake.target.apply(table, Rename(new))
    lake.target.apply(lake.table(KEYED, "u"), Drop())
    lake.target.apply(new, Rename(newest))
    assert own.items() <= lake.open(newest).metadata().configuration.items()
    lake.target.apply(newest, Drop())
    assert dropped_tables.delete_due(lake.store, now + 3600) == 0
    assert dropped_tables.delete_due(lake.store, now + 3 * 3600) == 3
    assert not any(lake.folder(one).exists() for one in (table, new, newest))
    assert dropped_tables.delete_due(lake.store, now + 25 * 3600) == 1
    lake.open(lake.table(KEYED, "invalid")).alter.set_table_properties({GRACE_HOURS: "x"}, raise_if_not_exists=False)
    with pytest.raises(ConfigurationError, match="are invalid"):
        lake.target.apply(TargetTable("shop", "invalid"), Drop())


def test_a_table_that_was_made_again_is_not_deleted_for_the_drop_before(lake: DeltaLake) -> None:
    table, later = filled(lake), time.time() + 48 * 3600
    lake.target.apply(table, Drop(), "L1")
    heir = lake.another_worker("r2")
    assert heir.position(table) is None
    heir.apply(table, Create(WIDER, 1, 7, "L2"), NO_TABLE)
    assert heir.position(table) == Position(7, -1, 1, "L2")
    with pytest.raises(TargetConflict, match="was not created by this replicator"):
        lake.target.position(table)
    assert dropped_tables.delete_due(lake.store, later) == 0
    assert heir.position(table) == Position(7, -1, 1, "L2")
    assert lake.arrow(table).column_names == ["id", "v", "more", "_sequence_num"]


def test_a_deletion_that_was_interrupted_goes_on_and_nothing_is_made_meanwhile(lake: DeltaLake) -> None:
    table, later = filled(lake), time.time() + 48 * 3600
    for n in range(12):
        lake.merge(table, KEYED, insert(20 + n, 20 + n, "x"))
    lake.target.apply(table, Drop(), "L1")
    faults.arm([Fault("garbage.dropped.before", "fail")])
    with pytest.raises(FaultInjected):
        dropped_tables.delete_due(lake.store, later)
    faults.disarm()
    found = [one for one in lake.folder(table).rglob("*") if one.is_file() and one.suffix != ".crc"]
    order = sorted(found, key=lambda one: dropped_tables._late(str(one)))
    for one in order[:-1]:  # as the pass that died had done
        one.unlink()
        with pytest.raises(TargetError):
            lake.target.apply(table, Create(KEYED, 1, -1, "L2"), NO_TABLE)
    assert dropped_tables.delete_due(lake.store, later) == 1
    lake.target.apply(table, Create(KEYED, 1, -1, "L2"), NO_TABLE)
    assert lake.rows(table) == []


@pytest.mark.parametrize("number", range(1, 6))
def test_a_rename_that_dies_anywhere_ends_when_it_is_done_again(lake: DeltaLake, number: int) -> None:
    table, new = filled(lake), TargetTable("elsewhere", "t")
    lake.target.apply(table, Evolve(schema_of({"id": "int"}, ["id"]), 2, keep_dropped=True))
    lake.target.apply(table, Evolve(schema_of({"id": "int", "at": "timestamp_ntz"}, ["id"]), 3, keep_dropped=True))
    rows, position = lake.rows(table), lake.target.position(table)
    faults.arm([Fault("apply.publish.before", "fail", hit=number)])
    try:
        lake.target.apply(table, Rename(new))
    except FaultInjected:
        assert lake.target.position(table) == position
    faults.disarm()
    lake.target.apply(table, Rename(new))
    assert (lake.target.position(table), lake.target.position(new)) == (None, position)
    assert sorted(lake.rows(new)) == sorted(rows)
    lake.target.apply(new, Evolve(schema_of({"id": "int", "v": "string"}, ["id"]), 4))
    assert {row[1] for row in lake.rows(new)} == {None}  # that the old column was kept is known there, too


def test_small_files_are_put_together_and_files_of_old_versions_go(lake: DeltaLake) -> None:
    table = lake.table(KEYED)
    for n in range(20):
        lake.merge(table, KEYED, insert(n, n, "x"))
    position = lake.target.position(table)
    told = lake.target.maintain(table)
    assert "compacted 20 files" in told
    assert len(lake.live_files(table)) == 1
    assert len(lake.data_files(table)) == 21
    assert lake.target.position(table) == position
    assert sorted(lake.rows(table)) == [(n, "x") for n in range(20)]
    assert DeltaTable(lake.store.uri(table), version=5).to_pyarrow_table().num_rows == 5
    stray = lake.folder(table) / "0123456789abcdef0123456789abcdef.parquet"
    stray.write_bytes(b"of a worker that died")
    old = time.time() - 30 * 3600
    for one in (stray, *lake.folder(table).glob("*.parquet")):
        os.utime(one, (old, old))
    opened = OpenTable.load(lake.store, table)
    assert opened is not None
    assert maintenance.delete_unneeded(opened, 25) == 1
    assert not stray.exists()
    assert len(lake.data_files(table)) == 21
    opened = OpenTable.load(lake.store, table)
    assert opened is not None
    assert maintenance.delete_unneeded(opened, 0) == 20
    assert lake.data_files(table) == lake.live_files(table)
    assert lake.target.position(table) == position
    lake.merge(table, KEYED, insert(99, 99, "y"))
    assert len(lake.rows(table)) == 21


def test_what_may_be_read_follows_the_settings(lake: DeltaLake) -> None:
    table = filled(lake)
    assert lake.open(table).metadata().configuration["delta.logRetentionDuration"] == "interval 25 hours"
    maintenance._LOOKED.clear()
    lake.another_worker(retention=Retention.parse("1h/1m 2d/1h", 5)).maintain(table)
    assert lake.open(table).metadata().configuration["delta.deletedFileRetentionDuration"] == "interval 6 hours"
    lake.open(table).alter.set_table_properties({"tidemark.deletion-grace-hours": "9"}, raise_if_not_exists=False)
    maintenance._LOOKED.clear()
    lake.target.maintain(table)
    assert lake.open(table).metadata().configuration["delta.logRetentionDuration"] == "interval 10 hours"


def test_rows_of_another_program_that_only_adds_columns_and_rows_are_kept(lake: DeltaLake) -> None:
    """They are in the way of nothing: the table is still written."""
    table = filled(lake)
    other = lake.open(table)
    other.alter.add_columns([Field("theirs", "string")])
    write_deltalake(lake.open(table), lake.arrow(table).slice(0, 1), mode="append")
    lake.merge(table, KEYED, update(20, (5, "x"), (5, "y")))
    assert {row[1] for row in lake.rows(table) if row[0] == 5} == {"y"}
