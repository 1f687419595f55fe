"""Values that BigQuery's columns do not take, found before they are sent."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import ValueDoesNotFit
from replicator.targets.warehouse.years import check_years

# A row may have 50 MB as Parquet and 100 MB in a table; what one cell may have is what every statement still reads.
MAX_CELL = 10 * 1024 * 1024


def check_values(rows: pa.Table, table: str) -> None:
    """ValueDoesNotFit for the first column with a value that is too long, or a time out of range."""
    for name in rows.column_names:
        values = rows.column(name)
        if pa.types.is_date32(values.type) or pa.types.is_timestamp(values.type):
            check_years(name, values, table)
        text = pa.types.is_string(values.type)
        if not text and not pa.types.is_binary(values.type):
            continue
        longest = pc.max(pc.binary_length(values)).as_py() or 0
        if longest > MAX_CELL:
            what = "a text" if text else "a binary value"
            message = (
                f"The column {name} of {table} has {what} of {longest} bytes; BigQuery takes {MAX_CELL // 1024**2} MiB."
            )
            remedy = "Exclude the column from the replicator, or shorten the value; then resnapshot the table."
            raise ValueDoesNotFit(message, remedy=remedy, column=name)
