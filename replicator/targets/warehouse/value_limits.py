"""Values that a warehouse's columns do not take, found before they are sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import ValueDoesNotFit


@dataclass(frozen=True)
class CellLimit:
    """most: bytes of a value, or characters."""

    most: int
    characters: bool = False

    def __str__(self) -> str:
        return f"{self.most:,} characters" if self.characters else f"{self.most // 1024**2} MiB"


def check_cells(rows: pa.Table, table: str, product: str, text: CellLimit, binary: CellLimit) -> None:
    """ValueDoesNotFit for the first column with a value that is too long, or a time out of range."""
    for name in rows.column_names:
        values = rows.column(name)
        if pa.types.is_date32(values.type) or pa.types.is_timestamp(values.type):
            check_years(name, values, table)
        if pa.types.is_string(values.type):
            limit, what = text, "a text"
        elif pa.types.is_binary(values.type):
            limit, what = binary, "a binary value"
        else:
            continue
        longest = pc.max(pc.utf8_length(values) if limit.characters else pc.binary_length(values)).as_py() or 0
        if longest > limit.most:
            size = f"{longest} {'characters' if limit.characters else 'bytes'}"
            message = f"The column {name} of {table} has {what} of {size}; {product} takes {limit}."
            remedy = "Exclude the column from the replicator, or shorten the value; then resnapshot the table."
            raise ValueDoesNotFit(message, remedy=remedy, column=name)


def check_years(name: str, values: pa.Array | pa.ChunkedArray, table: str) -> None:
    """Raise ValueDoesNotFit for dates and times outside of the years 1 to 9999.

    Sources replace such values; Arrow would write their years in another form.
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
