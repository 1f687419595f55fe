"""Append, merge, replace and delete: what changes rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from replicator.merge import fold
from replicator.merge.changes import quoted, read, staged
from replicator.merge.ranges import FEW, KeyRange, LeftOut, footers, key_ranges, left_out, with_values
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import Append, DeleteBelow, Merge, Position, Replace
from replicator.targets.iceberg import keyless, unchanged
from replicator.targets.iceberg.catalog import LakeCatalog, LakeTable
from replicator.targets.iceberg.commit import commit
from replicator.targets.iceberg.direct import Counts, Direct, Limits, NotDirectly
from replicator.targets.iceberg.merge_sql import merge_keyed
from replicator.targets.iceberg.naming import sql_name
from replicator.targets.iceberg.position import position
from replicator.targets.iceberg.pruning import nothing_in, whole_files_below
from replicator.targets.iceberg.rows import insert, require_columns, shaped

SKIPPED = "skip"
DIRECT = "direct"
LIMITS = Limits()


@dataclass(frozen=True)
class Outcome:
    """How a change was done, what it did (Spark: the summary of its commit), and why it took the way that it took.

    `reason`: DIRECT, or why Spark did it; empty where there is no choice.
    """

    how: str
    did: Counts | Mapping[str, str]
    reason: str = ""

    def __str__(self) -> str:
        """`merge (direct)`, `merge (Spark: values left out)`, `skip`."""
        if not self.reason:
            return self.how
        return f"{self.how} ({self.reason})" if self.reason == DIRECT else f"{self.how} (Spark: {self.reason})"


def append(
    catalog: LakeCatalog, storage: Storage, table: LakeTable, change: Append, limits: Limits = LIMITS
) -> Outcome:
    """Rows up to the position's `loaded` are in already and are left out; the compare-and-set of the commit does the rest."""
    at = position(table)
    segments = [s for s in change.segments if s.last_sequence > at.loaded]
    if at.loaded >= change.loaded:
        return Outcome(SKIPPED, {})
    after = replace(at, loaded=change.loaded)
    require_columns(table, change.schema)
    try:
        direct = Direct.of(storage, table, catalog.pool.config.warehouse, limits)
        return Outcome("append", direct.append(change.schema, segments, at, after), DIRECT)
    except NotDirectly as error:
        reason = str(error)

    def write(spark: SparkSession) -> None:
        changes = read(spark, staged(storage, segments), change.schema, at.loaded)
        insert(table, fold.rows(changes, change.schema), change.schema)

    return Outcome("append", commit(catalog, table, after, write if segments else None), reason)


@dataclass(frozen=True)
class _Batch:
    """What is to be merged: segments that are not in yet, and what their footers tell."""

    segments: Sequence[Segment]
    ranges: Sequence[KeyRange]
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


def merge(catalog: LakeCatalog, storage: Storage, table: LakeTable, change: Merge, limits: Limits = LIMITS) -> Outcome:
    """Fold, and apply in one commit, with what the position says is in already left out."""
    at = position(table)
    segments = [s for s in change.segments if s.last_sequence > at.applied]
    if at.applied >= change.upto:
        return Outcome(SKIPPED, {})
    after = replace(at, applied=change.upto)
    if segments:
        require_columns(table, change.schema)
    batch = _Batch.of(storage, segments, change.schema)
    try:
        return _directly(Direct.of(storage, table, catalog.pool.config.warehouse, limits), change, batch, at, after)
    except NotDirectly as error:
        reason = str(error)
    if not segments:
        return Outcome("nothing", commit(catalog, table, after, None), reason)
    if not change.schema.key:
        return Outcome(*keyless.merge(catalog, table, change.schema, staged(storage, segments), at, after), reason)
    return replace(_in_spark(catalog, storage, table, change, batch, at, after), reason=reason)


def _directly(direct: Direct, change: Merge, batch: _Batch, at: Position, after: Position) -> Outcome:
    """Raises NotDirectly."""
    if not batch.segments:
        direct.nothing(after)
        return Outcome("nothing", Counts())
    if batch.lacking is not None:
        raise NotDirectly("values left out")
    if not change.schema.key and not batch.arrivals:
        raise NotDirectly("no key")
    counts = direct.merge(change.schema, batch.segments, batch.ranges, at, after)
    return Outcome("merge" if counts.updated or counts.deleted else "append", counts, DIRECT)


def _in_spark(
    catalog: LakeCatalog,
    storage: Storage,
    table: LakeTable,
    change: Merge,
    batch: _Batch,
    at: Position,
    after: Position,
) -> Outcome:
    ranges, lacking = batch.ranges, batch.lacking
    new_keys = table.total("records") == 0 or nothing_in(table, ranges)
    if not new_keys and len(change.schema.key) == 1 and sum(s.rows for s in batch.segments) <= FEW:
        ranges = with_values(storage, batch.paths, ranges)

    def write(spark: SparkSession) -> None:
        changes = read(spark, staged(storage, batch.segments), change.schema, at.applied)
        if lacking is None:
            put(spark, fold.fold(changes, change.schema, only_arrivals=batch.arrivals))
            return
        near = None if new_keys else ranges
        with unchanged.folded(spark, catalog, table, change, changes, near, lacking) as folded:
            put(spark, folded)

    def put(spark: SparkSession, folded: DataFrame) -> None:
        if new_keys:
            insert(table, fold.upserts(folded), change.schema)
        else:
            merge_keyed(spark, table, change.schema, folded, ranges)

    return Outcome("append" if new_keys else "merge", commit(catalog, table, after, write))


def replace_all(catalog: LakeCatalog, storage: Storage, table: LakeTable, change: Replace) -> Outcome:
    """The rows become exactly those of the segments, in one commit."""
    at = position(table)
    if at.load == change.load and at.loaded >= change.loaded:
        return Outcome(SKIPPED, {})
    require_columns(table, change.schema)

    def write(spark: SparkSession) -> None:
        if change.segments:
            rows = fold.rows(read(spark, staged(storage, change.segments), change.schema, -1), change.schema)
        else:
            rows = spark.createDataFrame([], fold.row_type(change.schema))
        shaped(table, rows, change.schema).writeTo(sql_name(table.name)).overwrite(F.expr("true"))

    after = replace(at, applied=change.applied, loaded=change.loaded, load=change.load)
    return Outcome("replace", commit(catalog, table, after, write))


def delete_below(catalog: LakeCatalog, table: LakeTable, change: DeleteBelow) -> Outcome:
    """Rows with an older number go.

    The row filter is written twice: the second form cannot be answered from metadata, because Spark's metadata-only delete
    knows neither staging nor snapshot properties (seen in Iceberg 1.12).  Where whole files go, Iceberg's API does it.
    """
    at = position(table)
    if at.applied >= change.upto:
        return Outcome(SKIPPED, {})
    after = replace(at, applied=change.upto)
    if whole_files_below(table, change.below):

        def everything(spark: SparkSession) -> None:
            empty = spark.createDataFrame([], spark.table(sql_name(table.name)).schema)
            empty.writeTo(sql_name(table.name)).overwrite(F.col(SEQUENCE) < change.below)

        return Outcome("truncate", commit(catalog, table, after, everything))

    def write(spark: SparkSession) -> None:
        below = f"{quoted(SEQUENCE)} < {change.below}"
        spark.sql(f"DELETE FROM {sql_name(table.name)} WHERE {below} AND {quoted(SEQUENCE)} + 0 < {change.below}")

    return Outcome("delete", commit(catalog, table, after, write))
