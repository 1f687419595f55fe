"""What Spark does with a batch, and with what a TRUNCATE or a sweep takes away, in each mode but the changelog."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from replicator.folding.footers import KeyColumnRange
from replicator.model.mode import CURRENT, DELETED, DELETED_AT, VALID_FROM, VALID_TO, Mode
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.targets.base import DeleteBelow
from replicator.targets.iceberg.spark import history_fold, soft_delete_fold
from replicator.targets.iceberg.spark.changes import SEQ, insert, key_places, row, upserts
from replicator.targets.iceberg.spark.merge_sql import bounds, merge_keyed, merge_soft_deleted, merge_versions, of_part
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.naming import quoted, sql_name, sql_string


def put_folded(
    spark: SparkSession,
    table: IcebergTable,
    schema: TableSchema,
    folded: DataFrame,
    ranges: Sequence[KeyColumnRange] | None,
) -> None:
    """A mirror's fold.  ranges: of the batch's keys; None where the table has no row under any of them."""
    if ranges is None:
        insert(table, upserts(folded), schema)
    else:
        merge_keyed(spark, table, schema, folded, ranges)


def put_changes(
    spark: SparkSession,
    table: IcebergTable,
    schema: TableSchema,
    changes: DataFrame,
    ranges: Sequence[KeyColumnRange] | None,
) -> None:
    """Timed changes of a table that keeps what goes: soft delete, history_fold."""
    if table.mode is Mode.HISTORY:
        _put_versions(spark, table, schema, changes, ranges)
        return
    folded = soft_delete_fold.fold(changes, schema)
    if ranges is None:
        insert(table, folded.where(F.col(soft_delete_fold.KNOWN)), schema)
    else:
        merge_soft_deleted(spark, table, schema, folded, ranges)


def _put_versions(
    spark: SparkSession,
    table: IcebergTable,
    schema: TableSchema,
    changes: DataFrame,
    ranges: Sequence[KeyColumnRange] | None,
) -> None:
    held = None if ranges is None else _held(spark, table, schema, changes, ranges)
    versions = history_fold.fold(changes, held, schema)
    if ranges is None:
        insert(table, versions, schema)
    else:
        merge_versions(spark, table, schema, versions, ranges)


def _held(
    spark: SparkSession, table: IcebergTable, schema: TableSchema, changes: DataFrame, ranges: Sequence[KeyColumnRange]
) -> DataFrame:
    """The newest version of each key that the changes touch."""
    keys = key_places(schema)
    touched = history_fold.concerned(changes, schema).select(*[F.col(row(i)).alias(f"w{i}") for i in keys])
    target = spark.table(sql_name(table.name))
    for condition in bounds(ranges):
        target = target.where(condition)
    wanted = [F.col(quoted(name)).alias(row(i)) for i, name in enumerate(schema.names)]
    versions = target.select(*wanted, F.col(quoted(SEQUENCE)).alias(SEQ), *Mode.HISTORY.columns)
    condition = F.lit(True)  # noqa: FBT003
    for i in keys:
        condition = condition & (F.col(row(i)) == F.col(f"w{i}"))
    return history_fold.newest(versions.join(touched, condition, "left_semi"), schema)


def end_below(spark: SparkSession, table: IcebergTable, change: DeleteBelow) -> None:
    """Rows below the number end, and stay."""
    at = f"TIMESTAMP {sql_string((change.at or datetime.now(UTC)).astimezone(UTC).isoformat())}"
    below = f"{quoted(SEQUENCE)} < {change.below}"
    if table.mode is Mode.SOFT_DELETE:
        said, which = f"{DELETED} = true, {DELETED_AT} = {at}", f"NOT {DELETED}"
    else:
        said, which = f"{VALID_TO} = greatest({VALID_FROM}, {at}), {CURRENT} = false", CURRENT
    spark.sql(f"UPDATE {sql_name(table.name)} SET {said} WHERE {below} AND {which} AND {of_part(table.name)}")
