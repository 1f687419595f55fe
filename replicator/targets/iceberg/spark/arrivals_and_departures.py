"""What each change does at a key: a row arrives there, or one leaves it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from replicator.model.change import Operation
from replicator.model.schema import TableSchema
from replicator.targets.iceberg.spark.changes import AT, SEQ, before, is_, key_places, moved, row
from replicator.targets.iceberg.table.naming import spark_type

ARRIVES = "_arrives"
READ = "_read"


def key_events(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """c0…, _seq, _at, _arrives, _read; of what leaves the key columns only.

    An UPDATE that moves its key is both halves, with one number; at one and the same key the arrival is the later one.
    """
    keys = key_places(schema)
    columns = [row(i) for i in range(len(schema.columns))]
    arriving = changes.where(~is_(Operation.DELETE))
    came = arriving.select(*columns, SEQ, AT, F.expr("true").alias(ARRIVES), is_(Operation.READ).alias(READ))
    leaving = changes.where(is_(Operation.DELETE) | (is_(Operation.UPDATE) & moved(keys)))
    left = [
        (F.col(before(i)) if i in keys else F.lit(None).cast(spark_type(c.type))).alias(row(i))
        for i, c in enumerate(schema.columns)
    ]
    no = F.expr("false")
    return came.unionByName(leaving.select(*left, SEQ, AT, no.alias(ARRIVES), no.alias(READ)))
