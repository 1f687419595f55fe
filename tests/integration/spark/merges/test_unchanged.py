"""UPDATEs that leave out what they did not change: the values come from the batch or from the target."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from replicator.errors import TargetConflict, ValuesLost
from replicator.targets.base import Append, Evolve, Merge, Replace, TargetTable
from replicator.targets.iceberg.direct.writer import SPARK_ONLY
from replicator.targets.iceberg.spark import merge_unchanged
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.spark.lake import Lake
from tests.integration.spark.unchanged_histories import SCHEMA, Event, Row, Source, staged
from tests.staged import schema_of

NOTES = replace(schema_of({"id": "int", "a": "int", "doc": "string", "note": "string"}, ["id"]), partial=True)
DOC, NOTE = 2, 3


def note(seq: int, op: str, before: int | None, row: Row | None, *left_out: int) -> Event:
    """An event of the small table; `before` is the key before."""
    return Event(seq, op, None if before is None else (before, None, None, None), row, left_out)


def merged(lake: Lake, table: TargetTable, *events: Event) -> str:
    segment = staged(lake, events, NOTES)
    return lake.target.apply(table, Merge([segment], NOTES, segment.last_sequence)).how


def rows(lake: Lake, table: TargetTable) -> list[Row]:
    return sorted(lake.rows(table))


def in_order(lake: Lake, table: TargetTable) -> list[Row]:
    return sorted(lake.rows(table, sequence=True), key=lambda row: (row[1], row[4]))


def filled(lake: Lake, *given: Row) -> TargetTable:
    """A table with these rows, numbered from 0."""
    table = lake.table(NOTES)
    merged(lake, table, *[note(seq, "INSERT", None, row) for seq, row in enumerate(given)])
    return table


def in_spark(lake: Lake) -> Lake:
    return replace(lake, target=IcebergTarget(lake.spark, lake.storage, "r1", SPARK_ONLY))


@pytest.fixture(params=["direct", "Spark"])
def either(lake: Lake, request: pytest.FixtureRequest) -> Lake:
    """Directly, the same as Spark does it."""
    return lake if request.param == "direct" else in_spark(lake)


@pytest.mark.parametrize("seed", [11, pytest.param(12, marks=pytest.mark.long)])
def test_histories_end_as_their_source(either: Lake, seed: int) -> None:
    source = Source(Random(seed))
    table = either.table(SCHEMA)
    for count in (2_500, 3_500):
        for _ in range(count):
            source.step()
        segment = staged(either, source.take())
        how = either.target.apply(table, Merge([segment], SCHEMA, segment.last_sequence)).how
        assert how.endswith(("(direct)", "(Spark: switched off)"))
        assert in_order(either, table) == source.state()


@pytest.mark.parametrize("seed", [21, pytest.param(22, marks=pytest.mark.long)])
def test_histories_around_an_initial_load_end_as_their_source(either: Lake, seed: int) -> None:
    """Chunks show the state at their own place; the log's events up to the last of them wait, and are merged as one."""
    source = Source(Random(seed), unread={"a", "b"})
    for _ in range(600):
        source.step()
    before = source.take()[-1].seq  # these are before the log
    source.recorded.clear()
    table = either.table(SCHEMA, applied=before)
    for letter in ("b", "a"):
        for _ in range(700):
            source.step()
        segment = staged(either, source.chunk(letter))
        either.target.apply(table, Append([segment], SCHEMA, segment.last_sequence))
    log = source.take()
    assert any(e.left_out for e in log)
    for _ in range(700):
        source.step()
    after = source.take()
    for part in (log, after):
        segment = staged(either, part)
        either.target.apply(table, Merge([segment], SCHEMA, segment.last_sequence))
    assert in_order(either, table) == source.state()


