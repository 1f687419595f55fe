"""Tables that several source tables share, in Iceberg: both ways of merging, commits in between, rollback, expiry."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from replicator.errors import TargetConflict, UnsupportedDdl
from replicator.model.mode import CURRENT, DELETED, Mode
from replicator.model.schema import TableSchema
from replicator.targets.base import Create, DeleteBelow, Drop, Evolve, Merge, TargetTable
from replicator.targets.iceberg import target as iceberg_target
from replicator.targets.iceberg.direct import writer
from replicator.targets.iceberg.direct.writer import SPARK_ONLY
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.table import catalog
from replicator.targets.iceberg.target import IcebergTarget
from tests.contract.targets.model import Model
from tests.contract.targets.test_target import random_change
from tests.integration.spark.lake import Lake
from tests.staged import Change, Row, delete, insert, schema_of, update
from tests.staged_lake import NAMES

PLAIN = schema_of({"id": "int", "v": "string"}, ["id"])
KEYED = schema_of({"id": "int", "v": "string", "tenant": "string"}, ["id"])


def two(lake: Lake, mode: Mode = Mode.MIRROR, schema: TableSchema = KEYED) -> list[TargetTable]:
    name = f"t{next(NAMES)}"
    found = [TargetTable("shop", name, f"tenant={value}") for value in ("a", "b'c")]
    for number, table in enumerate(found):
        lake.target.apply(table, Create(schema, 1, -1, f"L{number}", mode))
    return found


def of(table: TargetTable, changes: list[Change]) -> list[Change]:
    value = table.tenant[1]
    return [
        Change(one.seq, one.op, *(row and (*row, value) for row in (one.before, one.row)), one.at) for one in changes
    ]


def merge(lake: Lake, target: IcebergTarget, table: TargetTable, *changes: Change, schema: TableSchema = KEYED) -> str:
    segment = lake.segment(schema, of(table, list(changes)))
    return target.apply(table, Merge([segment], schema, segment.last_sequence)).how


def rows(lake: Lake, table: TargetTable, mode: Mode = Mode.MIRROR) -> Counter[Row]:
    found = lake.arrow(table)
    if mode is Mode.SOFT_DELETE:
        found = found.filter([not one for one in found.column(DELETED).to_pylist()])
    if mode is Mode.HISTORY:
        found = found.filter(found.column(CURRENT))
    return Counter((row["id"], row["v"]) for row in found.to_pylist() if row["tenant"] == table.tenant[1])


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE, Mode.HISTORY])
def test_spark_and_direct_merges_of_parts_end_alike(lake: Lake, mode: Mode) -> None:
    rng, seq = random.Random(f"shared {mode}"), itertools.count()
    in_spark = IcebergTarget(lake.spark, lake.storage, "r1", SPARK_ONLY)
    pairs = [(two(lake, mode), lake.target), (two(lake, mode), in_spark)]
    models = [Model(PLAIN), Model(PLAIN)]
    for step in range(3):
        for number, model in enumerate(models):
            changes = []
            for _ in range(rng.randrange(5, 25)):
                changes.append(random_change(rng, next(seq), PLAIN, model))
                model.follow(changes[-1:])
            for tables, target in pairs:
                how = merge(lake, target, tables[number], *changes)
                assert ("direct" in how) is (target is lake.target), how
        if step == 1:
            below = next(seq)
            for tables, target in pairs:
                target.apply(tables[0], DeleteBelow(below, below))
            models[0].rows.clear()
        for tables, _ in pairs:
            assert [rows(lake, one, mode) for one in tables] == [model.rows for model in models]
    for tables, target in pairs:  # made again, and dropped: all versions of its rows go
        target.apply(tables[0], Create(KEYED, 1, 10**6, "L9", mode))
        assert tables[0].tenant[1] not in lake.arrow(tables[0]).column("tenant").to_pylist()
        target.apply(tables[1], Drop())
        assert lake.arrow(tables[0]).num_rows == 0


def test_a_table_that_others_have_widened_takes_a_parts_narrower_values_both_ways(lake: Lake) -> None:
    wide = schema_of({"id": "bigint", "v": "string", "d": "decimal(12,2)", "f": "double", "tenant": "string"}, ["id"])
    narrow = schema_of({"id": "int", "v": "string", "d": "decimal(5,2)", "f": "float", "tenant": "string"}, ["id"])
    one, _ = two(lake, schema=narrow)
    other = TargetTable(one.namespace, one.name, "tenant=wide")
    lake.target.apply(other, Create(wide, 1, -1, "L9"))
    merge(lake, lake.target, other, insert(0, 2**40, "x", None, 0.1), schema=wide)
    in_spark = IcebergTarget(lake.spark, lake.storage, "r1", SPARK_ONLY)
    for first, target in ((1, lake.target), (10, in_spark)):
        merge(lake, target, one, insert(first, first, "n", None, 1.5), insert(first + 1, 90 + first, "m", None, 2.5),
            schema=narrow)  # fmt: skip
        merge(lake, target, one, update(first + 2, (first, "n", None, 1.5), (first, "u", None, 3.5)),
            delete(first + 3, 90 + first, "m", None, 2.5), schema=narrow)  # fmt: skip
    found = {(row["id"], row["v"], row["f"]) for row in lake.arrow(one).to_pylist()}
    assert found == {(2**40, "x", 0.1), (1, "u", 3.5), (10, "u", 3.5)}


def test_a_commit_that_came_in_between_is_no_error(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another part's, by a worker that lost its lease: deterministic, because it comes after the look at the table."""
    one, other = two(lake)
    stranger = lake.another_worker()
    commit, seq, between = writer.commit_directly, itertools.count(1), [0]

    def overtaken(*given: Any, **named: Any) -> int:
        if between[0]:
            between[0] -= 1
            with monkeypatch.context() as patch:
                patch.setattr(writer, "commit_directly", commit)
                merge(lake, stranger, other, insert(next(seq), between[0], "between"))
        return commit(*given, **named)

    monkeypatch.setattr(writer, "commit_directly", overtaken)
    between[0] = 3
    merge(lake, lake.target, one, insert(100, 1, "x"))
    assert rows(lake, one) == Counter([(1, "x")])
    assert rows(lake, other) == Counter([(n, "between") for n in range(3)])
    monkeypatch.setattr(iceberg_target, "ATTEMPTS", 1)  # so it is the second attempt that makes it good
    between[0] = 1
    with pytest.raises(TargetConflict):
        merge(lake, lake.target, one, insert(101, 2, "y"))
    assert rows(lake, one) == Counter([(1, "x")])
    position = lake.target.position(one)
    assert position is not None
    assert position.applied == 100


