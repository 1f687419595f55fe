"""Windows: a chunk row that the log touched between the marks is dropped (invariant 5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from replicator.model.change import ChangeBatch
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, CHANGE_FIELDS, Column, TableSchema
from replicator.model.types import INT, STRING
from replicator.snapshot.window import Windows, touched_places
from replicator.state.chunks import Mark, parse_mark

TABLE = TableId("shop", "t")
SCHEMA = TableSchema(TABLE, (Column("k", INT, False, "int"), Column("v", STRING, True, "text")), ("k",))
LOW, HIGH = Mark("L", 1, 7, "abc"), Mark("H", 1, 7, "abc")


def changes(*rows: tuple[str, int | None, int | None]) -> ChangeBatch:
    """Rows of (operation, key before, key after)."""
    values = {
        "_sequence_num": list(range(len(rows))),
        "_operation": [row[0] for row in rows],
        "k": [row[2] for row in rows],
        BEFORE + "k": [row[1] for row in rows],
    }
    schema = SCHEMA.change_arrow
    arrays = [pa.array(values.get(f.name, [None] * len(rows)), f.type) for f in schema]
    assert [f.name for f in CHANGE_FIELDS] == schema.names[: len(CHANGE_FIELDS)]
    return ChangeBatch(TABLE, SCHEMA, pa.RecordBatch.from_arrays(arrays, schema=schema))


def rows(*keys: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": list(keys), "v": ["x"] * len(keys)}, schema=SCHEMA.row_arrow)


def test_touched_keys_are_dropped_before_and_after_images_both() -> None:
    windows = Windows(limit=100)
    windows.open(TABLE, LOW)
    windows.observe(changes(("INSERT", None, 1), ("UPDATE", 2, 3), ("DELETE", 4, 4)))
    window = windows.close(HIGH)
    assert window is not None
    assert touched_places([rows(9, 2, 3), rows(4, 5, 1)], ("k",), window.keys(None)) == [1, 2, 3, 5]


@pytest.mark.parametrize(
    ("kind", "values", "touched"),
    [
        (pa.int64(), [1, 2, 3], 2),
        (pa.string(), ["a", "ä", "A"], "ä"),
        (pa.binary(), [b"", b"\0", b"\0\0"], b"\0"),
        (pa.decimal128(20, 0), [Decimal(1), Decimal(2**64 - 1), Decimal(0)], Decimal(2**64 - 1)),
        (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1)], date(9999, 12, 31)),
        (pa.timestamp("us"), [datetime(1, 1, 1), datetime(9999, 12, 31, 1, 2, 3, 4), None],  # noqa: DTZ001
            datetime(9999, 12, 31, 1, 2, 3, 4)),  # noqa: DTZ001
        (pa.timestamp("us", tz="UTC"), [None, datetime(2026, 1, 1, tzinfo=UTC), None],
            datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.bool_(), [False, True, False], True),
        (pa.float64(), [1.0, -0.0, 2.0], 0.0),
        (pa.float64(), [1.0, float("nan"), 2.0], "NaN"),
    ],
)  # fmt: skip
def test_keys_of_every_type_are_found_at_their_place(kind: pa.DataType, values: list[Any], touched: Any) -> None:
    """In the second column of the key, too: the first only says where to look."""
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind), pa.array([7, 7, 7])], names=["k", "n"])
    assert touched_places([batch], ("k",), {(touched,), (None,)}) == [1]
    assert touched_places([batch], ("k", "n"), {(touched, 7)}) == [1]
    assert touched_places([batch], ("k", "n"), {(touched, 8)}) == []
    assert touched_places([batch], ("n", "k"), {(7, touched)}) == [1]


def test_a_window_whose_low_mark_was_not_seen_does_not_close() -> None:
    windows = Windows(limit=100)
    assert windows.close(HIGH) is None
    windows.open(TABLE, Mark("L", 1, 7, "older"))
    assert windows.close(HIGH) is None


def test_changes_of_another_table_touch_nothing() -> None:
    windows = Windows(limit=100)
    windows.open(TableId("shop", "other"), LOW)
    windows.observe(changes(("INSERT", None, 1)))
    window = windows.close(HIGH)
    assert window is not None
    assert not window.touched


def test_too_many_touched_keys_spoil_the_window_and_free_its_memory() -> None:
    windows = Windows(limit=3)
    windows.open(TABLE, LOW)
    windows.observe(changes(*[("INSERT", None, n) for n in range(10)]))
    window = windows.close(HIGH)
    assert window is not None
    assert window.spoiled
    assert not window.touched


def test_a_ddl_spoils_the_open_windows_of_its_table() -> None:
    windows = Windows(limit=10)
    windows.open(TABLE, LOW)
    windows.spoil(TABLE, "ALTER")
    window = windows.close(HIGH)
    assert window is not None
    assert window.spoiled == "ALTER"


def test_marks_survive_the_way_through_the_log_and_foreign_tokens_are_passed_over() -> None:
    assert parse_mark("H:1:7:abc") == HIGH
    assert parse_mark("heartbeat") is None
    assert parse_mark("H:x:7:abc") is None


def of(transaction: str, key: int) -> ChangeBatch:
    """One UPDATE that keeps its key."""
    batch = changes(("UPDATE", key, key))
    place = batch.data.schema.get_field_index("_txn_id")
    data = batch.data.set_column(place, batch.data.schema.field(place), pa.array([transaction]))
    return ChangeBatch(TABLE, SCHEMA, data)


def test_a_commit_before_the_low_mark_that_the_rows_do_not_show_touches_its_keys() -> None:
    """The update that log watermarks lose: in the log before the low mark, invisible when the chunk was read."""
    windows = Windows(limit=100)
    windows.settle(frozenset())
    windows.observe(of("7", 1))
    windows.observe(of("8", 2))
    windows.open(TABLE, LOW)
    windows.observe(of("9", 3))
    window = windows.close(HIGH)
    assert window is not None
    assert window.keys(lambda transaction: transaction != "7") == {(1,)}
    assert not window.overtaken(lambda _: False)


def test_what_is_settled_is_not_looked_at_again_and_what_is_not_stays() -> None:
    windows = Windows(limit=100)
    windows.settle(frozenset())
    windows.observe(of("7", 1))
    windows.observe(of("8", 2))
    windows.settle(frozenset({"8"}))
    windows.open(TABLE, LOW)
    window = windows.close(HIGH)
    assert window is not None
    assert window.keys(lambda _: False) == {(2,)}


def test_a_transaction_of_which_the_changes_are_not_known_makes_the_chunk_be_read_again() -> None:
    """After a restart: its changes were read before, but it may be invisible still."""
    windows = Windows(limit=100)
    windows.settle(frozenset({"7"}))
    windows.open(TABLE, LOW)
    window = windows.close(HIGH)
    assert window is not None
    assert window.overtaken(lambda _: False)
    assert not window.overtaken(lambda transaction: transaction == "7")
    windows.settle(frozenset())
    windows.open(TABLE, replace(LOW, attempt="later"))
    window = windows.close(replace(HIGH, attempt="later"))
    assert window is not None
    assert not window.overtaken(lambda _: False)


def test_changes_that_do_not_fit_into_memory_are_doubted_until_they_are_settled() -> None:
    windows = Windows(limit=100, recall_bytes=1)
    windows.settle(frozenset())
    windows.observe(of("7", 1))
    windows.open(TABLE, LOW)
    window = windows.close(HIGH)
    assert window is not None
    assert window.overtaken(lambda transaction: transaction != "7")


def test_a_keyless_table_is_behind_where_the_log_had_before_its_opened_mark_what_its_rows_lack() -> None:
    windows = Windows(limit=100)
    windows.settle(frozenset())
    windows.observe(of("7", 1))
    windows.open(TABLE, LOW)
    window = windows.peek(LOW)
    assert window is not None
    window.opened = True
    windows.observe(of("8", 2))
    assert not window.behind(lambda transaction: transaction == "7")
    assert window.behind(lambda transaction: transaction == "8")


def test_a_change_whose_key_is_not_known_spoils_the_open_windows_of_its_table() -> None:
    windows, other = Windows(limit=100), TableId("shop", "other")
    windows.open(TABLE, LOW)
    windows.open(other, Mark("L", 2, 8, "def"))
    windows.keys_unknown(TABLE, frozenset({"7"}))
    mine, others = windows.close(HIGH), windows.close(Mark("H", 2, 8, "def"))
    assert mine is not None
    assert others is not None
    assert (bool(mine.spoiled), bool(others.spoiled)) == (True, False)


def test_its_transaction_must_be_visible_to_later_chunks_where_the_log_does_not_say_so() -> None:
    windows = Windows(limit=100)
    windows.settle(frozenset())
    windows.keys_unknown(TABLE, frozenset({"7"}))
    windows.open(TABLE, LOW)
    window = windows.close(HIGH)
    assert window is not None
    assert (window.overtaken(lambda _: False), window.overtaken(lambda txn: txn == "7")) == (True, False)
    windows.settle(frozenset())
    windows.open(TABLE, replace(LOW, attempt="later"))
    window = windows.close(replace(HIGH, attempt="later"))
    assert window is not None
    assert not window.overtaken(lambda _: False)


def test_a_low_mark_that_somebody_repeats_opens_no_window_again() -> None:
    """What the log changed since the true one would be forgotten, and the chunk's older rows would go over it."""
    windows = Windows(limit=100)
    windows.open(TABLE, LOW)
    before = windows.peek(LOW)
    windows.open(TABLE, LOW)
    assert windows.peek(LOW) is before
    windows.close(LOW)
    windows.open(TABLE, LOW)
    assert windows.peek(LOW) is None
