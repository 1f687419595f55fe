"""A chunk's row that updates overtook which left values out is made whole from both."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from replicator.model.change import ChangeBatch
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, Column, TableSchema
from replicator.model.types import INT, STRING
from replicator.snapshot.overlay import overlaid

TABLE = TableId("shop", "t")
COLUMNS = (Column("k", INT, False, "int"), Column("n", INT, True, "int"), Column("big", STRING, True, "text"))
SCHEMA = TableSchema(TABLE, COLUMNS, ("k",), partial=True)
BIG = [2]


def log(
    *events: tuple[str, str, int | None, int | None, int | None, str | None, list[int] | None],
) -> list[ChangeBatch]:
    """(transaction, operation, key before, key after, n, big, left out) as one batch each."""
    batches = []
    for ordinal, (txn, operation, before, after, n, big, left_out) in enumerate(events):
        values: dict[str, Any] = {
            "_sequence_num": ordinal, "_operation": operation, "_txn_id": txn, BEFORE + "k": before,
            "k": after if operation != "DELETE" else before, "n": n, "big": big, "_unchanged": left_out,
        }  # fmt: skip
        arrays = [pa.array([values.get(field.name)], field.type) for field in SCHEMA.change_arrow]
        batches.append(ChangeBatch(TABLE, SCHEMA, pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.change_arrow)))
    return batches


def rows(*values: tuple[int, int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(["k", "n", "big"], row, strict=True)) for row in values], schema=SCHEMA.row_arrow
    )


def made(batches: list[ChangeBatch], *chunk: tuple[int, int, str], shown: str = "") -> list[tuple[Any, ...]]:
    found = overlaid(rows(*chunk), ("k",), batches, lambda transaction: transaction in shown)
    return [tuple(row.values()) for row in found.to_pylist()]


def test_what_the_log_says_is_laid_over_what_the_chunk_alone_has() -> None:
    batches = log(("7", "UPDATE", 1, 1, 10, None, BIG), ("8", "UPDATE", 1, 1, 11, None, BIG))
    assert made(batches, (1, 0, "large"), (2, 0, "other")) == [(1, 11, "large")]


def test_what_the_rows_show_already_is_not_laid_over_them_again() -> None:
    batches = log(("7", "UPDATE", 1, 1, 10, None, BIG), ("8", "UPDATE", 1, 1, 11, None, BIG))
    assert made(batches, (1, 10, "large"), shown="8") == [(1, 10, "large")]


def test_a_row_that_moves_takes_its_values_along() -> None:
    batches = log(("7", "UPDATE", 1, 5, 10, None, BIG), ("8", "UPDATE", 5, 6, 12, None, BIG))
    assert made(batches, (1, 0, "large")) == [(6, 12, "large")]


def test_rows_that_the_log_has_whole_or_that_are_gone_are_left_to_it() -> None:
    left = ("7", "UPDATE", 1, 1, 10, None, BIG)
    assert made(log(left, ("8", "UPDATE", 1, 1, 11, "new", None)), (1, 0, "large")) == []
    assert made(log(left, ("8", "DELETE", 1, None, None, None, None)), (1, 0, "large")) == []
    assert (
        made(
            log(("8", "DELETE", 1, None, None, None, None), ("8", "INSERT", None, 1, 1, "new", None), left),
            (1, 0, "large"),
        )
        == []
    )
    assert made(log(("8", "UPDATE", 2, 1, 1, None, BIG)), (1, 0, "large")) == []


def test_values_that_are_null_are_values() -> None:
    assert made(log(("7", "UPDATE", 1, 1, None, None, BIG)), (1, 5, "large")) == [(1, None, "large")]
