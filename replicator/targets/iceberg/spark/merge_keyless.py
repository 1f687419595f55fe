"""Merge of a table without key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from replicator.errors import TableError
from replicator.model.schema import TableSchema
from replicator.targets.base import Position
from replicator.targets.iceberg.spark import keyless_fold
from replicator.targets.iceberg.spark.changes import GONE, SEQ, Staged, read, row, spark_type
from replicator.targets.iceberg.spark.merge_sql import merge_keyless
from replicator.targets.iceberg.spark.row_shape import insert
from replicator.targets.iceberg.table.catalog import IcebergCatalog, IcebergTable
from replicator.targets.iceberg.table.commit import commit, unless_overtaken
from replicator.targets.iceberg.table.naming import sql_name


def merge(
    catalog: IcebergCatalog,
    table: IcebergTable,
    schema: TableSchema,
    files: Sequence[Staged],
    at: Position,
    after: Position,
) -> tuple[str, Mapping[str, str]]:
    """Returns how it was done and the commit's summary.  Raises TableError where a row to delete is not there."""
    how = ["append"]

    def write(spark: SparkSession) -> None:
        delta = keyless_fold.fold(read(spark, files, schema, at.applied), schema)
        needed = int(delta.removed.agg(F.sum(keyless_fold.NEED)).collect()[0][0] or 0)
        if needed == 0:
            insert(table, delta.added, schema)
            return
        how[0] = "merge"
        _take_and_put(spark, catalog, table, schema, delta, needed)

    summary = commit(catalog, table, after, write)
    return how[0], summary


def _take_and_put(
    spark: SparkSession,
    catalog: IcebergCatalog,
    table: IcebergTable,
    schema: TableSchema,
    delta: keyless_fold.Delta,
    needed: int,
) -> None:
    target = spark.table(sql_name(table.name))
    to_delete = keyless_fold.to_delete(delta.removed, target, schema).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found, low, high = to_delete.agg(F.count("*"), F.min(SEQ), F.max(SEQ)).collect()[0]
        if found != needed:
            message = (
                f"{table.name} has diverged from its source: {needed - found} of {needed} rows to delete were not"
                " found."
            )
            raise unless_overtaken(catalog, table, TableError(message, table=str(schema.table)))
        merge_keyless(spark, table, schema, _delta(to_delete, delta.added, schema), (low, high))
    finally:
        to_delete.unpersist()


def _delta(to_delete: DataFrame, added: DataFrame, schema: TableSchema) -> DataFrame:
    nothing = [F.lit(None).cast(spark_type(c.type)).alias(row(i)) for i, c in enumerate(schema.columns)]
    out = to_delete.select(*nothing, SEQ, F.expr("true").alias(GONE))
    return out.unionByName(added.withColumn(GONE, F.expr("false")))
