"""Append, merge, replace and delete: what changes rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from replicator.folding.footers import MAX_LISTED, KeyColumnRange, LeftOut, footers, key_ranges, left_out, with_values
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import Append, Counts, DeleteBelow, Merge, Position, Replace, item_of
from replicator.targets.iceberg import changelog
from replicator.targets.iceberg.direct.pruning import nothing_in, whole_files_below
from replicator.targets.iceberg.direct.result import DIRECT, SKIPPED, ChangeOutcome
from replicator.targets.iceberg.direct.writer import Direct, DirectLimits, FallBackToSpark, TooLarge, up_to
from replicator.targets.iceberg.spark import fold, merge_keyless, merge_unchanged
from replicator.targets.iceberg.spark.changes import quoted, read
from replicator.targets.iceberg.spark.merge_modes import end_below, put_changes, put_folded
from replicator.targets.iceberg.spark.merge_sql import of_part
from replicator.targets.iceberg.spark.row_shape import as_read, insert, require_columns, shaped
from replicator.targets.iceberg.spark.staged_files import staged
from replicator.targets.iceberg.table.catalog import IcebergCatalog, IcebergTable
from replicator.targets.iceberg.table.commit import commit
from replicator.targets.iceberg.table.naming import sql_name
from replicator.targets.iceberg.table.position import position

LIMITS = DirectLimits()


def append(
    catalog: IcebergCatalog, storage: Storage, table: IcebergTable, change: Append, limits: DirectLimits = LIMITS
) -> ChangeOutcome:
    """Rows up to the position's `loaded` are in already and are left out; the compare-and-set of the commit does the
    rest.
    """
    at = position(table)
    segments = [s for s in change.segments if s.last_sequence > at.loaded]
    if at.loaded >= change.loaded:
        return ChangeOutcome(SKIPPED, {})
    after = replace(at, loaded=change.loaded, item=item_of(change))
    require_columns(table, change.schema)
    try:
        direct = Direct.of(storage, table, limits)
        return ChangeOutcome("append", direct.append(change.schema, segments, at, after), DIRECT)
    except FallBackToSpark as error:
        reason = str(error)

    def write(spark: SparkSession) -> None:
        with staged(storage, segments, here=catalog.pool.config.here) as files:
            changes = read(spark, files, change.schema, at.loaded, timed=True)
            insert(table, as_read(fold.rows(changes, change.schema)), change.schema)

    return ChangeOutcome("append", commit(catalog, table, after, write if segments else None), reason)


@dataclass(frozen=True)
class _Batch:
    """What is to be merged: segments that are not in yet, and what their footers tell."""

    segments: Sequence[Segment]
    ranges: Sequence[KeyColumnRange]
    arrivals: bool
    lacking: LeftOut | None

    @property
    def paths(self) -> list[str]:
        return [segment.path for segment in self.segments]

    @classmethod
    def of(cls, storage: Storage, segments: Sequence[Segment], schema: TableSchema) -> _Batch:
        files = footers(storage, [s.path for s in segments])
        arrivals = all(s.rows == s.inserts + s.reads for s in segments)
        lacking = left_out(files, schema) if schema.partial and not arrivals else None
        return cls(segments, key_ranges(files, schema), arrivals, lacking)


def merge(
    catalog: IcebergCatalog, storage: Storage, table: IcebergTable, change: Merge, limits: DirectLimits = LIMITS
) -> ChangeOutcome:
    """Fold, and apply in one commit, with what the position says is in already left out.

    What is too large to be done directly is begun with: Spark would take ten times as long.
    """
    at = position(table)
    segments = [s for s in change.segments if s.last_sequence > at.applied]
    if at.applied >= change.upto:
        return ChangeOutcome(SKIPPED, {})
    change = replace(change, segments=segments)
    after = replace(at, applied=change.upto, item=item_of(change))
    if segments:
        require_columns(table, change.schema)
    if table.mode is Mode.CHANGELOG:
        return changelog.merge(catalog, storage, table, change, at, limits)

    @cache
    def batch(count: int) -> _Batch:
        return _Batch.of(storage, segments[:count], change.schema)

    try:
        return _directly(storage, table, change, batch, at, limits)
    except FallBackToSpark as error:
        reason = str(error)
    if not segments:
        return ChangeOutcome("nothing", commit(catalog, table, after, None), reason)
    if not change.schema.key:
        with staged(storage, segments, here=catalog.pool.config.here) as files:
            return ChangeOutcome(*merge_keyless.merge(catalog, table, change.schema, files, at, after), reason)
    return replace(_in_spark(catalog, storage, table, change, batch(len(segments)), at, after), reason=reason)


def _directly(
    storage: Storage,
    table: IcebergTable,
    change: Merge,
    batch: Callable[[int], _Batch],
    at: Position,
    limits: DirectLimits,
) -> ChangeOutcome:
    """All of it, or as many of the first segments as can be done.  Raises FallBackToSpark.

    batch: what is known of so many of its first segments.
    """
    part = limits.first(change)
    while True:
        direct = Direct.of(storage, table, limits)
        after = replace(at, applied=part.upto, item=item_of(part))
        if not part.segments:
            direct.nothing(after)
            return ChangeOutcome("nothing", Counts())
        some = batch(len(part.segments))
        if not part.schema.key and not some.arrivals:
            raise FallBackToSpark("no key")
        partial = some.lacking is not None
        try:
            counts = direct.merge(part.schema, part.segments, some.ranges, at, after, partial=partial)
        except TooLarge:
            if (fewer := up_to(part, len(part.segments) // 2)) is part:
                raise
            part = fewer
            continue
        how = "merge" if counts.updated or counts.deleted else "append"
        return ChangeOutcome(how, counts, DIRECT, None if part is change else part.upto)


def _in_spark(
    catalog: IcebergCatalog,
    storage: Storage,
    table: IcebergTable,
    change: Merge,
    batch: _Batch,
    at: Position,
    after: Position,
) -> ChangeOutcome:
    ranges, lacking = batch.ranges, batch.lacking
    new_keys = table.total("records") == 0 or nothing_in(table, ranges)
    if not new_keys and len(change.schema.key) == 1 and sum(s.rows for s in batch.segments) <= MAX_LISTED:
        ranges = with_values(storage, batch.paths, ranges)

    near = None if new_keys else ranges
    mirror = table.mode is Mode.MIRROR

    def write(spark: SparkSession) -> None:
        with staged(storage, batch.segments, here=catalog.pool.config.here) as files:
            changes = read(spark, files, change.schema, at.applied, timed=not mirror)
            put = put_folded if mirror else put_changes
            if lacking is not None:
                whole = merge_unchanged.folded if mirror else merge_unchanged.filled
                with whole(spark, catalog, table, change, changes, near, lacking) as known:
                    put(spark, table, change.schema, known, near)
            elif mirror:
                put(spark, table, change.schema, fold.fold(changes, change.schema, only_arrivals=batch.arrivals), near)
            else:
                put(spark, table, change.schema, changes, near)

    return ChangeOutcome("append" if new_keys else "merge", commit(catalog, table, after, write))


def replace_all(catalog: IcebergCatalog, storage: Storage, table: IcebergTable, change: Replace) -> ChangeOutcome:
    """The rows become exactly those of the segments, in one commit."""
    at = position(table)
    if at.load == change.load and at.loaded >= change.loaded:
        return ChangeOutcome(SKIPPED, {})
    require_columns(table, change.schema)
    if table.mode is Mode.CHANGELOG:
        return changelog.replace_all(catalog, storage, table, change, at)

    def write(spark: SparkSession) -> None:
        with staged(storage, change.segments, here=catalog.pool.config.here) as files:
            if files:
                rows = fold.rows(read(spark, files, change.schema, -1), change.schema)
            else:
                rows = spark.createDataFrame([], fold.row_type(change.schema))
            shaped(table, rows, change.schema).writeTo(sql_name(table.name)).overwrite(F.expr("true"))

    after = replace(at, applied=change.applied, loaded=change.loaded, load=change.load, item=item_of(change))
    return ChangeOutcome("replace", commit(catalog, table, after, write))


def delete_below(
    catalog: IcebergCatalog, storage: Storage, table: IcebergTable, change: DeleteBelow, limits: DirectLimits = LIMITS
) -> ChangeOutcome:
    """Rows with an older number go, or end where the mode keeps them.

    Of Spark's: the row filter is written twice: the second form cannot be answered from metadata, because Spark's
    metadata-only delete knows neither staging nor snapshot properties (seen in Iceberg 1.12).  Where whole files go,
    Iceberg's API does it.
    """
    at = position(table)
    if at.applied >= change.upto:
        return ChangeOutcome(SKIPPED, {})
    after = replace(at, applied=change.upto, item=item_of(change))
    if table.mode is Mode.CHANGELOG:
        return changelog.mark(catalog, table, change, after)
    if table.mode is not Mode.MIRROR:
        return ChangeOutcome("mark", commit(catalog, table, after, lambda spark: end_below(spark, table, change)))
    try:
        direct = Direct.of(storage, table, limits)
        return ChangeOutcome("delete", direct.delete_below(change.below, after), DIRECT)
    except FallBackToSpark as error:
        reason = str(error)
    how = "truncate" if whole_files_below(table, change.below) else "delete"
    return ChangeOutcome(how, commit(catalog, table, after, rows_below(table, change.below)), reason)


def rows_below(table: IcebergTable, below: int) -> Callable[[SparkSession], None]:
    """What deletes rows with an older number in Spark, of a shared table those of the part; see `delete_below`."""
    if not whole_files_below(table, below):
        condition = f"{quoted(SEQUENCE)} < {below} AND {quoted(SEQUENCE)} + 0 < {below} AND {of_part(table.name)}"
        return lambda spark: spark.sql(f"DELETE FROM {sql_name(table.name)} WHERE {condition}")
    column, value = table.name.tenant

    def everything(spark: SparkSession) -> None:
        empty = spark.createDataFrame([], spark.table(sql_name(table.name)).schema)
        older = F.col(SEQUENCE) < below
        which = older & (F.col(quoted(column)) == value) if column else older
        empty.writeTo(sql_name(table.name)).overwrite(which)

    return everything
