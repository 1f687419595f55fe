"""Values that BigQuery's columns do not take."""

from __future__ import annotations

import pyarrow as pa

from replicator.targets.warehouse.value_limits import CellLimit, check_cells

# A row may have 50 MB as Parquet and 100 MB in a table; what one cell may have is what every statement still reads.
MAX_CELL = 10 * 1024 * 1024


def check_values(rows: pa.Table, table: str) -> None:
    """See `check_cells`."""
    check_cells(rows, table, "BigQuery", CellLimit(MAX_CELL), CellLimit(MAX_CELL))
