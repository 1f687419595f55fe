"""The changelog: every change is a row, which is only ever appended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from replicator.model.mode import BELOW
from replicator.model.schema import COMMIT_TS, OPERATION, SEQUENCE
from replicator.staging.storage import Storage
from replicator.state.journal import EventKind
from replicator.targets.base import Counts, DeleteBelow, Merge, Position, Replace, item_of
from replicator.targets.iceberg.direct.result import DIRECT, ChangeOutcome
from replicator.targets.iceberg.direct.writer import Direct, DirectLimits, FallBackToSpark
from replicator.targets.iceberg.spark import fold
from replicator.targets.iceberg.spark.changelog import in_spark
from replicator.targets.iceberg.spark.changes import read
from replicator.targets.iceberg.spark.row_shape import as_read, insert, shaped
from replicator.targets.iceberg.spark.staged_files import staged
from replicator.targets.iceberg.table.catalog import IcebergCatalog, IcebergTable
from replicator.targets.iceberg.table.commit import commit
from replicator.targets.iceberg.table.naming import sql_name
from replicator.targets.iceberg.table.types import from_iceberg


def merge(
    catalog: IcebergCatalog, storage: Storage, table: IcebergTable, change: Merge, at: Position, limits: DirectLimits
) -> ChangeOutcome:
    """The changes above the position, unfolded."""
    after = replace(at, applied=change.upto, item=item_of(change))
    try:
        direct = Direct.of(storage, table, limits)
        if not change.segments:
            direct.nothing(after)
            return ChangeOutcome("nothing", Counts())
        return ChangeOutcome("append", direct.append_changes(change.schema, change.segments, at, after), DIRECT)
    except FallBackToSpark as error:
        reason = str(error)

    def write(spark: SparkSession) -> None:
        with staged(storage, change.segments, here=catalog.pool.config.here) as files:
            changes = read(spark, files, change.schema, at.applied, timed=True)
            insert(table, in_spark(changes, change.schema), change.schema)

    return ChangeOutcome("append", commit(catalog, table, after, write if change.segments else None), reason)


def replace_all(
    catalog: IcebergCatalog, storage: Storage, table: IcebergTable, change: Replace, at: Position
) -> ChangeOutcome:
    """A table without key was read again: its READ rows, and a marker if there is something that they follow."""

    def write(spark: SparkSession) -> None:
        parts = []
        with staged(storage, change.segments, here=catalog.pool.config.here) as files:
            if files:
                changes = read(spark, files, change.schema, -1, timed=True)
                parts.append(shaped(table, as_read(fold.rows(changes, change.schema)), change.schema))
            if table.total("records"):
                swept = DeleteBelow(change.applied + 1, change.applied, EventKind.SWEEP.value)
                parts.append(_marker(spark, table, swept))
            for part in parts[1:]:
                parts[0] = parts[0].unionByName(part)
            parts[0].writeTo(sql_name(table.name)).append()

    after = replace(at, applied=change.applied, loaded=change.loaded, load=change.load, item=item_of(change))
    something = change.segments or table.total("records")
    return ChangeOutcome("append", commit(catalog, table, after, write if something else None))


def mark(catalog: IcebergCatalog, table: IcebergTable, change: DeleteBelow, after: Position) -> ChangeOutcome:
    """A TRUNCATE or a sweep is a row without values: what has no change from `_below` on is gone."""

    def write(spark: SparkSession) -> None:
        _marker(spark, table, change).writeTo(sql_name(table.name)).append()

    return ChangeOutcome("append", commit(catalog, table, after, write))


def _marker(spark: SparkSession, table: IcebergTable, change: DeleteBelow) -> DataFrame:
    said = {SEQUENCE: F.lit(change.upto), OPERATION: F.lit(change.operation), BELOW: F.lit(change.below)}
    if change.at is not None and change.operation != EventKind.SWEEP:
        said[COMMIT_TS] = F.lit(change.at.astimezone(UTC).isoformat())
    nothing = F.lit(None)
    return spark.range(1).select(
        *[
            said.get(field["name"], nothing).cast(str(from_iceberg(str(field["type"])))).alias(field["name"])
            for field in table.fields
        ]
    )
