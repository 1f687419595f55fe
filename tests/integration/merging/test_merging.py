"""Random histories in batches cut anywhere, by the batch and by what fits into memory, end as a model says.

Of each target that folds in Arrow.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from random import Random
from typing import Any

import pytest

from replicator.errors import TableError, ValuesLost
from replicator.model.mode import Mode
from replicator.targets.base import DeleteBelow, Evolve, Merge, Replace
from tests.integration.delta.lake import DeltaLake
from tests.integration.direct.play import SHAPES, Play
from tests.integration.spark.mode_models import Model
from tests.integration.spark.unchanged_histories import SCHEMA, Source, staged
from tests.integration.warehouse.copies import Copies as DatabaseCopies
from tests.staged import TS, Change, delete, insert, read, schema_of, update

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
Copies = DeltaLake | DatabaseCopies
SECOND = dt.timedelta(seconds=1)
KEPT = [Mode.SOFT_DELETE, Mode.HISTORY, Mode.CHANGELOG]


@pytest.fixture(params=[1, 1 << 27], ids=["batch by batch", "whole"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes that are folded at a time; of one byte every batch that is read from a segment is a part."""
    monkeypatch.setattr("replicator.targets.delta.apply.MEMORY", request.param)
    monkeypatch.setattr("replicator.targets.warehouse.changes.MEMORY", request.param)
    monkeypatch.setattr("replicator.staging.reader.MIN_ROWS", 7)
    return int(request.param)


@pytest.mark.parametrize("keys", SHAPES, ids="+".join)
def test_random_batches_end_as_their_source(copies: Copies, keys: tuple[str, ...], memory: int) -> None:
    del memory
    play = Play(Random(f"delta {keys}"), keys)
    table = copies.table(play.schema)
    for _ in range(8):
        segments = [copies.segment(play.schema, play.batch(size)) for size in (play.random.randint(1, 40), 8)]
        copies.target.apply(table, Merge(segments, play.schema, play.seq))
        assert Counter(copies.rows(table)) == Counter(play.rows.values())


def timed(changes: list[Change], random: Random) -> list[Change]:
    """Change the commit times: they repeat and sometimes run backwards; a READ has the time of its segment."""
    return [
        Change(one.seq, one.op, one.before, one.row,
            TS if one.op == "READ" else TS + SECOND * (one.seq // 7 + random.randint(-3, 3)))
        for one in changes
    ]  # fmt: skip


@pytest.mark.parametrize("mode", KEPT)
@pytest.mark.parametrize("keys", [("int",), ("bigint", "string")], ids="+".join)
def test_histories_cut_anywhere_end_as_their_model(
    copies: Copies, mode: Mode, keys: tuple[str, ...], memory: int
) -> None:
    del memory
    random = Random(f"{mode} {keys}")
    play = Play(random, keys, keyspace=12)
    model = Model(tuple(play.schema.names.index(name) for name in play.keys))
    table = copies.table(play.schema, mode=mode)
    staged_so_far: list[Any] = []
    for number in range(5):
        changes = timed(play.batch(random.choice((1, 5, 40))), random)
        again = [read(play.next(), *row) for row in random.sample(list(play.rows.values()), min(3, len(play.rows)))]
        changes += timed(again, random)
        for change in changes:
            model.apply(change)
        cut = random.randrange(len(changes)) if len(changes) > 1 else 0
        parts = [copies.segment(play.schema, part) for part in (changes[:cut], changes[cut:]) if part]
        staged_so_far = [*staged_so_far[-1:], *parts]  # the last one again, as after a restart
        upto = parts[-1].last_sequence
        copies.target.apply(table, Merge(staged_so_far, play.schema, upto))
        assert Counter(copies.rows(table, sequence=True)) == Counter(model.rows(mode)), number
        assert copies.target.apply(table, Merge(parts, play.schema, upto)).how == "skip"
    below = DeleteBelow(play.seq - 5, play.next(), "SWEEP", TS + SECOND * 10_000)
    model.below(below.below, TS + SECOND * 10_000, below.upto, "SWEEP")
    copies.target.apply(table, below)
    assert Counter(copies.rows(table, sequence=True)) == Counter(model.rows(mode))


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE, Mode.HISTORY])
def test_values_left_out_are_found(copies: Copies, mode: Mode, memory: int) -> None:
    del memory
    source = Source(Random(f"left out {mode}"))
    table = copies.table(SCHEMA, mode=mode)
    for _ in range(2):
        for _ in range(400):
            source.step()
        events = source.take()
        assert any(event.left_out for event in events)
        segment = staged(copies, events)  # type: ignore[arg-type]
        copies.target.apply(table, Merge([segment], SCHEMA, segment.last_sequence))
        rows = copies.rows(table, sequence=True)
        if mode is not Mode.MIRROR:
            rows = [row for row in rows if (row[-1] if mode is Mode.HISTORY else not row[-2])]
        assert Counter(row[:7] for row in rows) == Counter(source.state())


