"""Staged segments as Spark sees them, with columns by place instead of by name.

Names of a source are anything; from here to the MERGE its columns are `c0, c1, …` (before images `b0, b1, …`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import PurePosixPath

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812

from replicator.faults import reach
from replicator.model.change import Operation
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, UNCHANGED, TableSchema
from replicator.model.types import DataType, Kind
from replicator.staging.storage import Storage
from replicator.state.journal import Segment

SEQ = "_seq"
OP = "_op"
GONE = "_gone"
LEFT_OUT = "_left_out"
_FILE, _PLACE, _FIRST, _WITHOUT = "_file", "_place", "_first", "_without"

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


@dataclass(frozen=True)
class Staged:
    """A segment's file: what Spark opens, and how its rows are numbered where it is `bare` (see `state.journal.Segment`)."""

    uri: str
    bare: bool = False
    first: int = 0
    without: tuple[int, ...] = ()


def staged(storage: Storage, segments: Sequence[Segment]) -> list[Staged]:
    """For `read`."""
    return [Staged(storage.uri(s.path), s.bare, s.first_sequence, s.without) for s in segments]


def read(spark: SparkSession, files: Sequence[Staged], schema: TableSchema, above: int) -> DataFrame:
    """Changes with a sequence number greater than `above`, which is what the target holds already (invariant 3).

    Columns: _seq, _op, c0…, b0…, and for a partial schema _left_out (places, or null).  The schema is given, never inferred.
    """
    whole = [file.uri for file in files if not file.bare]
    bare = [file for file in files if file.bare]
    parts = [_read_whole(spark, whole, schema, above)] if whole else []
    parts += [_read_bare(spark, bare, schema, above)] if bare else []
    opened()
    return reduce(DataFrame.unionByName, parts)


def _read_whole(spark: SparkSession, uris: Sequence[str], schema: TableSchema, above: int) -> DataFrame:
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
    return spark.read.schema(T.StructType(fields)).parquet(*uris).where(F.col(SEQUENCE) > above).select(*wanted)


def _read_bare(spark: SparkSession, files: Sequence[Staged], schema: TableSchema, above: int) -> DataFrame:
    """The number is the file's first one and the row's place in the file, which Spark tells."""
    fields = [T.StructField(c.name, spark_type(c.type)) for c in schema.columns]
    rows = spark.read.schema(T.StructType(fields)).parquet(*(file.uri for file in files))
    told = rows.metadataColumn("_metadata")  # by name it might be a column of the source
    wanted = [told["file_name"].alias(_FILE), told["row_index"].alias(_PLACE)]
    wanted += [F.col(quoted(name)).alias(row(i)) for i, name in enumerate(schema.names)]
    listed = ", ".join(f"('{PurePosixPath(f.uri).name}', {f.first}L, {_array(f.without)})" for f in files)
    numbers = spark.sql(f"SELECT * FROM VALUES {listed} AS numbers({_FILE}, {_FIRST}, {_WITHOUT})")
    rows = rows.select(*wanted).join(F.broadcast(numbers), _FILE, "left")
    first = F.coalesce(_FIRST, F.raise_error(F.lit("A staged file has no name in the journal.")).cast("long"))
    found = [(first + F.col(_PLACE)).alias(SEQ), F.lit(Operation.READ.value).alias(OP)]
    found += [F.col(row(i)) for i in range(len(fields))]
    found += [F.lit(None).cast(field.dataType).alias(before(i)) for i, field in enumerate(fields)]
    found += [F.lit(None).cast(T.ArrayType(T.IntegerType())).alias(LEFT_OUT)] * schema.partial
    kept = ~F.array_contains(_WITHOUT, F.col(_PLACE))
    return rows.where(kept).select(*found).where(F.col(SEQ) > above)


def _array(places: Sequence[int]) -> str:
    return f"CAST(array({', '.join(map(str, places))}) AS ARRAY<BIGINT>)"


def opened() -> None:
    """The segments are open, in Spark or without it."""
    reach("apply.read.after")
