"""Merges of tables with a key."""

from __future__ import annotations

from replicator.model.identifiers import TableId
from replicator.targets.base import Append, ApplyResult, Merge, Position
from tests.integration.spark.lake import Lake
from tests.staged import delete, insert, read, schema_of, update

PEOPLE = schema_of({"id": "int", "name": "string"}, ["id"])


def test_the_design_documents_customers_end_as_its_tables_say(lake: Lake) -> None:
    schema = schema_of({"id": "int", "name": "string"}, ["id"], TableId("myDB", "customers"))
    table = lake.table(schema, applied=1)
    lake.merge(
        table,
        schema,
        insert(2, 0, "alice"),
        update(3, (0, "alice"), (1, "alice")),
        update(4, (1, "alice"), (2, "alice")),
        delete(5, 2, "alice"),
        insert(6, 0, "Alice"),
        insert(7, 1, "blob"),
        update(8, (1, "blob"), (1, "Bob")),
    )
    assert sorted(lake.rows(table, sequence=True)) == [(0, "Alice", 6), (1, "Bob", 8)]
    assert lake.target.position(table) == Position(8, -1, 1, "L1")


def test_the_same_changes_one_at_a_time_end_the_same(lake: Lake) -> None:
    table = lake.table(PEOPLE, applied=1)
    steps = [
        insert(2, 0, "alice"),
        update(3, (0, "alice"), (1, "alice")),
        update(4, (1, "alice"), (2, "alice")),
        delete(5, 2, "alice"),
        insert(6, 0, "Alice"),
        insert(7, 1, "blob"),
        update(8, (1, "blob"), (1, "Bob")),
    ]
    seen = []
    for step in steps:
        lake.merge(table, PEOPLE, step)
        seen.append(sorted(lake.rows(table)))
    assert seen[:4] == [[(0, "alice")], [(1, "alice")], [(2, "alice")], []]
    assert seen[-1] == [(0, "Alice"), (1, "Bob")]


def test_keys_that_move_in_chains_and_swap_places_keep_their_rows(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    lake.merge(table, PEOPLE, insert(0, 1, "a"), insert(1, 2, "b"), insert(2, 5, "e"))
    how = lake.merge(
        table,
        PEOPLE,
        update(3, (1, "a"), (-1, "a")),  # 1 and 2 swap over a third key
        update(4, (2, "b"), (1, "b")),
        update(5, (-1, "a"), (2, "a")),
        update(6, (5, "e"), (6, "e")),  # a chain
        update(7, (6, "e"), (7, "e")),
        update(8, (7, "e"), (7, "E")),
        insert(9, 8, "x"),  # there and gone and there again
        delete(10, 8, "x"),
        insert(11, 8, "y"),
        update(12, (8, "y"), (9, "y")),  # there and back
        update(13, (9, "y"), (8, "y")),
        insert(14, 20, "z"),
        delete(15, 20, "z"),
    )
    assert how == "merge"
    assert sorted(lake.rows(table)) == [(1, "b"), (2, "a"), (7, "E"), (8, "y")]


def test_counts_tell_what_the_commit_did(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    lake.merge(table, PEOPLE, *[insert(i, i, "x") for i in range(10)])
    segment = lake.segment(
        PEOPLE,
        [delete(10, 0, "x"), update(11, (1, "x"), (1, "y")), update(12, (2, "x"), (30, "x")), insert(13, 31, "n")],
    )
    result = lake.target.apply(table, Merge([segment], PEOPLE, 13))
    assert (result.inserted, result.updated, result.deleted, result.how) == (2, 1, 2, "merge (direct)")


def test_composite_keys_fold_by_all_their_columns(lake: Lake) -> None:
    schema = schema_of({"a": "int", "note": "string", "b": "string"}, ["a", "b"])
    table = lake.table(schema)
    lake.merge(table, schema, insert(0, 1, "n", "x"), insert(1, 1, "n", "y"), insert(2, 2, "n", "x"))
    lake.merge(
        table,
        schema,
        update(3, (1, "n", "x"), (1, "m", "x")),
        delete(4, 1, "n", "y"),
        update(5, (2, "n", "x"), (2, "n", "z")),
    )
    assert sorted(lake.rows(table)) == [(1, "m", "x"), (2, "n", "z")]


def test_an_older_change_never_overwrites_a_newer_row(lake: Lake) -> None:
    """The initial load's rows carry later numbers than log changes that were waiting (invariants 4 and 5)."""
    table = lake.table(PEOPLE, applied=9)
    chunk = lake.segment(PEOPLE, [read(20, 1, "new"), read(21, 2, "new")])
    lake.target.apply(table, Append([chunk], PEOPLE, 21))
    lake.merge(
        table,
        PEOPLE,
        update(15, (1, "old"), (1, "older")),
        delete(16, 2, "old"),
        insert(17, 3, "gone since"),
        delete(30, 3, "x"),
    )
    assert sorted(lake.rows(table)) == [(1, "new"), (2, "new")]
    assert lake.target.position(table) == Position(30, 21, 1, "L1")


def test_keys_above_all_there_are_become_an_append(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    assert lake.merge(table, PEOPLE, insert(0, 1, "a"), insert(1, 2, "b")) == "append"
    assert lake.merge(table, PEOPLE, insert(2, 3, "c"), insert(3, 4, "d"), update(4, (4, "d"), (4, "D"))) == "append"
    assert lake.merge(table, PEOPLE, insert(5, 5, "e"), delete(6, 2, "b")) == "merge"
    assert sorted(lake.rows(table)) == [(1, "a"), (3, "c"), (4, "D"), (5, "e")]


def test_several_segments_are_one_commit_and_those_applied_are_left_out(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    first = lake.segment(PEOPLE, [insert(0, 1, "a"), update(2, (1, "a"), (1, "b"))])
    second = lake.segment(PEOPLE, [update(3, (1, "b"), (1, "c")), insert(5, 2, "x")])
    lake.target.apply(table, Merge([first], PEOPLE, 2))
    lake.target.apply(table, Merge([first, second], PEOPLE, 6))
    assert sorted(lake.rows(table, sequence=True)) == [(1, "c", 3), (2, "x", 5)]
    assert lake.target.position(table) == Position(6, -1, 1, "L1")


def test_a_fold_that_leaves_nothing_still_moves_the_position(lake: Lake) -> None:
    table = lake.table(PEOPLE)
    lake.merge(table, PEOPLE, insert(0, 1, "a"), delete(1, 1, "a"))
    assert (lake.rows(table), lake.target.position(table)) == ([], Position(1, -1, 1, "L1"))
    lake.merge(table, PEOPLE, insert(2, 1, "a"))
    lake.merge(table, PEOPLE, delete(3, 7, "not there"), delete(4, -3, "not there"))
    result = lake.target.apply(table, Merge([], PEOPLE, 10))
    assert result == ApplyResult(0, 0, 0, "nothing", result.seconds)
    assert (lake.rows(table), lake.target.position(table)) == ([(1, "a")], Position(10, -1, 1, "L1"))
