"""Row lineage of format version 3: rows that move to another file keep their ids (Iceberg specification, "Row
lineage").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.targets.iceberg.table.layout import format_version

ROW_ID, UPDATED = "_row_id", "_last_updated_sequence_number"
_FIELDS = [
    pa.field(name, pa.int64(), metadata={b"PARQUET:field_id": str(number).encode()})
    for name, number in ((ROW_ID, 2147483540), (UPDATED, 2147483539))
]


@dataclass(frozen=True)
class FileOrigin:
    """Of a data file: the id of its first row, and when its rows were written (Iceberg's sequence number)."""

    first_row: int
    sequence: int


def with_lineage(table: Any, schema: pa.Schema) -> pa.Schema:
    """The columns of a file of moved rows; `table`: an `IcebergTable`."""
    if format_version(table) < 3 or {ROW_ID, UPDATED} & set(schema.names):  # noqa: PLR2004
        return schema
    return pa.schema([*schema, *_FIELDS])


def origin(first_row: int | None, sequence: int | None) -> FileOrigin | None:
    """Of a file as a scan has it.  None before Iceberg has given it numbers: with the next commit after an upgrade."""
    return None if first_row is None or sequence is None else FileOrigin(first_row, sequence)


def filled(rows: pa.Table, first: int, of: FileOrigin | None) -> pa.Table:
    """Rows of the file `of`, in its order from the row `first`, with what the file itself does not say of them.

    Where that is not known it stays null, and Iceberg gives new ids.
    """
    if of is None or rows.schema.names[-2:] != [ROW_ID, UPDATED]:
        return rows
    inherited = {ROW_ID: pa.array(np.arange(first, first + len(rows)) + of.first_row), UPDATED: pa.scalar(of.sequence)}
    for name, values in inherited.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pc.coalesce(rows.column(place), values))
    return rows
