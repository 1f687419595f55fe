"""Columns, keys, names and values of tables in Postgres."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest

from replicator.errors import TargetError, UnsupportedDdl, ValueDoesNotFit
from replicator.model.mode import Mode
from replicator.targets.base import Create, Evolve, Merge, Rename, TargetTable
from replicator.targets.postgres.kind import IDENTIFIERS
from tests.integration.warehouse.copies import PostgresCopies
from tests.staged import insert, schema_of, update

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
LONG = "ä" * 4000


def indexes(copies: PostgresCopies, table: TargetTable) -> list[str]:
    found = copies.query("SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = %s::regclass",
        copies.place(table))  # fmt: skip
    return sorted(text.split(" USING ")[1] for (text,) in found)


def primary(copies: PostgresCopies, table: TargetTable) -> bool:
    found = copies.query("SELECT 1 FROM pg_index WHERE indrelid = %s::regclass AND indisprimary", copies.place(table))
    return bool(found)


def test_keys_are_held_as_the_destination_says(copies: PostgresCopies) -> None:
    enforced = copies.settings["keys"] == "enforced"
    table = copies.table(KEYED)
    assert primary(copies, table) == enforced
    assert indexes(copies, table) == ["btree (id)"]
    history = copies.table(KEYED, mode=Mode.HISTORY)
    assert not primary(copies, history)
    assert indexes(copies, history) == ["btree (id)"]
    assert indexes(copies, copies.table(KEYED, mode=Mode.CHANGELOG)) == []
    texts = copies.table(schema_of({"a": "int", "t": "string"}, ["a", "t"]))
    assert indexes(copies, texts) == (["btree (a, t)"] if enforced else ["hash (t)"])


def test_a_key_too_long_for_an_index_stops_its_table_only_where_keys_are_enforced(copies: PostgresCopies) -> None:
    schema = schema_of({"t": "string", "n": "int"}, ["t"])
    table = copies.table(schema)
    noise = "".join(chr(0x4E00 + (n * 7919) % 20000) for n in range(4000))  # it does not compress
    if copies.settings["keys"] == "enforced":
        with pytest.raises(ValueDoesNotFit, match="size") as told:
            copies.merge(table, schema, insert(0, noise, 1))
        assert "Index only" in told.value.remedy
        return
    copies.merge(table, schema, insert(0, noise, 1))
    copies.merge(table, schema, update(1, (noise, 1), (noise, 2)))
    assert copies.rows(table) == [(noise, 2)]


def test_another_key_in_the_source_is_another_index(copies: PostgresCopies) -> None:
    table = copies.table(KEYED)
    copies.merge(table, KEYED, insert(0, 1, "a"), insert(1, 2, "a"))
    other = schema_of({"id": "int", "v": "string", "k": "bigint"}, ["k"])
    copies.target.apply(table, Evolve(other, 2), "L1")
    assert not primary(copies, table)
    assert indexes(copies, table) == ["btree (k)"]
    staged = copies.segment(other, [insert(2, None, "b", 7), update(3, (None, "b", 7), (None, "B", 7))], 2)
    copies.target.apply(table, Merge([staged], other, 3), "L1")
    assert Counter(copies.rows(table)) == Counter([(1, "a", None), (2, "a", None), (None, "B", 7)])
    keyless = schema_of({"id": "int", "v": "string", "k": "bigint"})
    copies.target.apply(table, Evolve(keyless, 3), "L1")
    assert indexes(copies, table) == []


def test_a_key_of_a_type_that_cannot_be_had_in_place(copies: PostgresCopies) -> None:
    table = copies.table(KEYED)
    copies.merge(table, KEYED, insert(0, 1, "a"))
    texts = schema_of({"id": "string", "v": "string"}, ["id"])
    copies.target.apply(table, Evolve(texts, 2), "L1")
    staged = copies.segment(texts, [insert(1, "x", "b")], 2)
    copies.target.apply(table, Merge([staged], texts, 1), "L1")
    assert Counter(copies.rows(table)) == Counter([("a", None), ("b", "x")])


def test_a_dropped_key_column_that_stays_takes_no_part(copies: PostgresCopies) -> None:
    table = copies.table(KEYED)
    copies.merge(table, KEYED, insert(0, 1, "a"))
    other = schema_of({"v": "string"}, ["v"])
    copies.target.apply(table, Evolve(other, 2, keep_dropped=True), "L1")
    staged = copies.segment(other, [insert(1, "b"), update(2, ("a",), ("a",))], 2)
    copies.target.apply(table, Merge([staged], other, 2), "L1")
    assert Counter(copies.rows(table)) == Counter([(None, "b"), (1, "a")])


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("string", "a\0b", "NUL"),
        ("date", dt.date(1, 1, 1) - dt.timedelta(0), ""),
        ("timestamp", dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC), ""),
    ],
)
def test_a_value_that_postgres_has_not_stops_the_table(
    one: PostgresCopies, kind: str, value: object, told: str
) -> None:
    schema = schema_of({"id": "int", "x": kind}, ["id"])
    table = one.table(schema)
    if not told:
        one.merge(table, schema, insert(0, 1, value))
        assert one.rows(table) == [(1, value)]
        return
    with pytest.raises(ValueDoesNotFit, match=told) as found:
        one.merge(table, schema, insert(0, 1, value))
    assert found.value.column == "x"
    assert one.rows(table) == []


@pytest.mark.parametrize(
    ("name", "told"), [("ä" * 32, "63 bytes"), ("ctid", "system column"), ("_operation", "reserved")]
)
def test_a_column_name_that_postgres_has_not_stops_the_table(one: PostgresCopies, name: str, told: str) -> None:
    schema = schema_of({"id": "int", name: "int"}, ["id"])
    with pytest.raises(Exception, match=told):
        one.table(schema)
    table = one.table(KEYED)
    with pytest.raises(Exception, match=told):
        one.target.apply(table, Evolve(schema, 2), "L1")


def test_names_are_cut_by_their_bytes_and_stay_different() -> None:
    names = ["ä" * 40, "ä" * 41, "x" * 64, "x" * 63, "_tidemark_positions", "€" * 30]
    legal = [IDENTIFIERS.legal(name) for name in names]
    assert len(set(legal)) == len(names)
    assert all(len(name.encode()) <= 63 for name in legal)
    assert legal[3] == names[3]
    assert "63 bytes" in IDENTIFIERS.refusal("ä" * 32)


def test_a_schema_that_is_postgres_own_is_told(one: PostgresCopies) -> None:
    with pytest.raises(UnsupportedDdl, match="pg_"):
        one.target.apply(TargetTable("pg_mine", "t"), Create(KEYED, 1, -1, "L1"))


def test_a_view_that_uses_a_table_keeps_it_until_it_is_dropped(one: PostgresCopies) -> None:
    table = one.table(KEYED)
    one.query(f"CREATE VIEW {one.namespace}.seen AS SELECT v FROM {one.place(table)}")
    with pytest.raises(TargetError, match="depend") as told:
        one.target.apply(table, Create(KEYED, 1, -1, "L2"), "L1")
    assert told.value.retryable
    one.query(f"DROP VIEW {one.namespace}.seen")
    assert one.target.apply(table, Create(KEYED, 1, -1, "L2"), "L1").how == "recreate"


def test_a_column_of_somebody_else_stops_the_table_until_it_is_dropped(one: PostgresCopies) -> None:
    table = one.table(KEYED)
    one.query(f"ALTER TABLE {one.place(table)} ADD COLUMN own interval")
    with pytest.raises(UnsupportedDdl, match="did not create"):
        one.target.position(table)
    one.query(f"ALTER TABLE {one.place(table)} DROP COLUMN own")
    one.merge(table, KEYED, insert(0, 1, "a"))
    assert one.rows(table) == [(1, "a")]


def test_a_table_takes_its_position_into_another_schema(one: PostgresCopies) -> None:
    table, new = one.table(KEYED), TargetTable(f"{one.namespace}_2", 'o\'clock "x"')
    one.merge(table, KEYED, insert(0, 1, "a"))
    assert one.target.apply(table, Rename(new), "L1").how == "rename"
    at = one.target.position(new)
    assert at is not None
    assert at.applied == 0
    assert one.rows(new) == [(1, "a")]
    taken = one.table(KEYED)
    with pytest.raises(TargetError, match="still exists"):
        one.target.apply(new, Rename(taken), "L1")


def test_a_table_that_somebody_dropped_can_be_made_again(one: PostgresCopies) -> None:
    table = one.table(KEYED)
    one.query(f"DROP TABLE {one.place(table)}")
    assert one.target.position(table) is None
    one.another_worker("r2").apply(table, Create(KEYED, 1, -1, "L5"), "(none)")
    assert one.another_worker("r2").position(table) is not None