def test_a_value_that_is_nowhere_stops_the_table_unless_the_row_is_about_to_go(copies: Copies) -> None:
    source = Source(Random(3))
    for _ in range(300):
        source.step()
    source.take()
    for _ in range(100):
        source.step()
    segment = staged(copies, source.take())  # type: ignore[arg-type]
    table = copies.table(SCHEMA)
    with pytest.raises(ValuesLost, match="omitted as unchanged"):
        copies.target.apply(table, Merge([segment], SCHEMA, segment.last_sequence))
    if isinstance(copies, DeltaLake):
        assert copies.data_files(table) == set()
    copies.target.apply(table, Merge([segment], SCHEMA, segment.last_sequence, emptied=True))


@pytest.mark.parametrize("kind", ["float", "double"])
def test_keys_of_floating_point_are_one_whatever_the_zeros_sign(copies: Copies, kind: str) -> None:
    schema = schema_of({"k": kind, "v": "string"}, ["k"])
    table = copies.table(schema)
    copies.merge(table, schema, insert(0, 0.0, "zero"), insert(1, 1.5, "x"), insert(2, float("nan"), "nan"))
    copies.merge(table, schema, update(3, (-0.0, "zero"), (-0.0, "minus")), delete(4, 1.5, "x"),
        update(5, (float("nan"), "nan"), (float("nan"), "again")))  # fmt: skip
    assert sorted((repr(key), text) for key, text in copies.rows(table)) == [("-0.0", "minus"), ("nan", "again")]


def test_equal_rows_of_a_table_without_key_are_counted(copies: Copies, memory: int) -> None:
    del memory
    schema = schema_of({"f": "double", "v": "string"})
    random, table, rows = Random(11), copies.table(schema, load=""), Counter[Any]()
    chunk = copies.segment(schema, [read(n, 1.0, "x") for n in range(5)])
    copies.target.apply(table, Replace([chunk], schema, 1, 4, 4, "L1"))
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
        copies.merge(table, schema, *changes)
        assert Counter(repr(row) for row in copies.rows(table)) == +rows
    with pytest.raises(TableError, match="1 of 1 rows to delete were not found"):
        copies.merge(table, schema, delete(seq, 99.0, "none"))


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE, Mode.HISTORY])
def test_columns_that_the_source_no_longer_has_keep_their_values(copies: Copies, mode: Mode) -> None:
    table = copies.table(KEYED, mode=mode)
    copies.merge(table, KEYED, insert(0, 1, "a"), insert(1, 2, "b"))
    narrow = schema_of({"id": "int"}, ["id"])
    copies.target.apply(table, Evolve(narrow, 2, keep_dropped=True))
    staged_one = copies.segment(narrow, [update(2, (1,), (1,)), insert(3, 3)], 2)
    copies.target.apply(table, Merge([staged_one], narrow, 3))
    now = [row for row in copies.rows(table) if mode is not Mode.HISTORY or row[-1]]
    kept = {row[0]: row[1] for row in now}
    assert kept == ({1: None, 2: "b", 3: None} if mode is Mode.HISTORY else {1: "a", 2: "b", 3: None})
    copies.target.apply(table, Evolve(KEYED, 3))  # the source has it again: another column
    assert not {"a", "b"} & {value for row in copies.rows(table) for value in row}


def test_a_renamed_column_keeps_its_values_and_another_one_of_its_name_has_none(copies: Copies) -> None:
    table = copies.table(KEYED)
    copies.merge(table, KEYED, insert(0, 1, "a"))
    copies.target.apply(table, Evolve(schema_of({"id": "int", "w": "string"}, ["id"]), 2, {"v": "w"}))
    both = schema_of({"id": "int", "v": "timestamp_ntz", "w": "string"}, ["id"])
    copies.target.apply(table, Evolve(both, 3))
    assert Counter(copies.rows(table)[0]) == Counter([1, None, "a"])
    copies.target.apply(table, Evolve(schema_of({"w": "string", "id": "bigint"}, ["id"]), 4))
    assert [set(row) for row in copies.rows(table, sequence=True)] == [{"a", 1, 0}]


def test_names_of_any_characters(copies: Copies) -> None:
    odd = schema_of({"a.b": "int", 'q"`;': "string", "a": "string", "ä ö": "date"}, ["a.b"])
    tables = [copies.table(odd, name) for name in ("a/b", "..", "a b%2F#?", "~dropped", "A", "a")]
    for number, table in enumerate(tables):
        copies.merge(table, odd, insert(0, number, "x", "y", None), insert(1, 99, "x", "y", dt.date(2020, 1, 1)))
        copies.merge(
            table, odd, delete(2, 99, "x", "y", None), update(3, (number, "x", "y", None), (number, "z", "", None))
        )
    assert [copies.rows(table) for table in tables] == [[(n, "z", "", None)] for n in range(len(tables))]
