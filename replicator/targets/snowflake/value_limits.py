"""Values that Snowflake's columns do not take."""

from __future__ import annotations

import pyarrow as pa

from replicator.targets.warehouse.value_limits import CellLimit, check_cells

MAX_TEXT, MAX_BYTES = 16 * 1024 * 1024, 8 * 1024 * 1024  # of a cell, in bytes


def check_values(rows: pa.Table, table: str) -> None:
    """See `check_cells`."""
    check_cells(rows, table, "Snowflake", CellLimit(MAX_TEXT), CellLimit(MAX_BYTES))
