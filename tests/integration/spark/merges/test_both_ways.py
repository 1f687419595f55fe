"""Direct merges and Spark's, side by side: they end the same, on one table too, and Spark reads what was written
without it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from replicator.folding import staged_changes
from replicator.targets.base import DeleteBelow, Merge
from replicator.targets.iceberg.direct.writer import SPARK_ONLY, DirectLimits
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.direct.play import Play
from tests.integration.spark.lake import Lake
from tests.staged import insert, schema_of, update

KEYED = schema_of({"id": "int", "v": "string"}, ["id"])


@pytest.fixture(scope="module")
def in_spark(lake: Lake) -> IcebergTarget:
    return IcebergTarget(lake.spark, lake.storage, "r1", SPARK_ONLY)


@pytest.mark.parametrize("keys", [pytest.param(("int",), marks=pytest.mark.long), ("bigint", "string")], ids="+".join)
def test_both_ways_on_one_table_end_as_spark_alone(lake: Lake, in_spark: IcebergTarget, keys: tuple[str, ...]) -> None:
    play = Play(Random(f"both {keys}"), keys)
    ours, theirs = lake.table(play.schema), lake.table(play.schema)
    for number in range(6):
        change = Merge([lake.segment(play.schema, play.batch(40))], play.schema, play.seq)
        how = (in_spark if number == 3 else lake.target).apply(ours, change).how
        assert how == "merge (Spark: switched off)" if number == 3 else how.endswith("(direct)")
        in_spark.apply(theirs, change)
    assert Counter(lake.rows(ours)) == Counter(play.rows.values())
    assert Counter(lake.rows(ours, sequence=True)) == Counter(lake.rows(theirs, sequence=True))
    with lake.spark.session({}) as spark:
        one, two = (spark.table(f"lake.`{table.namespace}`.`{table.name}`") for table in (ours, theirs))
        assert one.exceptAll(two).count() == two.exceptAll(one).count() == 0


@pytest.mark.parametrize("keys", [pytest.param(("int",), marks=pytest.mark.long), ("string",)], ids="+".join)
def test_sweeps_take_the_same_rows_both_ways(lake: Lake, in_spark: IcebergTarget, keys: tuple[str, ...]) -> None:
    random = Random(f"sweeps {keys}")
    play = Play(random, keys)
    ours, theirs = lake.table(play.schema), lake.table(play.schema)
    gone = 0
    for number in range(6):
        batch = [lake.segment(play.schema, play.batch(40))]
        both = [Merge(batch, play.schema, play.seq)]
        if number % 2:
            play.seq += 1
            both.append(DeleteBelow(random.randint(0, play.seq), play.seq))
        for change in both:
            before = len(lake.rows(ours))
            done = lake.target.apply(ours, change)
            in_spark.apply(theirs, change)
            assert done.how.endswith("(direct)")
        if number % 2:
            assert done.deleted == before - len(lake.rows(ours))
            gone += done.deleted
        assert Counter(lake.rows(ours, sequence=True)) == Counter(lake.rows(theirs, sequence=True))
    assert gone > 20


def test_of_a_batch_that_is_too_large_the_first_segments_are_merged_directly(lake: Lake) -> None:
    few, table = IcebergTarget(lake.spark, lake.storage, "r1", DirectLimits(rows=5)), lake.table(KEYED)
    twos = [lake.segment(KEYED, [insert(n, n, "x"), insert(n + 1, n + 1, "x")]) for n in (0, 2, 4)]
    batch = Merge(
        [*twos, lake.segment(KEYED, [update(n, (n % 6, "x"), (n % 6, "y")) for n in range(6, 12)])], KEYED, 11
    )
    done = few.apply(table, batch)
    assert (done.how, done.inserted, done.upto) == ("append (direct)", 4, 3)
    assert few.position(table).applied == 3  # type: ignore[union-attr]
    done = few.apply(table, replace(batch, whole_to=6))
    assert (done.how, done.upto) == ("merge (Spark: 8 changes)", None)
    assert few.position(table).applied == 11  # type: ignore[union-attr]
    assert lake.rows(table) == [(n, "y") for n in range(6)]


def test_a_batch_that_does_not_fit_in_memory_is_halved(lake: Lake) -> None:
    table, seq = lake.table(KEYED), itertools.count()
    whole = [lake.segment(KEYED, [insert(next(seq), n, "x" * 1000) for n in range(100)]) for _ in range(4)]
    quarter = staged_changes.changes(lake.storage, whole[:1], KEYED, -1, 1 << 30).nbytes  # type: ignore[union-attr]
    small = IcebergTarget(lake.spark, lake.storage, "r1", DirectLimits(memory=2 * quarter + quarter // 2))
    batch = Merge(whole, KEYED, 399)
    assert [small.apply(table, batch).upto for _ in range(2)] == [199, None]
    assert lake.rows(table) == [(n, "x" * 1000) for n in range(100)]


def test_what_is_too_large_or_needs_spark_says_so(lake: Lake) -> None:
    few = IcebergTarget(lake.spark, lake.storage, "r1", DirectLimits(rows=3))
    table = lake.table(KEYED)
    four = lake.segment(KEYED, [insert(n, n, "x") for n in range(4)])
    assert few.apply(table, Merge([four], KEYED, 3)).how == "append (Spark: 4 changes)"
    floats = schema_of({"d": "double", "v": "int"}, ["d"])
    table = lake.table(floats)
    one = lake.segment(floats, [insert(0, -0.0, 1), insert(1, 1.5, 2)])
    assert lake.target.apply(table, Merge([one], floats, 1)).how == "append (Spark: key type)"
