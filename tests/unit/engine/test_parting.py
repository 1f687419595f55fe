"""Rows that cannot be decoded are found in their batch; the others come out as if these had never been there."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replicator.errors import TooManyDeadLetters, ValueDoesNotFit
from replicator.model.change import Operation
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import INT, STRING
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.rows import row_events
from replicator.sources.mysql.rows import table_map as t
from replicator.sources.mysql.rows.table_map import LogColumn
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import BinlogEvent
from replicator.sources.postgres.catalog.attributes import Attribute, PgType
from replicator.sources.postgres.rows import row_messages as postgres_rows
from replicator.sources.postgres.rows.row_messages import CommittedTransaction, TupleLayout
from replicator.sources.shared import undecodable_rows
from replicator.sources.shared.undecodable_rows import KEPT_BYTES, MAX_BAD, bisect_undecodable

TABLE = TableId("shop", "t")
SCHEMA = TableSchema(
    TABLE, (Column("id", INT, nullable=False, source_type="int"),
        Column("v", STRING, nullable=True, source_type="text")), ("id",)
)  # fmt: skip
LOG = [LogColumn(t.LONG, 0, True, "id"), LogColumn(t.BLOB, 4, True, "v", charset=45)]
BAD = b"\xffno text"
PLAIN = pa.schema([("n", pa.int64())])


def refusing(bad: set[int], seen: list[int]) -> Callable[[Any], pa.RecordBatch]:
    def convert(places: Any) -> pa.RecordBatch:
        seen.append(len(places))
        if found := sorted(bad & set(places.tolist())):
            raise ValueDoesNotFit(f"row {found[0]} is bad", column="v")
        return pa.RecordBatch.from_pydict({"n": places}, schema=PLAIN)

    return convert


@pytest.mark.parametrize("bad", [set(), {0}, {99}, {0, 1, 50, 99}, set(range(100))])
def test_bad_rows_are_found_and_the_rest_stays_in_order(bad: set[int]) -> None:
    seen: list[int] = []
    found = bisect_undecodable(100, refusing(bad, seen), PLAIN)
    assert [place for place, _ in found.bad] == sorted(bad)
    assert [error.message for _, error in found.bad] == [f"row {place} is bad" for place in sorted(bad)]
    assert found.batch.schema == PLAIN
    assert found.batch.column("n").to_pylist() == [place for place in range(100) if place not in bad]


def test_one_bad_row_of_many_costs_few_conversions() -> None:
    seen: list[int] = []
    bisect_undecodable(1 << 14, refusing({9_999}, seen), PLAIN)
    assert len(seen) == 1 + 2 * 14
    assert sum(seen) < 3 * (1 << 14)


def test_more_bad_rows_than_are_kept_stop_the_table() -> None:
    assert len(bisect_undecodable(2_000, refusing(set(range(MAX_BAD)), []), PLAIN).bad) == MAX_BAD
    with pytest.raises(TooManyDeadLetters, match=f"More than {MAX_BAD:,} rows .* row 0 is bad") as raised:
        bisect_undecodable(2_000, refusing(set(range(MAX_BAD + 1)), []), PLAIN)
    assert raised.value.column == "v"


# ---- MySQL


def image(key: int, value: bytes | None) -> bytes:
    nulls = bytes([2 if value is None else 0])
    return nulls + struct.pack("<i", key) + (b"" if value is None else struct.pack("<I", len(value)) + value)


def event(kind: int, *images: bytes) -> BinlogEvent:
    bitmaps = 2 if kind in e.UPDATES else 1
    body = (7).to_bytes(6, "little") + b"\1\0\2\0" + bytes([2]) + b"\3" * bitmaps + b"".join(images)
    return BinlogEvent(kind, 0, 1, 0, "bin.000001", 100, 200, body)


def mysql_rows(*, keep_undecodable: bool = True) -> row_events.TableRows:
    return row_events.TableRows(SCHEMA, LOG, ReadOptions(keep_undecodable=keep_undecodable))


def values(batch: pa.RecordBatch, name: str) -> list[Any]:
    found: list[Any] = batch.column(name).to_pylist()
    return found


def test_mysql_keeps_the_rows_that_cannot_be_decoded_with_their_images() -> None:
    rows = mysql_rows()
    ordinal = rows.add(event(e.WRITE_V2, image(1, b"one"), image(2, BAD), image(3, None)), 0, 5, "gtid-1")
    ordinal += rows.add(event(e.UPDATE_V2, image(2, BAD), image(2, b"two"), image(1, b"one"), image(1, b"un")), ordinal,
        6, "gtid-2")  # fmt: skip
    rows.add(event(e.DELETE_V2, image(2, BAD)), ordinal, 7, "gtid-3")
    batch = rows.take()
    batch.validate(full=True)
    assert (values(batch, "_sequence_num"), values(batch, "v")) == ([0, 2, 4], ["one", None, "un"])
    assert values(batch, "_before_v") == [None, None, "one"]
    found = [(row.ordinal, row.operation, row.txn_id, row.data) for row in rows.undecodable]
    assert found == [
        (1, Operation.INSERT, "gtid-1", image(2, BAD)),
        (3, Operation.UPDATE, "gtid-2", image(2, BAD) + image(2, b"two")),
        (5, Operation.DELETE, "gtid-3", image(2, BAD)),
    ]
    first = rows.undecodable[0]
    assert first.commit_ts is not None
    assert (first.offset, first.commit_ts.microsecond, first.size) == ("bin.000001:100", 5, len(first.data))
    assert (first.error.code, first.error.column) == ("value_does_not_fit", "v")
    rows.add(event(e.WRITE_V2, image(4, b"four")), 6, 8, "gtid-4")
    assert (values(rows.take(), "v"), rows.undecodable) == (["four"], [])


def test_mysql_keeps_the_keys_before_and_after() -> None:
    rows = mysql_rows()
    rows.add(event(e.WRITE_V2, image(1, BAD)), 0, 5, "gtid-1")
    rows.add(event(e.UPDATE_V2, image(2, BAD), image(3, b"moved"), image(4, b"x"), image(4, BAD)), 1, 6, "gtid-2")
    rows.add(event(e.DELETE_V2, image(-5, BAD)), 3, 7, "gtid-3")
    rows.take()
    assert [row.keys for row in rows.undecodable] == [
        ({"id": "1"},),
        ({"id": "2"}, {"id": "3"}),
        ({"id": "4"},),
        ({"id": "-5"},),
    ]


@pytest.mark.parametrize("key", [("v",), ("id", "v"), ()])
def test_a_key_that_cannot_be_decoded_or_is_none_is_not_known(key: tuple[str, ...]) -> None:
    rows = row_events.TableRows(replace(SCHEMA, key=key), LOG, ReadOptions(keep_undecodable=True))
    rows.add(event(e.WRITE_V2, image(1, BAD)), 0, 5, "gtid-1")
    rows.add(event(e.UPDATE_V2, image(2, BAD), image(3, b"fine")), 1, 6, "gtid-2")
    rows.take()
    assert [row.keys for row in rows.undecodable] == [(), ()]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b"\0\xff", "00ff"),
        (Decimal("1E+2"), "1E+2"),
        (date(2026, 1, 2), "2026-01-02"),
        (True, "True"),
        (None, None),
        ("a\0", None),
        ("\ud800", None),
    ],
)
def test_a_key_is_kept_as_a_text_or_not_at_all(value: Any, kept: str | None) -> None:
    stamps = [pa.array([one]) for one in (1, "INSERT", None, "t", "x:1")]
    row = undecodable_rows.undecodable_row(
        stamps, ValueDoesNotFit("bad"), np.zeros(1, np.uint8), lambda: [{"k": value}]
    )
    assert row.keys == (({"k": kept},) if kept is not None else ())


def test_mysql_without_the_option_stops() -> None:
    rows = mysql_rows(keep_undecodable=False)
    rows.add(event(e.WRITE_V2, image(1, b"one"), image(2, BAD)), 0, 5, "gtid-1")
    with pytest.raises(ValueDoesNotFit):
        rows.take()


def test_a_batch_of_bad_rows_only_is_empty() -> None:
    rows = mysql_rows()
    rows.add(event(e.WRITE_V2, image(2, BAD)), 0, 5, "gtid-1")
    batch = rows.take()
    assert (batch.num_rows, batch.schema, len(rows.undecodable)) == (0, SCHEMA.change_arrow, 1)


def test_long_rows_are_cut_and_say_how_long_they_were() -> None:
    rows = mysql_rows()
    long = BAD + b"x" * KEPT_BYTES
    rows.add(event(e.WRITE_V2, image(2, long)), 0, 5, "gtid-1")
    rows.take()
    whole = image(2, long)
    assert (rows.undecodable[0].data, rows.undecodable[0].size) == (whole[:KEPT_BYTES], len(whole))


def test_nothing_is_parted_while_all_can_be_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (row_events, postgres_rows):
        monkeypatch.setattr(module, "bisect_undecodable", None)
    rows = mysql_rows()
    rows.add(event(e.WRITE_V2, image(1, b"one")), 0, 5, "gtid-1")
    assert rows.take().num_rows == 1
    gathered = postgres()
    gathered.add(insert(1, b"one"), 0, CommittedTransaction(7, 5, 9))
    assert gathered.take().num_rows == 1


# ---- Postgres: messages as pgoutput sends them


def cells(key: int | None, value: bytes | None) -> bytes:
    parts = [b"n" if one is None else b"t" + struct.pack(">i",
            len(one)) + one for one in (None if key is None else b"%d" % key, value)]  # fmt: skip
    return struct.pack(">h", 2) + b"".join(parts)


def insert(key: int, value: bytes | None) -> bytes:
    return b"I" + struct.pack(">I", 9) + b"N" + cells(key, value)


def update(key: int, value: bytes | None) -> bytes:
    return b"U" + struct.pack(">I", 9) + b"N" + cells(key, value)


def delete(key: int) -> bytes:
    return b"D" + struct.pack(">I", 9) + b"K" + cells(key, None)


def postgres(*, keep_undecodable: bool = True) -> postgres_rows.TableRows:
    attributes = (Attribute("id", 1, PgType(23, "int4")), Attribute("v", 2, PgType(25, "text")))
    return postgres_rows.TableRows(
        TupleLayout(SCHEMA, attributes, (0, 1), 2), "null", keep_undecodable=keep_undecodable
    )


def add_run(rows: postgres_rows.TableRows, messages: list[bytes], first: int, owners: list[int]) -> None:
    bounds = np.cumsum([0, *map(len, messages)])
    transactions = np.zeros((max(owners) + 1, 6), np.int64)
    transactions[:, postgres_rows.XID] = 100 + np.arange(max(owners) + 1)
    transactions[:, postgres_rows.RECORD] = 0x10
    data = np.frombuffer(b"".join(messages), np.uint8)
    ordinals = np.arange(first, first + len(messages))
    rows.add_run(data, bounds[:-1], bounds[1:], ordinals, np.array(owners), transactions)


def test_postgres_keeps_the_rows_that_cannot_be_decoded_with_their_messages() -> None:
    rows = postgres()
    add_run(rows, [insert(1, b"one"), insert(2, BAD), update(1, b"un")], 0, [0, 1, 1])
    for ordinal, message in enumerate([update(2, BAD), delete(2), insert(3, None)], 3):
        rows.add(message, ordinal, CommittedTransaction(7, 5, 0x1_0000_0009))
    batch = rows.take()
    batch.validate(full=True)
    assert (values(batch, "_sequence_num"), values(batch, "v")) == ([0, 2, 4, 5], ["one", "un", None, None])
    assert values(batch, "_txn_id") == ["100", "101", "7", "7"]
    assert values(batch, "_operation") == ["INSERT", "UPDATE", "DELETE", "INSERT"]
    found = [(row.ordinal, row.operation, row.txn_id, row.offset, row.data) for row in rows.undecodable]
    assert found == [
        (1, Operation.INSERT, "101", "0/10", insert(2, BAD)),
        (3, Operation.UPDATE, "7", "1/9", update(2, BAD)),
    ]
    assert {row.error.column for row in rows.undecodable} == {"v"}
    assert [row.keys for row in rows.undecodable] == [({"id": "2"},), ({"id": "2"},)]
    rows.add(insert(4, b"four"), 6, CommittedTransaction(8, 5, 9))
    assert (values(rows.take(), "v"), rows.undecodable) == (["four"], [])


def test_postgres_keeps_the_keys_before_and_after() -> None:
    rows = postgres()
    moved = b"U" + struct.pack(">I", 9) + b"K" + cells(2, None) + b"N" + cells(3, BAD)
    whole = b"D" + struct.pack(">I", 9) + b"O" + cells(4, BAD)
    for ordinal, message in enumerate([moved, whole, b"I" + struct.pack(">I", 9) + b"N" + cells(None, BAD)]):
        rows.add(message, ordinal, CommittedTransaction(7, 5, 9))
    rows.take()
    assert [row.keys for row in rows.undecodable] == [({"id": "2"}, {"id": "3"}), ({"id": "4"},), ()]


def test_postgres_without_the_option_stops() -> None:
    rows = postgres(keep_undecodable=False)
    rows.add(insert(2, BAD), 0, CommittedTransaction(7, 5, 9))
    with pytest.raises(ValueDoesNotFit):
        rows.take()


def test_the_first_of_too_many_is_said() -> None:
    error = ValueDoesNotFit("Column v holds no text.", remedy="Mend it.", column="v")
    told = undecodable_rows.too_many(1000, error)
    assert (told.code, told.remedy) == ("too_many_dead_letters", "Mend it.")
    assert told.message.endswith("One of them: Column v holds no text.")
