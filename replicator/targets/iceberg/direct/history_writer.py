"""Merges without Spark into tables that keep what goes: the rows concerned are read whole, and written again with their
marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replicator.folding import history_and_soft_delete
from replicator.folding.footers import KeyColumnRange
from replicator.folding.history_and_soft_delete import RowVersions
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.targets.iceberg.direct.data_files import LakeFiles, target_schema
from replicator.targets.iceberg.direct.key_lookup import Lookup, MatchedRows, RowsToDelete
from replicator.targets.iceberg.direct.read_rows import read_rows
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.parquet_files import shaped


@dataclass(frozen=True)
class HistoryWriter:
    """Rows to write, rows that go for them, and how many of the former replace none."""

    put: pa.Table
    to_delete: list[RowsToDelete]
    new: int


def fold(
    files: LakeFiles,
    table: IcebergTable,
    schema: TableSchema,
    changes: pa.Table,
    ranges: Sequence[KeyColumnRange],
    most: int,
) -> HistoryWriter | None:
    """Of timed changes; None where the rows to read lie in row groups of more than `most` bytes.  Raises Unreadable."""
    lookup, target = Lookup(files, table, schema), target_schema(table)
    hits = lookup.held(history_and_soft_delete.touched(changes, schema), ranges)
    held = read_rows(files, hits, target, most)
    if held is None:
        return None
    by_mode = history_and_soft_delete.versions if table.mode is Mode.HISTORY else history_and_soft_delete.soft_deleted
    kept = by_mode(changes, held, schema)
    pool = pa.concat_tables([shaped(changes, target), held])
    put = pool.take(pa.array(kept.rows))
    for name, values in kept.own.items():
        place = put.schema.get_field_index(name)
        put = put.set_column(place, put.schema.field(place), values)
    return HistoryWriter(put, _doomed(lookup, hits, kept), kept.new)


def _doomed(lookup: Lookup, hits: Sequence[MatchedRows], kept: RowVersions) -> list[RowsToDelete]:
    gone, first, found = np.sort(kept.gone), 0, []
    for hit in hits:
        mine = gone[(gone >= first) & (gone < first + len(hit.rows))] - first
        if len(mine):
            found.append(lookup.to_delete(hit.file, hit.rows[mine]))
        first += len(hit.rows)
    return found
