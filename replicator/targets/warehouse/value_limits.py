"""The years that warehouses have."""

from __future__ import annotations

from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import ValueDoesNotFit


def check_years(name: str, values: pa.Array | pa.ChunkedArray, table: str) -> None:
    """ValueDoesNotFit for dates and times outside of the years 1 to 9999.

    Sources have none beyond; Arrow would write such years in a form of its own.
    """
    whole = values.cast(pa.timestamp("us")) if pa.types.is_timestamp(values.type) else values
    low, high = (
        (date(1, 1, 1), date(9999, 12, 31))
        if pa.types.is_date32(values.type)
        else (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))  # noqa: DTZ001 - compared without a zone
    )
    limits = pa.scalar(low, whole.type), pa.scalar(high, whole.type)
    outside = pc.or_(pc.less(whole, limits[0]), pc.greater(whole, limits[1]))
    if pc.any(outside).as_py():
        message = f"The column {name} of {table} has a time before the year 1 or after the year 9999."
        raise ValueDoesNotFit(message, column=name)
