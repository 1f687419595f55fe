"""What sessions of SQL clients share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa


@contextmanager
def transaction(execute: Callable[[str], Any], roll_back: Callable[[], Any]) -> Iterator[None]:
    """See `Session.transaction`.  roll_back: whatever it raises says nothing more than what it is done for."""
    execute("BEGIN")
    try:
        yield
        execute("COMMIT")
    except BaseException:
        with suppress(Exception):
            roll_back()
        raise


def as_arrow(rows: Sequence[tuple[Any, ...]], schema: pa.Schema, binary: Callable[[Any], bytes]) -> pa.Table:
    """See `Session.read`.  binary: the bytes of a value as the client gives it."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [
        pa.array([None if one is None else binary(one) for one in column] if pa.types.is_binary(kind) else column, kind)
        for column, kind in zip(columns, schema.types, strict=True)
    ]
    return pa.table(arrays, schema=schema)
