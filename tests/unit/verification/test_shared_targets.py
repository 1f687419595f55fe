"""What verification asks of one table's rows in a target table that several share, without a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import BooleanExpression

from replicator.errors import TargetError
from replicator.verification.cells import CellRule
from replicator.verification.computed_columns import ComputedColumn
from replicator.verification.parts import foreign_values, holds, narrowed
from replicator.verification.source import SourceTable
from replicator.verification.target import PinnedTable, batches, rows


@dataclass(frozen=True)
class Handle:
    data: pa.RecordBatch

    def name(self) -> tuple[str, ...]:
        return ("lake", "all")

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        del wanted
        yield self.data.select(list(names))


def table(values: Sequence[float | None], kind: str = "double") -> PinnedTable:
    data = pa.record_batch(
        {"id": pa.array(range(len(values)), pa.int64()), "f": pa.array(values, pa.float64()), "theirs": [None, 5, None]}
    )
    return PinnedTable(Handle(data), (("id", "long"), ("f", kind), ("theirs", "long")), ordered=False)


SOURCE = SourceTable(
    ((ComputedColumn("id", "int"), CellRule("int")), (ComputedColumn("f", "float"), CellRule("float"))), 3
)


@pytest.mark.parametrize(
    ("actual", "expected", "fits"),
    [
        ("long", "int", True),
        ("int", "long", False),
        ("double", "float", True),
        ("float", "double", False),
        ("decimal(12, 2)", "decimal(10, 2)", True),
        ("decimal(12,2)", "decimal(10, 2)", True),
        ("decimal(10, 2)", "decimal(12, 2)", False),
        ("decimal(12, 3)", "decimal(10, 2)", False),
        ("string", "int", False),
    ],
)
def test_a_wider_type_holds_the_narrower_ones_values(actual: str, expected: str, *, fits: bool) -> None:
    assert holds(actual, expected) is fits


def test_values_are_compared_in_the_sources_type() -> None:
    found = narrowed(table([1.5, None, float("nan")]), SOURCE)
    assert dict(found.columns) == {"id": "int", "f": "float", "theirs": "long"}
    (batch,) = batches(found, ("id", "f"))
    assert rows(batch, ("f",)) == [(np.float32(1.5).tobytes(),), (None,), (np.float32("nan").tobytes(),)]


def test_a_value_that_no_float_has_is_an_error() -> None:
    with pytest.raises(TargetError, match="holds values that no column"):
        list(batches(narrowed(table([0.1, 1.0, 1.0]), SOURCE), ("f",)))


def test_values_of_other_tables_columns_are_told() -> None:
    assert foreign_values(table([1.0, 2.0, 3.0]), ["theirs"]) == [
        "column theirs, which the source has not, has 1 values"
    ]
    assert foreign_values(table([1.0, 2.0, 3.0]), []) == []
