"""What a direct merge is made of, against the plainest code that says the same."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.folding.fold import fold
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, Column, TableSchema
from replicator.model.types import DataType
from replicator.targets.iceberg.direct.file_cache import FileCache
from replicator.targets.iceberg.direct.key_index import KeyIndex, Wanted

KEYS = {
    "int": st.integers(-3, 3),
    "bigint": st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]),
    "string": st.sampled_from(["", "a", "A", "a\0", "a" * 8, "a" * 9, "ä", "a" * 16 + "b"]),
    "binary": st.sampled_from([b"", b"\0", b"\0\0", b"x" * 8, b"x" * 7 + b"\0"]),
    "date": st.sampled_from([dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "decimal(9,2)": st.sampled_from([Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99")]),
    "decimal(38,0)": st.sampled_from([Decimal(10**37), Decimal(-(10**37)), Decimal(2**64), Decimal(0)]),
    "boolean": st.booleans(),
    "timestamp": st.sampled_from([dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
}
Event = tuple[str, tuple[Any, ...], tuple[Any, ...]]


@st.composite
def batches(draw: st.DrawFn) -> tuple[TableSchema, list[Event]]:
    """Any changes, whether a source could have made them or not."""
    kinds = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=3))
    columns = [Column("v", DataType.parse("bigint"), True, "")]
    columns += [Column(f"k{n}", DataType.parse(kind), False, "") for n, kind in enumerate(kinds)]
    key = st.tuples(*(KEYS[kind] for kind in kinds))
    events = draw(st.lists(st.tuples(st.sampled_from(["INSERT", "UPDATE", "DELETE", "READ"]), key, key), max_size=25))
    schema = TableSchema(TableId("s", "t"), tuple(columns), tuple(c.name for c in columns[1:]))
    return schema, events


def changes(schema: TableSchema, events: list[Event], first: int) -> pa.Table:
    data: dict[str, list[Any]] = {SEQUENCE: [], OPERATION: [], "v": []}
    data |= {prefix + name: [] for prefix in ("", BEFORE) for name in schema.key}
    for number, (operation, before, after) in enumerate(events, first):
        data[SEQUENCE].append(number)
        data[OPERATION].append(operation)
        data["v"].append(number * 10)
        for place, name in enumerate(schema.key):
            data[name].append(after[place])
            data[BEFORE + name].append(before[place] if operation in {"UPDATE", "DELETE"} else None)
    kinds = {BEFORE + name: schema.column(name).type.arrow for name in schema.key}
    kinds |= {c.name: c.type.arrow for c in schema.columns} | {SEQUENCE: pa.int64(), OPERATION: pa.string()}
    order = [SEQUENCE, OPERATION, *schema.names, *(BEFORE + name for name in schema.key)]
    return pa.table({name: pa.array(data[name], kinds[name]) for name in order})


@settings(deadline=None)
@given(batches(), st.integers(0, 2**40))
def test_the_fold_keeps_the_newest_of_each_key(batch: tuple[TableSchema, list[Event]], first: int) -> None:
    schema, events = batch
    expected: dict[Any, tuple[int, bool]] = {}
    for number, (operation, before, after) in enumerate(events, first):
        if operation in {"UPDATE", "DELETE"}:
            expected[before] = (number, True)
        if operation != "DELETE":
            expected[after] = (number, False)
    folded = fold(changes(schema, events, first), schema)
    keys = list(zip(*(column.to_pylist() for column in folded.keys.columns), strict=True))
    stays = folded.stays.num_rows
    found = {key: (int(n), place >= stays) for place, (key, n) in enumerate(zip(keys, folded.seq, strict=True))}
    assert len(keys) == len(set(keys))
    assert found == expected
    assert folded.stays.column(SEQUENCE).to_pylist() == folded.seq[:stays].tolist()
    assert folded.stays.column("v").to_pylist() == [n * 10 for n in folded.seq[:stays].tolist()]
    assert list(zip(*(folded.stays.column(name).to_pylist() for name in schema.key), strict=True)) == keys[:stays]


@settings(deadline=None)
@given(batches(), st.integers(0, 3))
def test_the_index_finds_every_row_of_a_key_and_no_other(batch: tuple[TableSchema, list[Event]], skipped: int) -> None:
    schema, events = batch
    table = changes(schema, events, 0)
    there = table.select(list(schema.key)).slice(skipped)  # arrays with an offset
    wanted = table.select([BEFORE + name for name in schema.key])
    index = KeyIndex.of([column.combine_chunks() for column in there.columns])
    places, rows = index.find(Wanted.of(wanted))
    keys = [tuple(row.values()) for row in there.to_pylist()]
    asked = [tuple(row.values()) for row in wanted.to_pylist()]
    expected = {
        (i, j) for i, one in enumerate(asked) for j, other in enumerate(keys) if None not in one and one == other
    }
    assert set(zip(places.tolist(), rows.tolist(), strict=True)) == expected
    assert len(places) == len(expected)


def test_long_strings_that_differ_anywhere_are_told_apart() -> None:
    texts = ["x" * 100 + str(n) + "y" * 100 for n in range(500)] + ["z" * n for n in range(50)]
    index = KeyIndex.of([pa.array(texts)])
    assert len(np.unique(index.codes)) == len(texts)
    places, rows = index.find(Wanted.of(pa.table({"k": pa.array(texts)})))
    assert sorted(zip(places.tolist(), rows.tolist(), strict=True)) == [(n, n) for n in range(len(texts))]


def test_memory_is_bounded_and_forgets_what_was_not_used() -> None:
    memory = FileCache(100)
    for n in range(5):
        memory.put(n, n, 30)
        assert memory.get(0, lambda: 0, lambda _: 30) == 0
    assert (memory.used, memory.known(4), memory.known(2)) == (90, 4, None)
    memory.put("large", "large", 101)
    assert (memory.used, memory.known("large")) == (90, None)
    memory.forget([0, 4, "never there"])
    assert (memory.used, memory.known(0)) == (30, None)


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_batch_folds_to_nothing(rows: int) -> None:
    schema = TableSchema(
        TableId("s", "t"),
        (Column("k", DataType.parse("string"), False, ""), Column("v", DataType.parse("int"), True, "")),
        ("k",),
    )
    events: list[Event] = [("DELETE", ("a",), ("a",))] * rows
    folded = fold(changes(schema, events, 0), schema)
    assert (folded.stays.num_rows, folded.keys.num_rows) == (0, rows)
