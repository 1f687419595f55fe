"""Soft delete, history and changelog: random histories in batches cut anywhere end as a model of each says; a batch
again changes nothing.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from replicator.errors import TableError
from replicator.model.mode import Mode
from replicator.targets.base import Append, DeleteBelow, Evolve, Merge, Replace, TargetTable
from replicator.targets.iceberg.apply import LIMITS
from replicator.targets.iceberg.direct.writer import SPARK_ONLY, DirectLimits
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.direct.play import Play
from tests.integration.spark.lake import Lake
from tests.integration.spark.mode_models import Model
from tests.integration.spark.unchanged_histories import SCHEMA, Key, Source, key_of, staged
from tests.staged import TS, Change, Row, delete, insert, read, schema_of, update

KEPT = [Mode.SOFT_DELETE, Mode.HISTORY, Mode.CHANGELOG]
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
KEYLESS = schema_of({"v": "string"})
SECOND = dt.timedelta(seconds=1)


def ways(lake: Lake) -> tuple[IcebergTarget, IcebergTarget]:
    return lake.target, IcebergTarget(lake.spark, lake.storage, "r1", SPARK_ONLY)


def timed(changes: list[Change], random: Random) -> list[Change]:
    """Change the commit times: they repeat and sometimes run backwards; a READ has the time of its segment."""
    return [
        replace(change, at=TS if change.op == "READ" else TS + SECOND * (change.seq // 7 + random.randint(-3, 3)))
        for change in changes
    ]


def held(lake: Lake, table: TargetTable) -> Counter[Row]:
    return Counter(lake.rows(table, sequence=True))


@pytest.mark.parametrize("mode", KEPT)
@pytest.mark.parametrize("keys", [pytest.param(("int",), marks=pytest.mark.long), ("bigint", "string")], ids="+".join)
def test_histories_cut_anywhere_end_as_their_model(lake: Lake, mode: Mode, keys: tuple[str, ...]) -> None:
    random = Random(f"{mode} {keys}")
    play = Play(random, keys, keyspace=12)
    model = Model(tuple(play.schema.names.index(name) for name in play.keys))
    table, both = lake.table(play.schema, mode=mode), ways(lake)
    staged_so_far = []
    for number in range(5):
        changes = timed(play.batch(random.choice((1, 5, 40))), random)
        again = [read(play.next(), *row) for row in random.sample(list(play.rows.values()), min(3, len(play.rows)))]
        changes += timed(again, random)
        for change in changes:
            model.apply(change)
        cut = random.randrange(len(changes)) if len(changes) > 1 else 0
        parts = [lake.segment(play.schema, part) for part in (changes[:cut], changes[cut:]) if part]
        staged_so_far = [*staged_so_far[-1:], *parts]  # the last one again, as after a restart
        upto = parts[-1].last_sequence
        both[number % 2].apply(table, Merge(staged_so_far, play.schema, upto))
        assert held(lake, table) == Counter(model.rows(mode)), number
        assert lake.target.apply(table, Merge(parts, play.schema, upto)).how == "skip"
    below = DeleteBelow(play.seq - 5, play.next(), "SWEEP", TS + SECOND * 10_000)
    model.below(below.below, TS + SECOND * 10_000, below.upto, "SWEEP")
    lake.target.apply(table, below)
    assert held(lake, table) == Counter(model.rows(mode))


class Recording(dict[Key, tuple[Row, int]]):
    """All states that rows were ever in, and the last one of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.ever: dict[int, Row] = {}
        self.final: dict[Key, Row] = {}

    def __setitem__(self, key: Key, state: tuple[Row, int]) -> None:
        super().__setitem__(key, state)
        self.ever[state[1]], self.final[key] = state[0], state[0]


@pytest.mark.parametrize(
    ("mode", "limits"),
    [
        pytest.param(Mode.SOFT_DELETE, LIMITS, id="soft_delete-direct"),
        pytest.param(Mode.HISTORY, LIMITS, id="history-direct"),
        pytest.param(Mode.SOFT_DELETE, SPARK_ONLY, id="soft_delete-Spark", marks=pytest.mark.long),
        pytest.param(Mode.HISTORY, SPARK_ONLY, id="history-Spark"),
    ],
)
def test_values_left_out_are_found_for_every_version(lake: Lake, mode: Mode, limits: DirectLimits) -> None:
    recording = Recording()
    target = IcebergTarget(lake.spark, lake.storage, "r1", limits)
    source = Source(Random(f"left out {mode}"), rows=recording)
    table, arrivals = lake.table(SCHEMA, mode=mode), 0
    for _ in range(2):
        for _ in range(900):
            source.step()
        events = source.take()
        assert any(event.left_out for event in events)
        arrivals += sum(event.op in {"INSERT", "UPDATE"} for event in events)
        segment = staged(lake, events)
        how = target.apply(table, Merge([segment], SCHEMA, segment.last_sequence)).how
        assert how.endswith("(direct)") is (limits is LIMITS)
        rows = lake.rows(table, sequence=True)
        present = [row for row in rows if (row[-1] if mode is Mode.HISTORY else not row[-2])]
        assert Counter(row[:7] for row in present) == Counter(source.state())
    if mode is Mode.HISTORY:
        assert len(rows) == arrivals
        assert all(recording.ever[row[6]] == row[:6] for row in rows)
    else:
        assert {key_of(row): row[:6] for row in rows} == recording.final


