"""Rows as the API gives them, and types as it names them."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

PLAIN: list[tuple[Callable[[pa.DataType], bool], str]] = [
    (pa.types.is_boolean, "BOOLEAN"), (pa.types.is_integer, "INTEGER"), (pa.types.is_floating, "FLOAT"),
    (pa.types.is_string, "STRING"), (pa.types.is_large_string, "STRING"), (pa.types.is_binary, "BYTES"),
    (pa.types.is_large_binary, "BYTES"), (pa.types.is_date, "DATE"), (pa.types.is_null, "INTEGER"),
]  # fmt: skip


def field_of_arrow(one: pa.Field) -> dict[str, Any]:
    """Of a result's column."""
    kind = one.type
    if pa.types.is_timestamp(kind):
        return {"name": one.name, "type": "TIMESTAMP" if kind.tz else "DATETIME", "mode": "NULLABLE"}
    if pa.types.is_decimal(kind):
        narrow = kind.scale <= 9 and kind.precision - kind.scale <= 29  # noqa: PLR2004 - of NUMERIC
        return {"name": one.name, "type": "NUMERIC" if narrow else "BIGNUMERIC", "mode": "NULLABLE"}
    return {"name": one.name, "type": next(name for test, name in PLAIN if test(kind)), "mode": "NULLABLE"}


def rows_of(table: pa.Table, *, whole_times: bool) -> list[dict[str, Any]]:
    """whole_times: instants as microseconds."""
    columns = [_column(table.column(number), whole_times) for number in range(table.num_columns)]
    return [{"f": [{"v": value} for value in row]} for row in zip(*columns, strict=True)]


def _column(values: pa.ChunkedArray, whole_times: bool) -> list[str | None]:  # noqa: FBT001
    kind = values.type
    if pa.types.is_timestamp(kind) and kind.tz:
        micros = values.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        return [None if one is None else str(one) if whole_times else repr(one / 1e6) for one in micros]
    if pa.types.is_timestamp(kind):
        return [None if one is None else one.isoformat() for one in values.cast(pa.timestamp("us")).to_pylist()]
    return [None if one is None else _text(one) for one in values.to_pylist()]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return repr(value) if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