def test_the_last_part_is_not_dropped_under_one_that_comes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two(lake)
    lake.target.apply(other, Drop())
    stranger, move, did = lake.another_worker(), catalog.IcebergCatalog.drop, []

    def overtaken(self: catalog.IcebergCatalog, *given: Any) -> None:
        if not did:
            did.append(stranger.apply(other, Create(KEYED, 1, -1, "L5")))
            merge(lake, stranger, other, insert(0, 7, "came"))
        move(self, *given)

    monkeypatch.setattr(catalog.IcebergCatalog, "drop", overtaken)
    lake.target.apply(one, Drop())
    assert lake.target.position(one) is None
    assert rows(lake, other) == Counter([(7, "came")])


@pytest.mark.parametrize("merges", [1, 30])
def test_a_rollback_is_seen_by_each_part_that_lost_something(lake: Lake, merges: int) -> None:
    """Also where the part's own snapshot is further back than what a look describes."""
    one, other = two(lake)
    merge(lake, lake.target, other, insert(0, 1, "kept"))
    good = lake.target._catalog.require(other).snapshot
    for number in range(merges):
        merge(lake, lake.target, one, insert(1 + number, number, "lost"))
    loads = [at.load for table in (one, other) if (at := lake.target.position(table))]
    assert loads == ["L0", "L1"]
    lake.target._catalog.require(one).handle.manageSnapshots().rollbackTo(good).commit()
    for _ in range(2):
        found = [at.load for table in (one, other) if (at := lake.target.position(table))]
        assert found == ["", "L1"]
        merge(lake, lake.target, other, insert(100, 2, "more"))
    lake.target.apply(one, Create(KEYED, 1, 200, "L7"), "")
    assert (rows(lake, one), rows(lake, other)) == (Counter(), Counter([(1, "kept"), (2, "more")]))


def test_positions_outlive_their_snapshots(lake: Lake) -> None:
    one, other = two(lake)
    merge(lake, lake.target, other, insert(0, 1, "quiet"))
    for number in range(25):
        merge(lake, lake.target, one, insert(1 + number, number, "busy"))
    handle = lake.target._catalog.require(one).handle
    handle.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()
    positions = [at.applied for table in (one, other) if (at := lake.another_worker().position(table))]
    assert positions == [25, 0]


def test_a_table_partitioned_by_its_parts(lake: Lake) -> None:
    layout = Layout.parse({"partition_by": "shop.*: tenant, bucket(2, id)"})
    target = IcebergTarget(lake.spark, lake.storage, "r1", layout=layout)
    name = f"t{next(NAMES)}"
    one, other = (TargetTable("shop", name, f"tenant={value}") for value in ("a", "b"))
    for table in (one, other):
        target.apply(table, Create(KEYED, 1, -1, f"L{table.part}"))
        merge(lake, target, table, *(insert(n, n, "x") for n in range(10)))
        merge(lake, target, table, update(20, (1, "x"), (11, "y")), delete(21, 2, "x"))
    target.apply(one, Evolve(schema_of({"id": "int", "w": "string", "tenant": "string"}, ["id"]), 2, {"v": "w"}))
    target.apply(other, DeleteBelow(5, 30))
    assert rows(lake, other) == Counter([*((n, "x") for n in range(5, 10)), (11, "y")])
    target.maintain(one)
    assert {row["w"] for row in lake.arrow(one).to_pylist() if row["tenant"] == "a"} == {"x", "y"}


def test_a_parts_new_column_that_is_named_as_a_partition_is_told(lake: Lake) -> None:
    layout = Layout.parse({"partition_by": "*.*: bucket(3, id)"})
    ours = IcebergTarget(lake.spark, lake.storage, "r1", layout=layout)
    part = TargetTable("shop", f"t{next(NAMES)}", "tenant=a")
    ours.apply(part, Create(KEYED, 1, -1, "L1", Mode.MIRROR))
    more = schema_of({"id": "int", "v": "string", "id_bucket": "int", "tenant": "string"}, ["id"])
    with pytest.raises(UnsupportedDdl, match="has partitions named id_bucket") as raised:
        ours.apply(part, Evolve(more, 2))
    assert "a separate target table" in (raised.value.remedy or "")
