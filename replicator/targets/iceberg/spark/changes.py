"""Staged segments as Spark sees them, with columns by place instead of by name.

Names of a source are anything; from here to the MERGE its columns are `c0, c1, …` (before images `b0, b1, …`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import PurePosixPath

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812

from replicator.faults import reach
from replicator.model.change import Operation
from replicator.model.schema import BEFORE, COMMIT_TS, OPERATION, SEQUENCE, UNCHANGED, TableSchema
from replicator.model.types import DataType, Kind

SEQ = "_seq"
OP = "_op"
GONE = "_gone"
LEFT_OUT = "_left_out"
AT = "_at"
_FILE, _PLACE, _FIRST, _WITHOUT, _READ_AT = "_file", "_place", "_first", "_without", "_read_at"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

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
    """A segment's file: what Spark opens, and how its rows are numbered where it is `bare` (see
    `state.journal.Segment`).

    read_at: the time of its READ rows; None where it has none.
    """

    uri: str
    bare: bool = False
    first: int = 0
    without: tuple[int, ...] = ()
    read_at: datetime | None = None


def read(
    spark: SparkSession, files: Sequence[Staged], schema: TableSchema, above: int, *, timed: bool = False
) -> DataFrame:
    """Changes with a sequence number greater than `above`, which is what the target holds already (invariant 3).

    Columns: _seq, _op, c0…, b0…, for a partial schema _left_out (places, or null), and if `timed` _at: the commit's
    time, of READ rows that of the read.  The schema is given, never inferred.
    """
    bare = [file for file in files if file.bare]
    parts = [_read_whole(spark, group, schema, above, timed) for group in _by_time(files, timed)]
    parts += [_read_bare(spark, bare, schema, above, timed)] if bare else []
    opened()
    return reduce(DataFrame.unionByName, parts)


def _by_time(files: Sequence[Staged], timed: bool) -> list[list[Staged]]:  # noqa: FBT001
    """Files that are not bare; where times are asked for, each with READ rows for itself, as they are few."""
    whole = [file for file in files if not file.bare]
    alone = [file for file in whole if timed and file.read_at is not None]
    together = [file for file in whole if file not in alone]
    return [*[[file] for file in alone], *([together] if together else [])]


def _read_whole(
    spark: SparkSession,
    files: Sequence[Staged],
    schema: TableSchema,
    above: int,
    timed: bool,  # noqa: FBT001
) -> DataFrame:
    fields = [T.StructField(SEQUENCE, T.LongType()), T.StructField(OPERATION, T.StringType())]
    for prefix in ("", BEFORE):
        fields += [T.StructField(prefix + c.name, spark_type(c.type)) for c in schema.columns]
    wanted = [F.col(SEQUENCE).alias(SEQ), F.col(OPERATION).alias(OP)]
    wanted += [F.col(quoted(name)).alias(row(i)) for i, name in enumerate(schema.names)]
    wanted += [F.col(quoted(BEFORE + name)).alias(before(i)) for i, name in enumerate(schema.names)]
    if timed:
        fields.append(T.StructField(COMMIT_TS, T.TimestampType()))
        wanted.append(F.coalesce(F.col(COMMIT_TS), _instant(files[0].read_at)).alias(AT))
    if schema.partial:
        fields.append(T.StructField(UNCHANGED, T.ArrayType(T.IntegerType())))
        wanted.append(F.col(UNCHANGED).alias(LEFT_OUT))
    # An entry of the segment may straddle the position (a keyless table's base): rows at or below it are in already.
    rows = spark.read.schema(T.StructType(fields)).parquet(*(file.uri for file in files))
    return rows.where(F.col(SEQUENCE) > above).select(*wanted)


def _read_bare(
    spark: SparkSession,
    files: Sequence[Staged],
    schema: TableSchema,
    above: int,
    timed: bool,  # noqa: FBT001
) -> DataFrame:
    """The number is the file's first one and the row's place in the file, which Spark tells."""
    fields = [T.StructField(c.name, spark_type(c.type)) for c in schema.columns]
    rows = spark.read.schema(T.StructType(fields)).parquet(*(file.uri for file in files))
    metadata = rows.metadataColumn("_metadata")  # by name it might be a column of the source
    wanted = [metadata["file_name"].alias(_FILE), metadata["row_index"].alias(_PLACE)]
    wanted += [F.col(quoted(name)).alias(row(i)) for i, name in enumerate(schema.names)]
    listed = ", ".join(
        f"('{PurePosixPath(f.uri).name}', {f.first}L, {_array(f.without)}, {_micros(f.read_at)})" for f in files
    )
    numbers = spark.sql(f"SELECT * FROM VALUES {listed} AS numbers({_FILE}, {_FIRST}, {_WITHOUT}, {_READ_AT})")
    rows = rows.select(*wanted).join(F.broadcast(numbers), _FILE, "left")
    first = F.coalesce(_FIRST, F.raise_error(F.lit("A staged file has no name in the journal.")).cast("long"))
    found = [(first + F.col(_PLACE)).alias(SEQ), F.lit(Operation.READ.value).alias(OP)]
    found += [F.col(row(i)) for i in range(len(fields))]
    found += [F.lit(None).cast(field.dataType).alias(before(i)) for i, field in enumerate(fields)]
    found += [F.lit(None).cast(T.ArrayType(T.IntegerType())).alias(LEFT_OUT)] * schema.partial
    found += [F.timestamp_micros(_READ_AT).alias(AT)] * timed
    kept = ~F.array_contains(_WITHOUT, F.col(_PLACE))
    return rows.where(kept).select(*found).where(F.col(SEQ) > above)


def _array(places: Sequence[int]) -> str:
    return f"CAST(array({', '.join(map(str, places))}) AS ARRAY<BIGINT>)"


def _micros(at: datetime | None) -> str:
    return "CAST(NULL AS BIGINT)" if at is None else f"{(at - _EPOCH) // timedelta(microseconds=1)}L"


def _instant(at: datetime | None) -> Column:
    return F.expr(f"timestamp_micros({_micros(at)})")


def opened() -> None:
    """The segments are open, in Spark or without it."""
    reach("apply.read.after")
