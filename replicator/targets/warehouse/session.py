"""What sessions of SQL clients share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import pyarrow as pa


@contextmanager
def transaction(execute: Callable[[str], Any], roll_back: Callable[[], Any]) -> Iterator[None]:
    """See `Session.transaction`.  roll_back: its errors are ignored, as the first error has the cause."""
    execute("BEGIN")
    try:
        yield
        execute("COMMIT")
    except BaseException:
        with suppress(Exception):
            roll_back()
        raise


def as_arrow(
    rows: Sequence[tuple[Any, ...]],
    schema: pa.Schema,
    binary: Callable[[Any], bytes],
    others: Mapping[pa.DataType, Callable[[Any], Any]] = MappingProxyType({}),
) -> pa.Table:
    """See `Session.read`.  binary, others: what the client's values of a type are to Arrow."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = []
    for column, kind in zip(columns, schema.types, strict=True):
        value = binary if pa.types.is_binary(kind) else others.get(kind)
        arrays.append(pa.array([None if one is None else value(one) for one in column] if value else column, kind))
    return pa.table(arrays, schema=schema)
