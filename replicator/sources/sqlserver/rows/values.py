"""Columns of a result as Arrow arrays of the types that schemas have."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from replicator.errors import ValueDoesNotFit
from replicator.model.schema import Column
from replicator.sources.sqlserver.types import ColumnDefinition, select_expression


def select_list(definitions: Sequence[ColumnDefinition], quoted: Sequence[str]) -> str:
    """Of these columns, under these names in SQL."""
    found = (select_expression(one, name) for one, name in zip(definitions, quoted, strict=True))
    return ", ".join(f"{expression} AS [c{place}]" for place, expression in enumerate(found))


def converted(array: pa.Array, column: Column, table: str) -> pa.Array:
    """The same values in the column's type.  ValueDoesNotFit where one is none of it."""
    wanted = column.type.arrow
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowException as error:
        message = f"A value of {table}.{column.name} is no {column.type}: {error}"
        raise ValueDoesNotFit(message, table=table, column=column.name) from None
