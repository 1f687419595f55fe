"""Fold of a keyless table's changes to a multiset delta, and the choice of the rows that it takes out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from replicator.model.change import Operation
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.model.types import Kind
from replicator.targets.iceberg.spark.changes import SEQ, before, is_, quoted, row

NEED = "_need"
_SIGN = "_sign"
_NET = "_net"
_RANK = "_rank"


@dataclass(frozen=True)
class Delta:
    """added: c0…, _seq of the rows to put in; removed: c0…, _need (how many of these equal rows to take out), _seq."""

    added: DataFrame
    removed: DataFrame


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


def exact(column: Column, kind: Kind) -> Column:
    """Spark takes 0.0 and -0.0 for equal; the source's rows are not.  A float's text is exact and tells them apart."""
    return column.cast(T.StringType()) if kind in {Kind.FLOAT, Kind.DOUBLE} else column
