"""Reading a Delta table with delta-rs' own query engine, which the pipeline does not use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNull,
    NotNull,
    Or,
)

from replicator.errors import TargetError
from replicator.verification.model import DeltaConfig, TablePair
from replicator.verification.target import PinnedTable

NAMES = {"integer": "int", "timestamp_ntz": "timestamp", "timestamp": "timestamptz"}
PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def open_table(config: DeltaConfig, pair: TablePair) -> PinnedTable:
    """The table as it is now.  Raises TargetError where it does not exist."""
    try:
        table = DeltaTable(config.uri(pair.namespace, pair.name), storage_options=dict(config.options))
    except TableNotFoundError:
        message = f"{pair.namespace}.{pair.name} does not exist in the target"
        raise TargetError(message, table=str(pair)) from None
    except (DeltaError, OSError) as error:
        message = f"the log of {pair.namespace}.{pair.name} cannot be read ({type(error).__name__})"
        raise TargetError(message, table=str(pair)) from None  # its text may hold an address: invariant 8
    columns = tuple((field.name, _iceberg(field.type)) for field in table.schema().fields)
    return PinnedTable(_Version(table, (pair.namespace, pair.name)), columns, ordered=False)


class _Version:
    """Of a table; what is not wanted of its rows is left out here, not by what the log says of its files."""

    def __init__(self, table: DeltaTable, name: tuple[str, str]) -> None:
        self._table, self._name = table, name

    def name(self) -> tuple[str, ...]:
        return self._name

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        condition = _condition(wanted)
        columns = list(dict.fromkeys([*names, *_columns(wanted)]))
        try:
            reader = pa.RecordBatchReader.from_stream(self._table.scan(columns=columns))
            for batch in reader:
                plain = pa.schema([one.with_type(PLAIN.get(one.type, one.type)) for one in batch.schema])
                rows = pa.Table.from_batches([batch]).cast(plain)
                if condition is not None:
                    rows = rows.filter(condition)
                yield from rows.select(list(names)).to_batches()
        except (DeltaError, OSError) as error:
            message = f"delta-rs cannot read the target: {error}"
            raise TargetError(message) from error


def _iceberg(kind: Any) -> str:
    """The types' names that a comparison goes by."""
    text = str(getattr(kind, "type", kind))
    return NAMES.get(text, text)


def _columns(wanted: BooleanExpression) -> list[str]:
    match wanted:
        case And() | Or():
            return [*_columns(wanted.left), *_columns(wanted.right)]
        case AlwaysTrue():
            return []
        case _:
            return [wanted.term.name]


def _condition(wanted: BooleanExpression) -> pc.Expression | None:
    """In Arrow's words; None for all rows.  Only what verification asks for."""
    if isinstance(wanted, AlwaysTrue):
        return None
    if isinstance(wanted, And | Or):
        left, right = _condition(wanted.left), _condition(wanted.right)
        if left is None or right is None:
            return None if isinstance(wanted, Or) else right if left is None else left
        return left & right if isinstance(wanted, And) else left | right
    return _PREDICATES[type(wanted)](pc.field(wanted.term.name), wanted)


_PREDICATES: Mapping[type[BooleanExpression], Callable[[pc.Expression, Any], pc.Expression]] = {
    EqualTo: lambda field, wanted: field == wanted.literal.value,
    GreaterThanOrEqual: lambda field, wanted: field >= wanted.literal.value,
    IsNull: lambda field, _: field.is_null(),
    NotNull: lambda field, _: field.is_valid(),
    In: lambda field, wanted: field.isin([one.value for one in wanted.literals]),
}
