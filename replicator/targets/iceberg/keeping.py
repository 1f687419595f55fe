"""Merges without Spark into tables that keep what goes: the rows concerned are read whole, and written anew with their marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replicator.merge import arrow_versions
from replicator.merge.arrow_versions import Kept
from replicator.merge.ranges import KeyRange
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.targets.iceberg.catalog import LakeTable
from replicator.targets.iceberg.files import LakeFiles, shaped, target_schema
from replicator.targets.iceberg.held import held_rows
from replicator.targets.iceberg.lookup import Doomed, Held, Lookup


@dataclass(frozen=True)
class Keeping:
    """Rows to write, rows that go for them, and how many of the former replace none."""

    put: pa.Table
    doomed: list[Doomed]
    new: int


def fold(
    files: LakeFiles, table: LakeTable, schema: TableSchema, changes: pa.Table, ranges: Sequence[KeyRange], most: int
) -> Keeping | None:
    """Of timed changes; None where the rows to read lie in row groups of more than `most` bytes.  Raises Unreadable."""
    lookup, target = Lookup(files, table, schema), target_schema(table)
    hits = lookup.held(arrow_versions.touched(changes, schema), ranges)
    held = held_rows(files, hits, target, most)
    if held is None:
        return None
    by_mode = arrow_versions.versions if table.mode is Mode.HISTORY else arrow_versions.soft_deleted
    kept = by_mode(changes, held, schema)
    pool = pa.concat_tables([shaped(changes, target), held])
    put = pool.take(pa.array(kept.rows))
    for name, values in kept.own.items():
        place = put.schema.get_field_index(name)
        put = put.set_column(place, put.schema.field(place), values)
    return Keeping(put, _doomed(lookup, hits, kept), kept.new)


def _doomed(lookup: Lookup, hits: Sequence[Held], kept: Kept) -> list[Doomed]:
    gone, first, found = np.sort(kept.gone), 0, []
    for hit in hits:
        mine = gone[(gone >= first) & (gone < first + len(hit.rows))] - first
        if len(mine):
            found.append(lookup.doomed(hit.file, hit.rows[mine]))
        first += len(hit.rows)
    return found
