"""Rows of change tables become changes (cdc.<capture_instance>_CT, learn.microsoft.com)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replicator.errors import EventUndecodable, ValueDoesNotFit
from replicator.model.identifiers import TableId
from replicator.sources.sqlserver.catalog.table_description import (
    CaptureInstance,
    TableDescription,
    TableIdentity,
    schema_of,
)
from replicator.sources.sqlserver.rows.change_rows import Transactions, change_batch, framed, sort_keys
from replicator.sources.sqlserver.types import ColumnDefinition

TABLE = TableId("dbo", "t")
LSNS = [bytes(9) + bytes([n]) for n in (1, 2)]
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
INT, TEXT = ColumnDefinition("id", "int", 1), ColumnDefinition("v", "nvarchar", 2, length=-1)


def described(*, key: bool = True) -> tuple[TableDescription, CaptureInstance]:
    instance = CaptureInstance("i", 7, 5, bytes(10), ((1, "id"), (2, "v")))
    keys = ((1,),) if key else ()
    schema = schema_of(TABLE, (INT, TEXT), keys, TableIdentity(5, "2026", instance.number), partial=False)
    return TableDescription(schema, (INT, TEXT), (INT, TEXT), keys, 5, "2026", (instance,)), instance


def rows(*given: tuple[Any, ...]) -> pa.Table:
    """(lsn, command, seqval, operation, mask, id, v)"""
    columns = zip(*given, strict=True)
    types = (pa.binary(), pa.int32(), pa.binary(), pa.int32(), pa.binary(), pa.int64(), pa.string())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=[f"c{n}" for n in range(7)])


def batch(found: pa.Table, *, key: bool = True) -> list[dict[str, Any]]:
    description, instance = described(key=key)
    one = framed(found, str(TABLE))
    data = change_batch(one, description, instance, np.arange(len(one)), Transactions.of(dict.fromkeys(LSNS, AT)))
    assert data.schema == description.schema.change_arrow
    return data.to_pylist()


def seq(n: int) -> bytes:
    return bytes(9) + bytes([n])


def test_each_operation_has_the_images_of_the_contract() -> None:
    found = batch(
        rows(
            (LSNS[0], 1, seq(1), 2, b"\x03", 1, "a"),
            (LSNS[0], 2, seq(2), 3, b"\x02", 1, "a"),
            (LSNS[0], 2, seq(2), 4, b"\x02", 1, "b"),
            (LSNS[1], 1, seq(3), 1, b"\x03", 1, "b"),
        )
    )
    shown = [(row["_operation"], row["id"], row["v"], row["_before_id"], row["_before_v"]) for row in found]
    assert shown == [
        ("INSERT", 1, "a", None, None),
        ("UPDATE", 1, "b", 1, "a"),
        ("DELETE", 1, None, 1, "b"),
    ]
    assert [row["_txn_id"][-4:] for row in found] == ["0001", "0001", "0002"]
    assert {row["_commit_ts"] for row in found} == {AT}


def test_a_deleted_row_without_key_keeps_all_its_values() -> None:
    (row,) = batch(rows((LSNS[0], 1, seq(1), 1, b"\x03", 1, "b")), key=False)
    assert (row["id"], row["v"], row["_before_v"]) == (1, "b", "b")


@pytest.mark.parametrize(
    ("mask", "before"),
    [
        (b"\x01", "big"),  # v was not changed: its old row has null, and its value is the new row's
        (b"\x02", None),  # it was changed, from null
    ],
)
def test_large_values_that_an_update_left_alone_are_in_its_old_row(mask: bytes, before: str | None) -> None:
    (row,) = batch(rows((LSNS[0], 1, seq(1), 3, mask, 1, None), (LSNS[0], 1, seq(1), 4, mask, 2, "big")))
    assert (row["_before_id"], row["_before_v"], row["id"], row["v"]) == (1, before, 2, "big")


def test_an_update_without_its_old_row_stops_the_table() -> None:
    with pytest.raises(EventUndecodable, match="without its old row"):
        framed(rows((LSNS[0], 1, seq(1), 4, b"\x02", 1, "b")), str(TABLE))
    with pytest.raises(EventUndecodable):
        framed(rows((LSNS[0], 1, seq(1), 3, b"\x02", 1, "b")), str(TABLE))


def test_a_value_that_the_schema_does_not_hold_is_named() -> None:
    with pytest.raises(ValueDoesNotFit, match=r"dbo\.t\.id"):
        batch(rows((LSNS[0], 1, seq(1), 2, b"\x03", 1 << 40, "a")))


def test_the_order_is_by_commit_command_and_place_and_not_by_place_alone() -> None:
    """seqval is not monotonic inside of a transaction: the command orders first."""
    found = rows(
        (LSNS[1], 1, seq(1), 2, b"\x03", 4, ""),
        (LSNS[0], 2, seq(3), 2, b"\x03", 3, ""),
        (LSNS[0], 1, seq(9), 2, b"\x03", 2, ""),
        (LSNS[0], 1, seq(8), 1, b"\x03", 1, ""),
    )
    order = np.lexsort(sort_keys(found))
    assert [found.column(5)[int(place)].as_py() for place in order] == [1, 2, 3, 4]
