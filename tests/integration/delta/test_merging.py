"""Random histories in batches cut anywhere, by the batch and by what fits into memory, end as a model says."""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from random import Random
from typing import Any

import pytest

from replicator.errors import TableError, ValuesLost
from replicator.model.mode import Mode
from replicator.targets.base import Append, DeleteBelow, Evolve, Merge, Replace
from replicator.targets.delta import apply
from replicator.targets.delta.table import OpenTable
from tests.integration.delta.lake import DeltaLake
from tests.integration.direct.play import SHAPES, Play
from tests.integration.spark.mode_models import Model
from tests.integration.spark.unchanged_histories import SCHEMA, Source, staged
from tests.staged import TS, Change, delete, insert, read, schema_of, update

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
KEYLESS = schema_of({"v": "string"})
SECOND = dt.timedelta(seconds=1)
KEPT = [Mode.SOFT_DELETE, Mode.HISTORY, Mode.CHANGELOG]


@pytest.fixture(params=[1, apply.MEMORY], ids=["batch by batch", "whole"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes that are folded at a time; of one byte every batch that is read from a segment is a part."""
    monkeypatch.setattr(apply, "MEMORY", request.param)
    monkeypatch.setattr("replicator.staging.reader.MIN_ROWS", 7)
    return int(request.param)


@pytest.mark.parametrize("keys", SHAPES, ids="+".join)
def test_random_batches_end_as_their_source(lake: DeltaLake, keys: tuple[str, ...], memory: int) -> None:
    del memory
    play = Play(Random(f"delta {keys}"), keys)
    table = lake.table(play.schema)
    for _ in range(8):
        segments = [lake.segment(play.schema, play.batch(size)) for size in (play.random.randint(1, 40), 8)]
        lake.target.apply(table, Merge(segments, play.schema, play.seq))
        assert Counter(lake.rows(table)) == Counter(play.rows.values())
        assert lake.data_files(table) >= lake.live_files(table)


def timed(changes: list[Change], random: Random) -> list[Change]:
    """A clock that stands still, and sometimes runs backwards; a READ is as old as its segment."""
    return [
        Change(one.seq, one.op, one.before, one.row,
            TS if one.op == "READ" else TS + SECOND * (one.seq // 7 + random.randint(-3, 3)))
        for one in changes
    ]  # fmt: skip


@pytest.mark.parametrize("mode", KEPT)
@pytest.mark.parametrize("keys", [("int",), ("bigint", "string")], ids="+".join)
def test_histories_cut_anywhere_end_as_their_model(
    lake: DeltaLake, mode: Mode, keys: tuple[str, ...], memory: int
) -> None:
    del memory
    random = Random(f"{mode} {keys}")
    play = Play(random, keys, keyspace=12)
    model = Model(tuple(play.schema.names.index(name) for name in play.keys))
    table = lake.table(play.schema, mode=mode)
    staged_so_far: list[Any] = []
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
        lake.target.apply(table, Merge(staged_so_far, play.schema, upto))
        assert Counter(lake.rows(table, sequence=True)) == Counter(model.rows(mode)), number
        assert lake.target.apply(table, Merge(parts, play.schema, upto)).how == "skip"
    below = DeleteBelow(play.seq - 5, play.next(), "SWEEP", TS + SECOND * 10_000)
    model.below(below.below, TS + SECOND * 10_000, below.upto, "SWEEP")
    lake.target.apply(table, below)
    assert Counter(lake.rows(table, sequence=True)) == Counter(model.rows(mode))


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE, Mode.HISTORY])
def test_values_left_out_are_found(lake: DeltaLake, mode: Mode, memory: int) -> None:
    del memory
    source = Source(Random(f"left out {mode}"))
    table = lake.table(SCHEMA, mode=mode)
    for _ in range(2):
        for _ in range(400):
            source.step()
        events = source.take()
        assert any(event.left_out for event in events)
        segment = staged(lake, events)  # type: ignore[arg-type]
        lake.target.apply(table, Merge([segment], SCHEMA, segment.last_sequence))
        rows = lake.rows(table, sequence=True)
        if mode is not Mode.MIRROR:
            rows = [row for row in rows if (row[-1] if mode is Mode.HISTORY else not row[-2])]
        assert Counter(row[:7] for row in rows) == Counter(source.state())


def test_a_value_that_is_nowhere_stops_the_table_unless_the_row_is_about_to_go(lake: DeltaLake) -> None:
    source = Source(Random(3))
    for _ in range(300):
        source.step()
    source.take()
    for _ in range(100):
        source.step()
    segment = staged(lake, source.take())  # type: ignore[arg-type]
    table = lake.table(SCHEMA)
    with pytest.raises(ValuesLost, match="omitted as unchanged"):
        lake.target.apply(table, Merge([segment], SCHEMA, segment.last_sequence))
    assert lake.data_files(table) == set()
    lake.target.apply(table, Merge([segment], SCHEMA, segment.last_sequence, emptied=True))


@pytest.mark.parametrize("kind", ["float", "double"])
def test_keys_of_floating_point_are_one_whatever_the_zeros_sign(lake: DeltaLake, kind: str) -> None:
    schema = schema_of({"k": kind, "v": "string"}, ["k"])
    table = lake.table(schema)
    lake.merge(table, schema, insert(0, 0.0, "zero"), insert(1, 1.5, "x"), insert(2, float("nan"), "nan"))
    lake.merge(table, schema, update(3, (-0.0, "zero"), (-0.0, "minus")), delete(4, 1.5, "x"),
        update(5, (float("nan"), "nan"), (float("nan"), "again")))  # fmt: skip
    assert sorted((repr(key), text) for key, text in lake.rows(table)) == [("-0.0", "minus"), ("nan", "again")]


def test_equal_rows_of_a_table_without_key_are_counted(lake: DeltaLake, memory: int) -> None:
    del memory
    schema = schema_of({"f": "double", "v": "string"})
    random, table, rows = Random(11), lake.table(schema, load=""), Counter[Any]()
    chunk = lake.segment(schema, [read(n, 1.0, "x") for n in range(5)])
    lake.target.apply(table, Replace([chunk], schema, 1, 4, 4, "L1"))
    rows[repr((1.0, "x"))] = 5
    values: list[Any] = [(0.0, "x"), (-0.0, "x"), (float("nan"), None), (None, ""), (1.0, "x")]
    seq = 5
    for _ in range(6):
        changes = []
        for _ in range(30):
            there = [one for one in values if rows[repr(one)]]
            new = random.choice(values)
            kind = random.choice(["insert", "delete", "update"]) if there else "insert"
            if kind != "insert":
                old = random.choice(there)
                rows[repr(old)] -= 1
                changes.append(delete(seq, *old) if kind == "delete" else update(seq, old, new))
            else:
                changes.append(insert(seq, *new))
            if kind != "delete":
                rows[repr(new)] += 1
            seq += 1
        lake.merge(table, schema, *changes)
        assert Counter(repr(row) for row in lake.rows(table)) == +rows
    with pytest.raises(TableError, match="1 of 1 rows to delete were not found"):
        lake.merge(table, schema, delete(seq, 99.0, "none"))


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE, Mode.HISTORY])
def test_columns_that_the_source_no_longer_has_keep_their_values(lake: DeltaLake, mode: Mode) -> None:
    table = lake.table(KEYED, mode=mode)
    lake.merge(table, KEYED, insert(0, 1, "a"), insert(1, 2, "b"))
    narrow = schema_of({"id": "int"}, ["id"])
    lake.target.apply(table, Evolve(narrow, 2, keep_dropped=True))
    staged_one = lake.segment(narrow, [update(2, (1,), (1,)), insert(3, 3)], 2)
    lake.target.apply(table, Merge([staged_one], narrow, 3))
    now = [row for row in lake.rows(table) if mode is not Mode.HISTORY or row[-1]]
    kept = {row[0]: row[1] for row in now}
    assert kept == ({1: None, 2: "b", 3: None} if mode is Mode.HISTORY else {1: "a", 2: "b", 3: None})
    lake.target.apply(table, Evolve(KEYED, 3))  # the source has it again: another column
    assert {row[1] for row in lake.rows(table)} == {None}


def test_a_renamed_column_keeps_its_values_and_another_one_of_its_name_has_none(lake: DeltaLake) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, insert(0, 1, "a"))
    lake.target.apply(table, Evolve(schema_of({"id": "int", "w": "string"}, ["id"]), 2, {"v": "w"}))
    both = schema_of({"id": "int", "v": "timestamp_ntz", "w": "string"}, ["id"])
    lake.target.apply(table, Evolve(both, 3))
    assert sorted(lake.arrow(table).to_pylist()[0].items()) == [
        ("_sequence_num", 0), ("id", 1), ("v", None), ("w", "a"),
    ]  # fmt: skip
    lake.target.apply(table, Evolve(schema_of({"w": "string", "id": "bigint"}, ["id"]), 4))
    assert lake.arrow(table).to_pylist() == [{"w": "a", "id": 1, "_sequence_num": 0}]


def test_columns_that_delta_lake_takes_for_one_stop_the_table(lake: DeltaLake) -> None:
    with pytest.raises(TableError, match="takes for one"):
        lake.table(schema_of({"id": "int", "a": "int", "A": "int"}, ["id"]))


def test_names_of_any_characters(lake: DeltaLake) -> None:
    odd = schema_of({"a.b": "int", 'q"`;': "string", "a": "string", "ä ö": "date"}, ["a.b"])
    tables = [lake.table(odd, name) for name in ("a/b", "..", "a b%2F#?", "~dropped", "x" * 255, "ö" * 200, "A", "a")]
    for number, table in enumerate(tables):
        lake.merge(table, odd, insert(0, number, "x", "y", None), insert(1, 99, "x", "y", dt.date(2020, 1, 1)))
        lake.merge(
            table, odd, delete(2, 99, "x", "y", None), update(3, (number, "x", "y", None), (number, "z", "", None))
        )
    assert [lake.rows(table) for table in tables] == [[(n, "z", "", None)] for n in range(len(tables))]
    assert len({lake.folder(table) for table in tables}) == len(tables)


def test_many_rows_make_files_that_statistics_tell_apart(lake: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicator.targets.delta.live_files.ALONE", 1)
    table = lake.table(KEYED)
    for first in range(0, 400, 100):
        chunk = lake.segment(KEYED, [read(n, n, f"v{n}") for n in range(first, first + 100)])
        lake.target.apply(table, Append([chunk], KEYED, first + 99))
    before = lake.live_files(table)
    assert len(before) == 4
    lake.merge(table, KEYED, *[update(500 + n, (n, f"v{n}"), (n, "new")) for n in range(110, 120)])
    assert len(before & lake.live_files(table)) == 3
    opened = OpenTable.load(lake.store, table)
    assert opened is not None
    assert all(one.rows > 0 and one.low["id"] <= one.high["id"] and one.nulls["id"] == 0 for one in opened.files())
    assert lake.open(table).to_pyarrow_table(filters=[("id", "=", 115)]).num_rows == 1


def test_a_change_that_is_interrupted_leaves_nothing(lake: DeltaLake) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, insert(0, 1, "a"))
    opened = OpenTable.load(lake.store, table)
    assert opened is not None
    stop = threading.Event()
    stop.set()
    before = lake.data_files(table)
    segment = lake.segment(KEYED, [update(1, (1, "a"), (1, "b"))])
    with pytest.raises(Exception, match="interrupted"):
        apply.merge(lake.storage, opened, Merge([segment], KEYED, 1), stop)
    assert lake.data_files(table) == before
    assert lake.rows(table) == [(1, "a")]