@pytest.mark.parametrize("mode", KEPT)
def test_an_initial_load_and_the_log_that_waited_for_it(lake: Lake, mode: Mode) -> None:
    table = lake.table(KEYED, mode=mode, applied=9)
    log = lake.segment(
        KEYED, [update(10, (1, "a"), (1, "b")), delete(11, 2, "x"), insert(20, 3, "n"), delete(21, 3, "n")]
    )
    chunk = lake.bare(KEYED, 15, [(1, "b"), (4, "d")])
    late = lake.segment(KEYED, [update(30, (4, "d"), (5, "d"))])
    lake.target.apply(table, Append([chunk], KEYED, 16))
    lake.target.apply(table, Merge([log, late], KEYED, 30))
    rows = sorted(lake.rows(table, sequence=True), key=repr)
    if mode is Mode.SOFT_DELETE:
        assert rows == [
            (1, "b", 15, False, None),
            (3, "n", 21, True, TS),
            (4, "d", 30, True, TS),
            (5, "d", 30, False, None),
        ]
    elif mode is Mode.HISTORY:
        assert rows == [
            (1, "b", 15, TS, None, True), (3, "n", 20, TS, TS, False), (4, "d", 16, TS, TS, False),
            (5, "d", 30, TS, None, True),
        ]  # fmt: skip
    else:
        told = sorted((row[2], row[3], row[0], row[4]) for row in lake.rows(table, sequence=True) if row[3] != "READ")
        assert told == [
            (10, "UPDATE", 1, TS), (11, "DELETE", 2, TS), (20, "INSERT", 3, TS), (21, "DELETE", 3, TS),
            (30, "DELETE", 4, TS), (30, "UPDATE", 5, TS),
        ]  # fmt: skip
        assert {(row[2], row[0], row[4]) for row in rows if row[3] == "READ"} == {(15, 1, None), (16, 4, None)}


@pytest.mark.parametrize("mode", KEPT)
def test_columns_come_and_go_in_every_mode(lake: Lake, mode: Mode) -> None:
    table = lake.table(KEYED, mode=mode)
    lake.merge(table, KEYED, insert(0, 1, "a"), insert(1, 2, "b"))
    wider = schema_of({"id": "int", "w": "string", "more": "bigint"}, ["id"])
    lake.target.apply(table, Evolve(wider, 2, {"v": "w"}))
    segment = lake.segment(wider, [update(3, (1, "a", None), (1, "c", 7)), delete(4, 2, "b", None)], 2)
    lake.target.apply(table, Merge([segment], wider, 4))
    own = ["_sequence_num", *mode.columns]
    assert lake.arrow(table).column_names == ["id", "w", "more", *own]
    narrow = schema_of({"id": "int", "more": "bigint"}, ["id"])
    lake.target.apply(table, Evolve(narrow, 3))
    lake.target.apply(table, Merge([lake.segment(narrow, [insert(6, 3, 9)], 3)], narrow, 6))
    data = lake.arrow(table)
    assert data.column_names == ["id", "more", *own]
    count = {Mode.SOFT_DELETE: 3, Mode.HISTORY: 4, Mode.CHANGELOG: 5}[mode]
    assert data.num_rows == count
    taken = schema_of({"id": "int", next(iter(mode.columns)): "bigint"}, ["id"])
    with pytest.raises(TableError, match="reserved by Tidemark"):
        lake.target.apply(table, Evolve(taken, 4))


def test_a_changelog_tells_of_truncates_reloads_and_equal_rows(lake: Lake) -> None:
    table = lake.table(KEYLESS, mode=Mode.CHANGELOG, load="")
    first = lake.segment(KEYLESS, [read(5, "x"), read(6, "x")])
    lake.target.apply(table, Replace([first], KEYLESS, 1, 4, 6, "L1"))
    lake.merge(table, KEYLESS, insert(7, "y"), delete(8, "x"), update(9, ("y",), ("z",)))
    lake.target.apply(table, DeleteBelow(10, 10, "TRUNCATE_TABLE", TS))
    again = lake.segment(KEYLESS, [read(15, "n")])
    lake.target.apply(table, Replace([again], KEYLESS, 1, 12, 15, "L2"))
    told = sorted((row[1], row[2], row[0], row[5]) for row in lake.rows(table, sequence=True) if row[2] != "x")
    assert told == [
        (5, "READ", "x", None), (6, "READ", "x", None), (7, "INSERT", "y", None), (8, "DELETE", "x", None),
        (9, "UPDATE", "z", None), (10, "TRUNCATE_TABLE", None, 10), (12, "SWEEP", None, 13), (15, "READ", "n", None),
    ]  # fmt: skip
    position = lake.target.position(table)
    assert position is not None
    assert (position.applied, position.loaded, position.load, position.mode) == (12, 15, "L2", Mode.CHANGELOG)


def test_a_mirror_may_have_columns_that_other_modes_call_their_own(lake: Lake) -> None:
    named = schema_of({"id": "int", "_is_deleted": "string", "_valid_from": "int"}, ["id"])
    table = lake.table(named)
    lake.target.apply(table, Append([lake.bare(named, 0, [(1, "x", 5), (2, "y", 6)])], named, 1))
    lake.merge(table, named, update(3, (1, "x", 5), (1, "z", 7)), delete(4, 2, "y", 6))
    assert lake.rows(table) == [(1, "z", 7)]


@pytest.mark.parametrize("mode", [Mode.SOFT_DELETE, Mode.HISTORY])
def test_a_table_without_key_is_refused_with_a_sentence(lake: Lake, mode: Mode) -> None:
    with pytest.raises(TableError, match="has no key, which the mode"):
        lake.table(KEYLESS, mode=mode)
