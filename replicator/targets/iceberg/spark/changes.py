"""Staged segments as Spark sees them, with columns by place instead of by name: read, folded, and put into the table.

Names of a source are anything; from here to the MERGE its columns are `c0, c1, …` (before images `b0, b1, …`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import PurePosixPath

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql import types as T  # noqa: N812

from replicator.faults import reach
from replicator.model.change import Operation
from replicator.model.mode import CURRENT, DELETED, VALID_FROM
from replicator.model.schema import BEFORE, COMMIT_TS, OPERATION, SEQUENCE, UNCHANGED, TableSchema
from replicator.model.types import Kind
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.naming import quoted, spark_type, sql_name
from replicator.targets.iceberg.table.types import from_iceberg

SEQ = "_seq"
OP = "_op"
GONE = "_gone"
LEFT_OUT = "_left_out"
AT = "_at"
_ARRIVES, _AGE = "_arrives", "_age"
_FILE, _PLACE, _FIRST, _WITHOUT, _READ_AT = "_file", "_place", "_first", "_without", "_read_at"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    """Return changes with a sequence number greater than `above`, which is what the target holds (invariant 3).

    Columns: _seq, _op, c0…, b0…, for a partial schema _left_out (places, or null), and if `timed` _at: the commit's
    time, for READ rows the time of the read.  The schema is given, never inferred; without files there are no rows.
    """
    bare = [file for file in files if file.bare]
    groups = _by_time(files, timed) if files else [[]]
    parts = [_read_whole(spark, group, schema, above, timed) for group in groups]
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
        wanted.append(F.coalesce(F.col(COMMIT_TS), _instant(next((f.read_at for f in files), None))).alias(AT))
    if schema.partial:
        fields.append(T.StructField(UNCHANGED, T.ArrayType(T.IntegerType())))
        wanted.append(F.col(UNCHANGED).alias(LEFT_OUT))
    # An entry of the segment may straddle the position (a keyless table's base): rows at or below it are in already.
    shape = T.StructType(fields)
    rows = spark.read.schema(shape).parquet(*(f.uri for f in files)) if files else spark.createDataFrame([], shape)
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


def rows_read(changes: DataFrame, schema: TableSchema) -> DataFrame:
    """READ rows as they are: c0…, _seq, and _at where the changes have it."""
    times = [AT] * (AT in changes.columns)
    return changes.where(is_(Operation.READ)).select(*[row(i) for i in range(len(schema.columns))], SEQ, *times)


def moved(keys: list[int]) -> Column:
    """Of UPDATEs: those that move their row to another key, by the rule of `replicator.folding.key_moves`."""
    same = [F.col(before(i)).isNull() | F.col(row(i)).eqNullSafe(F.col(before(i))) for i in keys]
    return ~reduce(Column.__and__, same)


def insert(table: IcebergTable, rows: DataFrame, schema: TableSchema) -> None:
    """Append rows c0…, _seq, and those columns of the mode that are not null."""
    shaped(table, rows, schema).writeTo(sql_name(table.name)).append()


def shaped(table: IcebergTable, rows: DataFrame, schema: TableSchema) -> DataFrame:
    """Rows c0…, _seq under the target's names; a column that the source no longer has is null."""
    places = {name: i for i, name in enumerate(schema.names)}
    columns: list[Column] = []
    for name, text in table.columns:
        columns.append((F.col(row(places[name])) if name in places else typed(F.lit(None), text)).alias(name))
    for name, kind in table.mode.columns.items():
        columns.append((F.col(name) if name in rows.columns else F.lit(None).cast(str(kind))).alias(name))
    return rows.select(*columns, F.col(SEQ).alias(SEQUENCE))


def typed(value: Column, text: str) -> Column:
    """For a column of this Iceberg type; as it is where another program added that, as an array perhaps."""
    kind = from_iceberg(text)
    return value if kind is None else value.cast(str(kind))


def as_read(rows: DataFrame) -> DataFrame:
    """READ rows (c0…, _seq, _at) with what every mode says of such."""
    said = {DELETED: F.lit(False), VALID_FROM: F.col(AT), CURRENT: F.lit(True)}  # noqa: FBT003
    return rows.withColumns({**said, OPERATION: F.lit(Operation.READ.value)})


def exact(column: Column, kind: Kind) -> Column:
    """Spark takes 0.0 and -0.0 for equal; the source's rows are not.  A float's text is exact and tells them apart."""
    return column.cast(T.StringType()) if kind in {Kind.FLOAT, Kind.DOUBLE} else column


def opened() -> None:
    """The segments are open, in Spark or without it."""
    reach("apply.read.after")
