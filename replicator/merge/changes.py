"""Staged segments as Spark sees them, with columns by place instead of by name.

Names of a source are anything; from here to the MERGE its columns are `c0, c1, …` (before images `b0, b1, …`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812

from replicator.faults import reach
from replicator.model.change import Operation
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, UNCHANGED, TableSchema
from replicator.model.types import DataType, Kind

SEQ = "_seq"
OP = "_op"
GONE = "_gone"
LEFT_OUT = "_left_out"

_SPARK: dict[Kind, T.DataType] = {
    Kind.BOOLEAN: T.BooleanType(),
    Kind.INT: T.IntegerType(),
    Kind.BIGINT: T.LongType(),
    Kind.FLOAT: T.FloatType(),
    Kind.DOUBLE: T.DoubleType(),
    Kind.STRING: T.StringType(),
    Kind.BINARY: T.BinaryType(),
    Kind.DATE: T.DateType(),
    Kind.TIMESTAMP_NTZ: T.TimestampNTZType(),
    Kind.TIMESTAMP: T.TimestampType(),
}


def spark_type(kind: DataType) -> T.DataType:
    """The Spark type of a column."""
    return T.DecimalType(kind.precision, kind.scale) if kind.kind is Kind.DECIMAL else _SPARK[kind.kind]


def quoted(name: str) -> str:
    """A name in backticks; any character may be in it."""
    return "`" + name.replace("`", "``") + "`"


def row(index: int) -> str:
    """Name of the row column at this place."""
    return f"c{index}"


def before(index: int) -> str:
    """Name of the before image's column at this place."""
    return f"b{index}"


def key_places(schema: TableSchema) -> list[int]:
    """Places of the key columns."""
    return [schema.names.index(name) for name in schema.key]


def is_(operation: Operation) -> Column:
    """Rows of this operation."""
    return F.col(OP) == operation.value


def read(spark: SparkSession, uris: Sequence[str], schema: TableSchema, above: int) -> DataFrame:
    """Changes with a sequence number greater than `above`, which is what the target holds already (invariant 3).

    Columns: _seq, _op, c0…, b0…, and for a partial schema _left_out (places, or null).  The schema is given, never inferred.
    """
    fields = [T.StructField(SEQUENCE, T.LongType()), T.StructField(OPERATION, T.StringType())]
    for prefix in ("", BEFORE):
        fields += [T.StructField(prefix + c.name, spark_type(c.type)) for c in schema.columns]
    wanted = [F.col(SEQUENCE).alias(SEQ), F.col(OPERATION).alias(OP)]
    wanted += [F.col(quoted(name)).alias(row(i)) for i, name in enumerate(schema.names)]
    wanted += [F.col(quoted(BEFORE + name)).alias(before(i)) for i, name in enumerate(schema.names)]
    if schema.partial:
        fields.append(T.StructField(UNCHANGED, T.ArrayType(T.IntegerType())))
        wanted.append(F.col(UNCHANGED).alias(LEFT_OUT))
    # An entry of the segment may straddle the position (a keyless table's base): rows at or below it are in already.
    rows = spark.read.schema(T.StructType(fields)).parquet(*uris).where(F.col(SEQUENCE) > above).select(*wanted)
    reach("apply.read.after")
    return rows
