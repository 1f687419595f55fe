"""Compaction in small steps without Spark: small files become one, and worn files lose their deleted rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from replicator.targets.iceberg.direct.data_files import (
    LakeFiles,
    new_data_file,
    projected,
    target_schema,
)
from replicator.targets.iceberg.direct.key_lookup import deleted
from replicator.targets.iceberg.direct.manifest_entries import data_files
from replicator.targets.iceberg.direct.scan_plan import PlannedFile, carry_on, read_plan
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.commit import commit_directly
from replicator.targets.iceberg.table.layout import format_version
from replicator.targets.iceberg.table.row_lineage import Origin, filled, origin, with_lineage
from replicator.targets.parquet_files import write_stream

SMALL_FILE = 32 * 1024 * 1024
MAX_BYTES, MAX_ROWS = 96 * 1024 * 1024, 1_000_000  # of files read in one step: it delays the merges of its table
WORN = 0.1
GROWTH = 2
BATCH_ROWS = 8192


def chosen(files: Sequence[PlannedFile], small_files: int, *, worn: bool) -> list[PlannedFile]:
    """What one step rewrites.

    Of more than `small_files` small ones the smallest, up to the first that is much larger than all before it together:
    so a row is rewritten about as often as the logarithm of the table's size says.  With `worn`, those with the
    greatest share of deleted rows too.
    """
    small = sorted((file for file in files if file.size < SMALL_FILE), key=lambda file: file.size)
    found: list[PlannedFile] = []
    total = rows = 0

    def too_much(file: PlannedFile) -> bool:
        return total + file.size > MAX_BYTES or rows + file.rows > MAX_ROWS

    if len(small) > small_files:
        for file in small:
            if len(found) > 1 and (file.size > GROWTH * total or too_much(file)):
                break
            found.append(file)
            total, rows = total + file.size, rows + file.rows
    if worn:
        shares = sorted(
            (file for file in files if file not in found), key=lambda file: -file.deleted / max(file.rows, 1)
        )
        for file in shares:
            if file.deleted <= WORN * file.rows or (found and too_much(file)):
                break
            found.append(file)
            total, rows = total + file.size, rows + file.rows
    return found


def rewrite(files: LakeFiles, table: IcebergTable, chosen_files: Sequence[PlannedFile]) -> None:
    """The rows that live of some of the table's files in new ones, by one compare-and-set.

    The snapshot carries no position, `position` searches past it.

    Raises TargetConflict where anybody committed since `table` was read.
    """
    target, names = with_lineage(table, target_schema(table)), list[str]()
    origins = {file.uri: origin(file.java) for file in read_plan(table)} if format_version(table) > 2 else {}  # noqa: PLR2004

    def new_file() -> str:
        names.append(new_data_file(table))
        return names[-1]

    try:
        rows = (batch for file in chosen_files for batch in _living(files, file, target, origins.get(file.uri)))
        written = write_stream(files, new_file, target, rows)
    except Exception:
        files.delete(names)
        raise

    new = data_files(table, written)

    def build(transaction: Any) -> Any:
        update = transaction.newRewrite().validateFromSnapshot(
            table.snapshot
        )  # what came before is read, deletes and all
        for one in chosen_files:
            update.deleteFile(one.java)
            for deletes in one.deletes:
                update.deleteFile(deletes.java)
        for made in new:
            update.addFile(made.java)
        return update

    snapshot = commit_directly(table, None, build, lambda: files.delete(names))
    carry_on(table, snapshot, {file.uri for file in chosen_files}, new)


def _living(files: LakeFiles, file: PlannedFile, target: pa.Schema, of: Origin | None) -> Iterator[pa.Table]:
    """Rows that are not deleted, under the table's present columns."""
    gone, first = deleted(files, file), 0
    with files.open(file.uri) as opened:
        for batch in opened.iter_batches(BATCH_ROWS):
            low, high = np.searchsorted(gone, (first, first + len(batch)))
            living = np.ones(len(batch), bool)
            living[gone[low:high] - first] = False
            yield filled(projected(batch, target), first, of).filter(pa.array(living))
            first += len(batch)
