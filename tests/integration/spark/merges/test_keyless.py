"""Tables without a key: multisets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from replicator.errors import TableError, TargetConflict
from replicator.model.identifiers import TableId
from replicator.targets.base import Merge, Position, Replace
from replicator.targets.iceberg.spark import keyless
from tests.integration.spark.lake import Lake
from tests.staged import delete, insert, read, schema_of, update

NAMES = schema_of({"name": "string", "n": "int"})


def test_the_design_documents_table_without_key_ends_as_its_tables_say(lake: Lake) -> None:
    schema = schema_of({"name": "string"}, [], TableId("myDB", "customers"))
    table = lake.table(schema)
    lake.merge(table, schema, insert(2, "alice"), insert(3, "alice"), insert(4, "Bob"))
    assert sorted(lake.rows(table)) == [("Bob",), ("alice",), ("alice",)]
    lake.merge(table, schema, update(5, ("alice",), ("Alyce",)), update(6, ("alice",), ("Alyce",)))
    assert sorted(lake.rows(table)) == [("Alyce",), ("Alyce",), ("Bob",)]
    lake.merge(table, schema, update(7, ("Alyce",), ("Alice",)), update(8, ("Alyce",), ("Alice",)))
    lake.merge(table, schema, delete(9, "Alice"), delete(10, "Alice"))
    assert lake.rows(table, sequence=True) == [("Bob", 4)]


def test_the_whole_of_it_in_one_batch_is_an_append(lake: Lake) -> None:
    table = lake.table(NAMES)
    how = lake.merge(
        table,
        NAMES,
        insert(0, "a", 1),
        insert(1, "a", 1),
        update(2, ("a", 1), ("b", 1)),
        delete(3, "b", 1),
        insert(4, "c", None),
        update(5, ("c", None), ("c", None)),
    )
    assert how == "append"
    assert sorted(lake.rows(table, sequence=True)) == [("a", 1, 1), ("c", None, 5)]


def test_exactly_as_many_equal_rows_go_as_were_deleted_and_nulls_are_equal(lake: Lake) -> None:
    table = lake.table(NAMES)
    lake.merge(
        table,
        NAMES,
        *[insert(i, "x", None) for i in range(5)],
        *[insert(5 + i, None, None) for i in range(3)],
        insert(8, "x", 0),
    )
    how = lake.merge(
        table,
        NAMES,
        delete(10, "x", None),
        delete(11, "x", None),
        update(12, (None, None), ("x", None)),
        delete(13, None, None),
    )
    assert how == "merge"
    assert Counter(lake.rows(table)) == {("x", None): 4, (None, None): 1, ("x", 0): 1}
    numbers = [row[-1] for row in lake.rows(table, sequence=True)]
    assert len(set(numbers)) == len(numbers)


def test_a_row_to_delete_that_is_not_there_is_told_and_changes_nothing(lake: Lake) -> None:
    table = lake.table(NAMES)
    lake.merge(table, NAMES, insert(0, "x", 1))
    with pytest.raises(TableError, match="1 of 2 rows to delete were not found") as raised:
        lake.merge(table, NAMES, delete(1, "x", 1), delete(2, "x", 1))
    assert raised.value.table == "shop.t"
    assert (lake.rows(table), lake.target.position(table)) == ([("x", 1)], Position(0, -1, 1, "L1"))


def test_a_stale_worker_is_not_told_that_rows_to_delete_are_missing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker has merged the batch before this one looks for the rows."""
    table = lake.table(NAMES)
    lake.merge(table, NAMES, insert(0, "x", 1), insert(1, "y", 2))
    batch = Merge([lake.segment(NAMES, [delete(2, "x", 1)])], NAMES, 2)
    fold = keyless.fold

    def late(*args: Any) -> Any:
        monkeypatch.undo()
        lake.target.apply(table, batch)
        return fold(*args)

    monkeypatch.setattr(keyless, "fold", late)
    with pytest.raises(TargetConflict):
        lake.another_worker().apply(table, batch)
    assert (lake.rows(table), lake.target.position(table)) == ([("y", 2)], Position(2, -1, 1, "L1"))


def test_a_replace_is_the_whole_table_and_older_log_rows_of_a_segment_are_left_out(lake: Lake) -> None:
    """A segment may begin before the place that a keyless snapshot stands for."""
    table = lake.table(NAMES, load="")
    lake.merge(table, NAMES, insert(0, "old", 1), insert(1, "old", 2))
    chunks = [lake.segment(NAMES, [read(20, "a", 1), read(21, "a", 1)]), lake.segment(NAMES, [read(22, "b", None)])]
    change = Replace(chunks, NAMES, 1, 10, 22, "L2")
    assert lake.target.apply(table, change).how == "replace"
    assert lake.target.apply(table, change).how == "skip"
    log = lake.segment(NAMES, [insert(9, "a", 1), delete(12, "b", None)])
    lake.target.apply(table, Merge([log], NAMES, 12))
    assert sorted(lake.rows(table)) == [("a", 1), ("a", 1)]
    assert lake.target.position(table) == Position(12, 22, 1, "L2")


def test_a_replace_by_nothing_empties_the_table(lake: Lake) -> None:
    table = lake.table(NAMES, load="")
    lake.merge(table, NAMES, insert(0, "old", 1))
    lake.target.apply(table, Replace([], NAMES, 1, 10, 10, "L2"))
    assert (lake.rows(table), lake.target.position(table)) == ([], Position(10, 10, 1, "L2"))
