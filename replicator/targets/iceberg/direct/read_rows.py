"""Rows of the target, read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replicator.targets.iceberg.direct.data_files import LakeFiles, field_ids, projected
from replicator.targets.iceberg.direct.key_index import Places
from replicator.targets.iceberg.direct.key_lookup import MatchedRows


def read_rows(files: LakeFiles, hits: Sequence[MatchedRows], columns: pa.Schema, most: int) -> pa.Table | None:
    """These columns (some of `target_schema`) of all these rows; None where the row groups that they lie in take more
    than `most` bytes for them.
    """
    parts, size, wanted = [columns.empty_table()], 0, set(field_ids(columns))
    for hit in hits:
        with files.open(hit.file.uri, hit.file.size) as opened:
            places = [place for place, number in enumerate(field_ids(opened.schema_arrow)) if number in wanted]
            names = [opened.schema_arrow.names[place] for place in places]
            for number, rows in _by_group(opened, hit.rows):
                group = opened.metadata.row_group(number)
                size += sum(group.column(place).total_uncompressed_size for place in places)
                if size > most:
                    return None
                read = opened.read_row_group(number, columns=names)
                parts.append(projected(read, columns).take(pa.array(rows)))
    return pa.concat_tables(parts).combine_chunks()


def _by_group(file: pq.ParquetFile, rows: Places) -> list[tuple[int, Places]]:
    """Row groups that have some of these (ascending) rows, and their places in them."""
    sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    firsts = np.cumsum([0, *sizes])
    cuts = np.searchsorted(rows, firsts)
    return [
        (number, rows[cuts[number] : cuts[number + 1]] - firsts[number])
        for number in range(len(sizes))
        if cuts[number + 1] > cuts[number]
    ]
