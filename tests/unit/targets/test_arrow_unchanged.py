"""Values that UPDATEs left out, found in memory: what is filled, and what is too much.

Histories: `tests/integration/spark/merges/test_unchanged.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from replicator.folding.unchanged_values import concerned, filled, places
from tests.staged import schema_of

SCHEMA = replace(schema_of({"id": "int", "a": "int", "doc": "string"}, ["id"]), partial=True)
LARGE = "x" * 1000


def changes(*events: tuple[Any, ...]) -> pa.Table:
    """(number, operation, key before, id, a, doc, columns left out) of each."""
    arrow = SCHEMA.change_arrow
    names = ("_sequence_num", "_operation", "_before_id", "id", "a", "doc", "_unchanged")
    columns = zip(*events, strict=True)
    return pa.table(
        {name: pa.array(values, arrow.field(name).type) for name, values in zip(names, columns, strict=True)}
    )


def held(*rows: tuple[int, str | None, int]) -> pa.Table:
    arrow = SCHEMA.change_arrow
    names = ("id", "doc", "_sequence_num")
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table(
        {name: pa.array(values, arrow.field(name).type) for name, values in zip(names, columns, strict=True)}
    )


def test_each_version_is_filled_or_the_newest_only() -> None:
    hot = changes(*[(10 + n, "UPDATE", 1, 1, n, None, [2]) for n in range(3)], (20, "UPDATE", 2, 2, 0, "told", None))
    assert places(hot) == [2]
    assert concerned(hot, SCHEMA).column("id").to_pylist() == [1] * 6
    there = held((1, LARGE, 5), (3, "another's", 6))
    for newest, docs in ((False, [LARGE] * 3 + ["told"]), (True, [None, None, LARGE, "told"])):
        found = filled(hot, there, SCHEMA, 10**6, newest=newest)
        assert found is not None
        assert found.column("doc").to_pylist() == docs
        assert "_unchanged" not in found.column_names


def test_many_versions_of_a_large_value_are_too_much() -> None:
    hot = changes(*[(10 + n, "UPDATE", 1, 1, n, None, [2]) for n in range(100)])
    there = held((1, LARGE, 5))
    assert filled(hot, there, SCHEMA, 99 * len(LARGE), newest=False) is None
    assert filled(hot, there, SCHEMA, 99 * len(LARGE), newest=True) is not None


def test_what_nobody_knows_is_not_filled() -> None:
    one = changes((10, "UPDATE", 1, 1, 0, None, [2]))
    assert filled(one, held(), SCHEMA, 10**6, newest=True) is None
    assert filled(one, held((2, "d", 5)), SCHEMA, 10**6, newest=True) is None
    assert filled(one, held((1, "later", 11)), SCHEMA, 10**6, newest=True) is not None  # the target's row wins
    gone = changes((10, "DELETE", 1, 1, None, None, None), (11, "UPDATE", 1, 1, 0, None, [2]))
    assert filled(gone, held((1, "d", 5)), SCHEMA, 10**6, newest=True) is None


def test_a_move_takes_the_value_of_its_own_row_along() -> None:
    """1 → 2 → 3, while another row comes to 1 and to 2."""
    chain = changes(
        (10, "UPDATE", 1, 2, 0, None, [2]),
        (11, "INSERT", None, 1, 0, "new at 1", None),
        (12, "UPDATE", 2, 3, 0, None, [2]),
        (13, "UPDATE", 1, 2, 0, None, [2]),
    )
    found = filled(chain, held((1, "first", 5)), SCHEMA, 10**6, newest=False)
    assert found is not None
    assert found.column("doc").to_pylist() == ["first", "new at 1", "first", "new at 1"]
