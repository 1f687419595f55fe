"""Merge of a table without key: its changes folded to a multiset delta, and the rows chosen that this takes out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from replicator.errors import TableError
from replicator.model.change import Operation
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.targets.iceberg.spark.changes import GONE, SEQ, before, exact, insert, is_, row
from replicator.targets.iceberg.spark.merge_sql import merge_keyless
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.naming import quoted, spark_type, sql_name

NEED = "_need"
_SIGN = "_sign"
_NET = "_net"
_RANK = "_rank"


@dataclass(frozen=True)
class Delta:
    """added: c0…, _seq of the rows to put in; removed: c0…, _need (how many of these equal rows to take out), _seq."""

    added: DataFrame
    removed: DataFrame


def put(spark: SparkSession, table: IcebergTable, schema: TableSchema, changes: DataFrame) -> str:
    """Append, or MERGE where rows leave the table; which of the two.  TableError where a row to delete is not there."""
    delta = fold(changes, schema)
    needed = int(delta.removed.agg(F.sum(NEED)).collect()[0][0] or 0)
    if needed:
        _take_and_put(spark, table, schema, delta, needed)
        return "merge"
    insert(table, delta.added, schema)
    return "append"


def _take_and_put(
    spark: SparkSession,
    table: IcebergTable,
    schema: TableSchema,
    delta: Delta,
    needed: int,
) -> None:
    target = spark.table(sql_name(table.name))
    chosen = to_delete(delta.removed, target, schema).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found, low, high = chosen.agg(F.count("*"), F.min(SEQ), F.max(SEQ)).collect()[0]
        if found != needed:
            message = (
                f"{table.name} has diverged from its source: {needed - found} of {needed} rows to delete were not"
                " found."
            )
            raise TableError(message, table=str(schema.table))
        both = _delta(chosen, delta.added, schema)
        merge_keyless(spark, table, schema, both, (low, high))
    finally:
        chosen.unpersist()


def _delta(to_delete: DataFrame, added: DataFrame, schema: TableSchema) -> DataFrame:
    nothing = [F.lit(None).cast(spark_type(c.type)).alias(row(i)) for i, c in enumerate(schema.columns)]
    out = to_delete.select(*nothing, SEQ, F.expr("true").alias(GONE))
    return out.unionByName(added.withColumn(GONE, F.expr("false")))


def fold(changes: DataFrame, schema: TableSchema) -> Delta:
    """INSERT and READ add a row, DELETE takes one like its before image, UPDATE does both; what cancels is gone.

    Rows are equal when all their columns are, null equal to null.  Of equal rows that stay, the newest numbers stay.
    """
    places = range(len(schema.columns))
    added = changes.where(~is_(Operation.DELETE)).select(*[row(i) for i in places], SEQ, F.lit(1).alias(_SIGN))
    left = changes.where(is_(Operation.DELETE) | is_(Operation.UPDATE))
    removed = left.select(*[F.col(before(i)).alias(row(i)) for i in places], SEQ, F.lit(-1).alias(_SIGN))
    equal = [exact(F.col(row(i)), schema.columns[i].type.kind) for i in places]
    net = F.sum(_SIGN).over(Window.partitionBy(*equal))
    rank = F.row_number().over(Window.partitionBy(*equal, F.col(_SIGN)).orderBy(F.col(SEQ).desc()))
    events = added.unionByName(removed).withColumn(_NET, net).withColumn(_RANK, rank)
    rows = [F.col(row(i)) for i in places]
    put = events.where((F.col(_SIGN) == 1) & (F.col(_RANK) <= F.col(_NET))).select(*rows, SEQ)
    take = events.where((F.col(_SIGN) == -1) & (F.col(_NET) < 0) & (F.col(_RANK) == 1))
    return Delta(put, take.select(*rows, (-F.col(_NET)).alias(NEED), SEQ))


def to_delete(removed: DataFrame, target: DataFrame, schema: TableSchema) -> DataFrame:
    """Sequence numbers (`_seq`) of the target rows to delete: of equal rows the oldest, exactly as many as needed.

    A target row's number is its own: it is the event that inserted it.
    """
    stored = [F.col(quoted(c.name)).alias(f"t{i}") for i, c in enumerate(schema.columns)]
    here = target.select(*stored, F.col(SEQUENCE).alias("t_seq"))
    same = [
        exact(F.col(f"t{i}"), c.type.kind).eqNullSafe(exact(F.col(row(i)), c.type.kind))
        for i, c in enumerate(schema.columns)
    ]
    found = here.join(removed, reduce(Column.__and__, same))
    oldest = F.row_number().over(Window.partitionBy(F.col(SEQ)).orderBy(F.col("t_seq")))
    kept = found.select("t_seq", SEQ, NEED).withColumn(_RANK, oldest).where(F.col(_RANK) <= F.col(NEED))
    return kept.select(F.col("t_seq").alias(SEQ))
