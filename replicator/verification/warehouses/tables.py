"""A table that is read by plain SELECTs, as Arrow: what the readers of all warehouses share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression

from replicator.errors import TargetError
from replicator.verification.model import TablePair
from replicator.verification.target import PinnedTable

Batches = Iterator[Sequence[Sequence[Any]]]  # rows of a client's values, as many as fit into memory at a time
Select = Callable[[Sequence[str], BooleanExpression], Batches]
Named = tuple[str, pa.DataType]  # what a comparison calls a type, and its form in Arrow
_DECIMAL = re.compile(r"(?:decimal|numeric)\((\d+),(\d+)\)")


def pinned(
    pair: TablePair,
    columns: Mapping[str, Named],
    select: Select,
    value: Callable[[Any, pa.DataType], Any] | None = None,
) -> PinnedTable:
    """The table as it is now; each reading sees one state of it.  Raises TargetError where it has no columns.

    select: batches of these columns, in this order, of the rows that are wanted; value: a client's, as Arrow takes it.
    """
    if not columns:
        message = f"{pair.namespace}.{pair.name} does not exist in the target"
        raise TargetError(message, table=str(pair))
    rows = _Rows(pair, {name: kind for name, (_, kind) in columns.items()}, select, value)
    return PinnedTable(rows, tuple((name, text) for name, (text, _) in columns.items()), ordered=False)


def decimal_type(text: str) -> Named | None:
    """Of `decimal(p,s)` or `numeric(p,s)`; None of any other type."""
    if (match := _DECIMAL.fullmatch(text)) is None:
        return None
    return f"decimal({match[1]},{match[2]})", pa.decimal128(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class _Rows:
    """See `TableVersion`."""

    pair: TablePair
    kinds: Mapping[str, pa.DataType]
    select: Select
    value: Callable[[Any, pa.DataType], Any] | None

    def name(self) -> tuple[str, ...]:
        return (self.pair.namespace, self.pair.name)

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([pa.field(name, self.kinds[name]) for name in names])
        for rows in self.select(names, wanted):
            columns = zip(zip(*rows, strict=True), schema.types, strict=True)
            yield pa.RecordBatch.from_arrays([self._array(*one) for one in columns], schema=schema)

    def _array(self, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        value = self.value
        return pa.array(values if value is None else [value(one, kind) for one in values], kind)
