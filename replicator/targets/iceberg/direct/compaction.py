"""Compaction in small steps without Spark: small files become one, and worn files lose their deleted rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from replicator.targets.iceberg.direct.data_files import (
    LakeFiles,
    new_data_file,
    projected,
    readable,
    target_schema,
)
from replicator.targets.iceberg.direct.key_lookup import deleted
from replicator.targets.iceberg.direct.manifest_entries import data_files
from replicator.targets.iceberg.direct.partitions import PartitionSpec, present_spec, specs
from replicator.targets.iceberg.direct.scan_plan import PlannedFile, carry_on, read_plan
from replicator.targets.iceberg.jvm import content_files
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.commit import commit_directly
from replicator.targets.iceberg.table.layout import format_version
from replicator.targets.iceberg.table.row_lineage import FileOrigin, filled, with_lineage
from replicator.targets.parquet_files import write_stream

SMALL_FILE = 32 * 1024 * 1024
MAX_BYTES, MAX_ROWS = 96 * 1024 * 1024, 1_000_000  # of files read in one step: it delays the merges of its table
WORN = 0.1
GROWTH = 2
MIN_SMALL_FILES = 4  # of a partition: fewer are not put together
FIRST = 2
BATCH_ROWS = 8192


@dataclass
class _Step:
    """Files to rewrite, of bounded size."""

    files: list[PlannedFile] = field(default_factory=list)
    size: int = 0
    rows: int = 0

    def full(self, *more: PlannedFile) -> bool:
        """Would these be too much?  The first two are not."""
        size, rows = self.size + sum(one.size for one in more), self.rows + sum(one.rows for one in more)
        return len(self.files) + len(more) > FIRST and (size > MAX_BYTES or rows > MAX_ROWS)

    def add(self, file: PlannedFile) -> None:
        """One more."""
        self.files.append(file)
        self.size, self.rows = self.size + file.size, self.rows + file.rows

    def add_smallest(self, small: Sequence[PlannedFile]) -> None:
        """Of one partition, ascending, up to the first that is much larger than all before it together."""
        if self.full(*small[:2]):
            return
        before = self.size
        for place, file in enumerate(small):
            if place > 1 and (file.size > GROWTH * (self.size - before) or self.full(file)):
                break
            self.add(file)


def chosen(files: Sequence[PlannedFile], small_files: int, *, worn: bool) -> list[PlannedFile]:
    """What one step rewrites.

    Of each partition that has more than its share of `small_files` small ones the smallest: so a row is rewritten about
    as often as the logarithm of the partition's size says.  With `worn`, those with the greatest share of deleted rows
    too.
    """
    step, partitions = _Step(), small_by_partition(files)
    share = small_files if len(partitions) < 2 else max(MIN_SMALL_FILES, small_files // len(partitions))  # noqa: PLR2004
    for small in partitions:
        if len(small) > share:
            step.add_smallest(small)
    if worn:
        rest = (file for file in files if file not in step.files)
        for file in sorted(rest, key=lambda file: -file.deleted / max(file.rows, 1)):
            if file.deleted <= WORN * file.rows or (step.files and step.full(file)):
                break
            step.add(file)
    return step.files


def small_by_partition(files: Sequence[PlannedFile]) -> list[list[PlannedFile]]:
    """Small files of each partition, the smallest first; the fullest partition first."""
    found: dict[Hashable, list[PlannedFile]] = {}
    for file in sorted((file for file in files if file.size < SMALL_FILE), key=lambda file: file.size):
        found.setdefault((file.spec, file.partition), []).append(file)
    return sorted(found.values(), key=len, reverse=True)


def rewrite(files: LakeFiles, table: IcebergTable, chosen_files: Sequence[PlannedFile]) -> None:
    """Move the live rows of some files of the table to new ones, under its present partitions, by one compare-and-set.

    The snapshot carries no position, `position` searches past it.

    Raises TargetConflict where another program or worker committed since `table` was read, Unreadable.
    """
    target, names = with_lineage(table, target_schema(table)), list[str]()
    known, spec = specs(table), present_spec(table)
    origins = {file.uri: file.origin for file in read_plan(table)} if format_version(table) > 2 else {}  # noqa: PLR2004

    def new_file() -> str:
        names.append(new_data_file(table))
        return names[-1]

    try:
        rows = (
            batch
            for file in chosen_files
            for batch in _living(files, file, target, known[file.spec], origins.get(file.uri))
        )
        written = write_stream(files, new_file, target, rows, split=spec.split if spec.fields else None)
    except Exception:
        files.delete(names)
        raise

    new = data_files(table, written)
    gone = [one for file in chosen_files for one in file.objects]

    def build(transaction: Any) -> Any:
        update = transaction.newRewrite().validateFromSnapshot(
            table.snapshot
        )  # what came before is read, deletes and all
        content_files.remove(table.engine, update, gone)
        content_files.add(table.engine, update, (one.java for one in new))
        return update

    snapshot = commit_directly(table, None, build, lambda: files.delete(names), len(gone))
    carry_on(table, snapshot, {file.uri for file in chosen_files}, new)


def _living(
    files: LakeFiles, file: PlannedFile, target: pa.Schema, spec: PartitionSpec, of: FileOrigin | None
) -> Iterator[pa.Table]:
    """Rows that are not deleted, under the table's present columns."""
    gone, first = deleted(files, file), 0
    with files.open(file.uri, file.size) as opened:
        readable(opened.schema_arrow, spec.identities)
        for batch in opened.iter_batches(BATCH_ROWS):
            low, high = np.searchsorted(gone, (first, first + len(batch)))
            living = np.ones(len(batch), bool)
            living[gone[low:high] - first] = False
            yield filled(projected(batch, target), first, of).filter(pa.array(living))
            first += len(batch)
