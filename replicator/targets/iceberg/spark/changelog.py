"""Changes as rows of a changelog, as `replicator.folding.changelog` has them, in Spark."""

from __future__ import annotations

from datetime import UTC

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from replicator.model.change import Operation
from replicator.model.mode import BELOW
from replicator.model.schema import COMMIT_TS, OPERATION, SEQUENCE, UNCHANGED, TableSchema
from replicator.state.journal import EventKind
from replicator.targets.base import DeleteBelow
from replicator.targets.iceberg.spark.changes import AT, LEFT_OUT, OP, SEQ, before, is_, key_places, moved, row, typed
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.naming import sql_name

_TURN = "_deletes"


def in_spark(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """Of timed changes, with columns by place: c0…, _seq, and the others under their names."""
    deleted = is_(Operation.DELETE)
    moves = is_(Operation.UPDATE) & (moved(key_places(schema)) if schema.key else F.expr("false"))
    turns = F.when(moves, F.expr("array(true, false)")).otherwise(F.array(deleted))
    rows = changes.withColumn(_TURN, F.explode(turns))
    going = F.col(_TURN)
    columns = [
        F.when(going, F.col(before(i))).otherwise(F.col(row(i))).alias(row(i)) for i in range(len(schema.columns))
    ]
    said = [
        F.when(going, Operation.DELETE.value).otherwise(F.col(OP)).alias(OPERATION),
        F.when(~is_(Operation.READ), F.col(AT)).alias(COMMIT_TS),
    ]
    if schema.partial:
        names = F.array(*[F.lit(name) for name in schema.names])
        listed = F.to_json(F.transform(LEFT_OUT, lambda place: F.element_at(names, place + 1)))
        said.append(F.when(~going & (F.size(LEFT_OUT) > 0), listed).alias(UNCHANGED))
    return rows.select(*columns, SEQ, *said)


def marker(spark: SparkSession, table: IcebergTable, change: DeleteBelow) -> DataFrame:
    """A TRUNCATE or a sweep is a row without values: what has no change from `_below` on is gone."""
    said = {SEQUENCE: F.lit(change.upto), OPERATION: F.lit(change.operation), BELOW: F.lit(change.below)}
    if change.at is not None and change.operation != EventKind.SWEEP:
        said[COMMIT_TS] = F.lit(change.at.astimezone(UTC).isoformat())
    nothing = F.lit(None)
    return spark.range(1).select(
        *[typed(said.get(one["name"], nothing), str(one["type"])).alias(one["name"]) for one in table.fields]
    )


def mark(spark: SparkSession, table: IcebergTable, change: DeleteBelow) -> None:
    """Append the marker alone."""
    marker(spark, table, change).writeTo(sql_name(table.name)).append()