def test_hard_cases_in_one_batch(either: Lake) -> None:
    given = [(i, 0, f"d{i}", f"n{i}") for i in (1, 10, 20, 21, 30, 40, 50, 60)]
    table = filled(either, *given, (70, 0, None, "n70"), (80, 0, "d80", "n80"))
    events: list[Any] = [
        # one row, its columns left out in turn
        ("UPDATE", 1, (1, 1, None, "N"), DOC),
        ("UPDATE", 1, (1, 2, "D", None), NOTE),
        # a chain of moves: 1 → 2 → 3, with a column set on the way
        ("UPDATE", 10, (11, 1, None, None), DOC, NOTE),
        ("UPDATE", 11, (12, 2, None, "N"), DOC),
        ("UPDATE", 12, (13, 3, None, None), DOC, NOTE),
        # two rows change places over a third key
        ("UPDATE", 20, (-20, 1, None, None), DOC, NOTE),
        ("UPDATE", 21, (20, 1, None, None), DOC, NOTE),
        ("UPDATE", -20, (21, 2, None, None), DOC, NOTE),
        # gone and there again: the new row's values, not the old one's
        ("DELETE", 30, (30, None, None, None)),
        ("INSERT", None, (30, 1, "new", None)),
        ("UPDATE", 30, (30, 2, None, None), DOC, NOTE),
        # moved away, and its old key taken by another row
        ("UPDATE", 40, (41, 1, None, None), DOC, NOTE),
        ("INSERT", None, (40, 1, "other", "row")),
        ("UPDATE", 40, (40, 2, None, "set"), DOC),
        ("UPDATE", 41, (41, 2, None, None), DOC, NOTE),
        # there and back
        ("UPDATE", 50, (51, 1, None, None), DOC, NOTE),
        ("UPDATE", 51, (50, 2, None, None), DOC, NOTE),
        # moved with left out values, and deleted then; and a row that the target has never had
        ("UPDATE", 60, (61, 1, None, None), DOC, NOTE),
        ("DELETE", 61, (61, None, None, None)),
        ("DELETE", 999, (999, None, None, None)),
        # a null that is known is a value, in the target and in the batch
        ("UPDATE", 70, (70, 1, None, None), DOC, NOTE),
        ("UPDATE", 80, (80, 1, None, None), NOTE),
        ("UPDATE", 80, (81, 2, None, None), DOC, NOTE),
        # a new row that moves
        ("INSERT", None, (90, 0, "d90", None)),
        ("UPDATE", 90, (91, 1, None, "n91"), DOC),
    ]
    how = merged(either, table, *[note(100 + n, *one) for n, one in enumerate(events)])
    assert how in {"merge (direct)", "merge (Spark: switched off)"}
    assert rows(either, table) == [
        (1, 2, "D", "N"),
        (13, 3, "d10", "N"),
        (20, 1, "d21", "n21"),
        (21, 2, "d20", "n20"),
        (30, 2, "new", None),
        (40, 2, "other", "set"),
        (41, 2, "d40", "n40"),
        (50, 2, "d50", "n50"),
        (70, 1, None, "n70"),
        (81, 2, None, "n80"),
        (91, 1, "d90", "n91"),
    ]


def test_a_row_that_the_load_read_gives_its_values_to_later_changes_only(either: Lake) -> None:
    """The chunk's row is newer than the log's first changes, whose values for the earlier row are obsolete."""
    table = either.table(NOTES, applied=9)
    chunk = staged(
        either,
        [
            note(20, "READ", None, (1, 5, "d at 20", "n at 20")),
            note(21, "READ", None, (2, 5, "another row", "n2")),
            note(22, "READ", None, (3, 5, "moved here", "n3")),
        ],
        NOTES,
    )
    either.target.apply(table, Append([chunk], NOTES, 22))
    merged(
        either,
        table,
        note(10, "UPDATE", 1, (1, 4, "older d", None), NOTE),
        note(11, "UPDATE", 1, (1, 4, None, "older n"), DOC),
        note(12, "UPDATE", 2, (3, 5, None, None), DOC, NOTE),  # this row was read at key 3, not at 2
        note(13, "INSERT", None, (2, 5, "another row", "n2")),
        note(14, "DELETE", 7, (7, None, None, None)),
        note(30, "UPDATE", 1, (1, 6, None, None), DOC, NOTE),
        note(31, "UPDATE", 3, (4, 6, None, "n4"), DOC),
    )
    assert rows(either, table) == [
        (1, 6, "d at 20", "n at 20"),
        (2, 5, "another row", "n2"),
        (4, 6, "moved here", "n4"),
    ]


def test_a_value_that_nobody_knows_stops_the_table_and_changes_nothing(either: Lake) -> None:
    table = filled(either, (1, 0, "d1", "n1"), (9, 0, "d9", "n9"))
    lost = [
        [note(10, "UPDATE", 5, (5, 1, None, "n"), DOC)],
        [note(10, "UPDATE", 5, (6, 1, None, "n"), DOC), note(11, "UPDATE", 6, (7, 1, None, "n"), DOC)],
        [note(10, "DELETE", 1, (1, None, None, None)), note(11, "UPDATE", 1, (1, 1, None, "n"), DOC)],
    ]
    for events in lost:
        with pytest.raises(ValuesLost, match="1 changed rows have values") as raised:
            merged(either, table, *events)
        assert raised.value.table == "shop.t"
    assert rows(either, table) == [(1, 0, "d1", "n1"), (9, 0, "d9", "n9")]
    position = either.target.position(table)
    assert position is not None
    assert position.applied == 1


