"""Fold of a keyed table's changes to the newest per key."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from replicator.model.change import Operation
from replicator.model.schema import TableSchema
from replicator.targets.iceberg.spark.changes import AT, GONE, SEQ, before, is_, key_places, row, spark_type

_ARRIVES = "_arrives"
_AGE = "_age"


def fold(changes: DataFrame, schema: TableSchema, *, only_arrivals: bool) -> DataFrame:
    """One row per key that the changes touch: c0…, _seq, _gone (true: the key is to be deleted; only its key columns
    count).

    An UPDATE that moves its key is a delete of the old key and an upsert of the new one, with one sequence number.  A
    source checks keys row by row, so at any place of the log a key has at most one row, and the newest change of a key
    tells its state: chains (1→2→3), swaps over a third key and delete + insert come out right (invariant 4).

    only_arrivals: the segments hold neither UPDATE nor DELETE.
    """
    keys = key_places(schema)
    arriving = [F.col(row(i)) for i in range(len(schema.columns))]
    events = changes.where(~is_(Operation.DELETE)).select(*arriving, SEQ, F.lit(1).alias(_ARRIVES))
    if not only_arrivals:
        leaving = [
            F.col(before(i)).alias(row(i)) if i in keys else F.lit(None).cast(spark_type(c.type)).alias(row(i))
            for i, c in enumerate(schema.columns)
        ]
        left = changes.where(is_(Operation.DELETE) | (is_(Operation.UPDATE) & moved(keys)))
        events = events.unionByName(left.select(*leaving, SEQ, F.lit(0).alias(_ARRIVES)))
    # Of one event's two halves at the same key (equal for the source's collation only by its bytes) the arrival counts.
    newest = Window.partitionBy(*[F.col(row(i)) for i in keys]).orderBy(F.col(SEQ).desc(), F.col(_ARRIVES).desc())
    ranked = events.withColumn(_AGE, F.row_number().over(newest)).where(F.col(_AGE) == 1)
    return ranked.select(*arriving, SEQ, (F.col(_ARRIVES) == 0).alias(GONE))


def upserts(folded: DataFrame) -> DataFrame:
    """The rows that stay."""
    return folded.where(~F.col(GONE))


def rows(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """READ rows as they are: c0…, _seq, and _at where the changes have it."""
    times = [AT] * (AT in changes.columns)
    return changes.where(is_(Operation.READ)).select(*[row(i) for i in range(len(schema.columns))], SEQ, *times)


def row_type(schema: TableSchema) -> T.StructType:
    """Schema of `rows`."""
    fields = [T.StructField(row(i), spark_type(c.type)) for i, c in enumerate(schema.columns)]
    return T.StructType([*fields, T.StructField(SEQ, T.LongType())])


def moved(keys: list[int]) -> Column:
    """Of UPDATEs: those that move their row to another key, by the rule of `replicator.folding.key_moves`."""
    same = [F.col(before(i)).isNull() | F.col(row(i)).eqNullSafe(F.col(before(i))) for i in keys]
    return ~reduce(Column.__and__, same)
