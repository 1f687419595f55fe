"""Chunks' files that are segments as they are: numbers by place, rows left out (`state.journal.Segment.bare`)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from replicator.targets.base import Append, Merge, Replace
from tests.integration.spark.lake import Lake
from tests.staged import delete, schema_of, update

PEOPLE = schema_of({"id": "int", "name": "string"}, ["id"])
ROWS = [(n, f"name {n}") for n in range(8)]


def numbered(first: int, without: AbstractSet[int]) -> list[tuple[int, str, int]]:
    return [(*row, first + place) for place, row in enumerate(ROWS) if place not in without]


def test_an_initial_load_appends_them_numbered_by_their_place(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    first = lake.bare(PEOPLE, 10, ROWS[:4], without=[0, 2])
    second = lake.bare(PEOPLE, 14, ROWS[4:])
    lake.target.apply(table, Append([first, second], PEOPLE, second.last_sequence))
    assert sorted(lake.rows(table, sequence=True)) == numbered(10, {0, 2})
    position = lake.target.position(table)
    assert position is not None
    assert position.loaded == 17


def test_a_reload_merges_them_among_the_logs_changes(lake: Lake) -> None:
    """And what the target holds by its position is not taken again."""
    table = lake.table(PEOPLE)
    old = lake.segment(PEOPLE, [update(0, ROWS[3], (3, "old")), update(1, ROWS[7], (7, "old"))])
    chunk = lake.bare(PEOPLE, 10, ROWS, without=[6])
    log = lake.segment(
        PEOPLE, [update(20, ROWS[0], (100, "moved")), delete(21, *ROWS[1]), update(22, ROWS[3], (3, "new"))]
    )
    lake.target.apply(table, Merge([old], PEOPLE, 1))
    lake.target.apply(table, Merge([chunk, log], PEOPLE, 22))
    kept = numbered(10, {0, 1, 3, 6})
    assert sorted(lake.rows(table, sequence=True)) == sorted([*kept, (3, "new", 22), (100, "moved", 20)])
    again = lake.bare(PEOPLE, 20, ROWS)
    lake.target.apply(table, Merge([again], PEOPLE, again.last_sequence))  # 20 to 22 are in: their rows are not newer
    found = {row[0]: row[2] for row in lake.rows(table, sequence=True)}
    assert (found.get(0), found[3], found[7]) == (None, 23, 27)


def test_a_table_without_key_takes_them_in_place_of_its_rows(lake: Lake) -> None:
    schema = replace(PEOPLE, key=())
    table = lake.table(schema)
    chunk = lake.bare(schema, 5, [*ROWS[:2], *ROWS[:2], (9, None)])
    lake.target.apply(table, Replace([chunk], schema, 1, 4, chunk.last_sequence, "L2"))
    assert sorted(row[-1] for row in lake.rows(table, sequence=True)) == [5, 6, 7, 8, 9]
    lake.merge(table, schema, delete(10, *ROWS[0]))
    assert sorted(lake.rows(table), key=str) == sorted([ROWS[0], ROWS[1], ROWS[1], (9, None)], key=str)


def test_columns_may_be_called_as_what_spark_and_the_reading_call_theirs(lake: Lake) -> None:
    schema = schema_of({"id": "int", "_metadata": "string", "_file": "int", "a.b": "int", "_first": "int"}, ["id"])
    table = lake.table(schema)
    rows = [(1, "m", 2, 3, 4), (2, None, None, None, None)]
    chunk = lake.bare(schema, 0, rows)
    lake.target.apply(table, Append([chunk], schema, chunk.last_sequence))
    assert sorted(lake.rows(table)) == rows