def test_before_a_truncate_nothing_needs_to_be_known(lake: Lake) -> None:
    table = filled(lake, (1, 0, "d1", "n1"))
    lost = staged(
        lake, [note(10, "UPDATE", 3, (3, 1, None, "n3"), DOC), note(11, "INSERT", None, (4, 1, "d", "n"))], NOTES
    )
    lake.target.apply(table, Merge([lost], NOTES, 11, emptied=True))
    assert rows(lake, table) == [(1, 0, "d1", "n1"), (4, 1, "d", "n")]


def test_a_stale_worker_is_not_told_that_the_table_is_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker has merged the batch, and a delete after it, before this one looks at the target's rows."""
    table = filled(lake, (1, 0, "d1", "n1"), (2, 0, "d2", "n2"))
    batch = staged(lake, [note(10, "UPDATE", 1, (1, 1, None, None), DOC, NOTE)], NOTES)
    held = merge_unchanged._held

    def late(*args: Any) -> Any:
        monkeypatch.undo()
        lake.target.apply(table, Merge([batch], NOTES, 10))
        merged(lake, table, note(11, "DELETE", 1, (1, None, None, None)))
        return held(*args)

    monkeypatch.setattr(merge_unchanged, "_held", late)
    with pytest.raises(TargetConflict):
        lake.another_worker(limits=SPARK_ONLY).apply(table, Merge([batch], NOTES, 10))
    assert rows(lake, table) == [(2, 0, "d2", "n2")]


def test_long_chains_and_hot_keys_take_few_steps(either: Lake) -> None:
    table = filled(either, (0, 0, "first", "n"), (-1, 0, "hot", "n"), (-2, 0, "stays", "n"))
    chain = [note(10 + n, "UPDATE", n, (n + 1, n, None, None), DOC, NOTE) for n in range(1_000)]
    hot = [note(2_000 + n, "UPDATE", -1, (-1, n, None, f"n{n}"), DOC) for n in range(5_000)]
    merged(either, table, *chain, *hot)
    assert rows(either, table) == [(-2, 0, "stays", "n"), (-1, 4999, "hot", "n4999"), (1000, 999, "first", "n")]


def test_batches_that_left_out_nothing_go_the_ordinary_way(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = in_spark(lake)
    table = filled(lake, (1, 0, "d1", "n1"), (2, 0, "d2", "n2"))
    monkeypatch.setattr(merge_unchanged, "folded", None)
    merged(lake, table, note(10, "UPDATE", 1, (1, 1, "D", None)), note(11, "UPDATE", 2, (3, 1, None, "N")))
    assert rows(lake, table) == [(1, 1, "D", None), (3, 1, None, "N")]


def test_replace_and_schema_change_of_a_table_that_leaves_out(lake: Lake) -> None:
    """A column that is new in the target is null in the rows that were there; places are those of the batch's own
    schema.
    """
    table = lake.table(NOTES)
    chunk = staged(lake, [note(3, "READ", None, (1, 0, "d1", "n1"))], NOTES)
    lake.target.apply(table, Replace([chunk], NOTES, 1, 2, 3, "L1"))
    wide = {"extra": "string", "id": "int", "a": "int", "doc": "string", "note": "string"}
    later = replace(schema_of(wide, ["id"]), partial=True)
    old = staged(lake, [note(10, "UPDATE", 1, (1, 1, None, "N"), DOC)], NOTES)
    lake.target.apply(table, Merge([old], NOTES, 10))
    lake.target.apply(table, Evolve(later, 2))
    new = staged(lake, [Event(11, "UPDATE", (None, 1, None, None, None), ("x", 2, 2, None, None), (3, 4))], later, 2)
    lake.target.apply(table, Merge([new], later, 11))
    data = lake.arrow(table)
    assert data.select(["extra", "id", "a", "doc", "note"]).to_pylist() == [
        {"extra": "x", "id": 2, "a": 2, "doc": "d1", "note": "N"}
    ]
