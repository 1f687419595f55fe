"""Windows: a chunk row that the log touched between the marks is dropped (invariant 5)."""

from __future__ import annotations

import pyarrow as pa

from replicator.model.change import ChangeBatch
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, CHANGE_FIELDS, Column, TableSchema
from replicator.model.types import INT, STRING
from replicator.snapshot.window import Windows, untouched
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
    kept = untouched(rows(1, 2, 3, 4, 5), ("k",), window.touched)
    assert kept.column("k").to_pylist() == [5]


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
