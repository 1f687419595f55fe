"""Values that UPDATEs left out, from the target's own rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from replicator.errors import ValuesLost
from replicator.folding.footers import KeyColumnRange, LeftOut
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.targets.base import Merge
from replicator.targets.iceberg.spark import unchanged_values
from replicator.targets.iceberg.spark.changes import SEQ, key_places, row
from replicator.targets.iceberg.spark.merge_sql import bounds
from replicator.targets.iceberg.table.catalog import IcebergCatalog, IcebergTable
from replicator.targets.iceberg.table.commit import unless_overtaken
from replicator.targets.iceberg.table.naming import quoted, sql_name

BROADCAST = 100_000  # keys at most; a larger set is shuffled together with the target's rows in its ranges


def _held(
    spark: SparkSession,
    table: IcebergTable,
    schema: TableSchema,
    changes: DataFrame,
    ranges: Sequence[KeyColumnRange],
    left_out: LeftOut,
) -> DataFrame:
    """The target's rows under the keys whose changes left something out: key columns, columns left out, _seq.

    Files outside of `ranges` are not read, nor are other columns.
    """
    keys = key_places(schema)
    keys_of_changes = unchanged_values.concerned(changes, schema).select(*[F.col(row(i)).alias(f"w{i}") for i in keys])
    if left_out.values is not None and left_out.values <= BROADCAST:
        keys_of_changes = F.broadcast(keys_of_changes)
    target = spark.table(sql_name(table.name))
    for condition in bounds(ranges):
        target = target.where(condition)
    wanted = [F.col(quoted(schema.names[i])).alias(row(i)) for i in sorted({*keys, *left_out.places})]
    rows = target.select(*wanted, F.col(quoted(SEQUENCE)).alias(SEQ))
    same = reduce(Column.__and__, [F.col(row(i)) == F.col(f"w{i}") for i in keys])
    return rows.join(keys_of_changes, same, "left_semi")


@contextmanager
def folded(
    spark: SparkSession,
    catalog: IcebergCatalog,
    table: IcebergTable,
    change: Merge,
    changes: DataFrame,
    ranges: Sequence[KeyColumnRange] | None,
    left_out: LeftOut,
) -> Iterator[DataFrame]:
    """The fold (c0…, _seq, _gone) of `changes` with all values in their places.

    ranges: of the batch's keys; None where the table has no row under any of them.
    Raises ValuesLost where a value is in neither the batch nor the target: a null in its place would be a lie.
    """
    schema = change.schema
    there = None if ranges is None else _held(spark, table, schema, changes, ranges, left_out)
    with unchanged_values.folded(changes, there, schema, left_out.places) as found:
        _require_known(catalog, table, change, found.unknown)
        yield found.rows.where(~F.col(unchanged_values.LACKS)) if found.unknown else found.rows


@contextmanager
def filled(
    spark: SparkSession,
    catalog: IcebergCatalog,
    table: IcebergTable,
    change: Merge,
    changes: DataFrame,
    ranges: Sequence[KeyColumnRange] | None,
    left_out: LeftOut,
) -> Iterator[DataFrame]:
    """As `folded`, but all changes with their values, unfolded.

    Of a row's versions in the target the last one known counts.
    """
    schema = change.schema
    there = None if ranges is None else _held(spark, table, schema, changes, ranges, left_out)
    with unchanged_values.filled(changes, there, schema, left_out.places) as found:
        _require_known(catalog, table, change, found.unknown)
        yield found.rows


def _require_known(catalog: IcebergCatalog, table: IcebergTable, change: Merge, unknown: int) -> None:
    if unknown and not change.emptied:
        raise unless_overtaken(catalog, table, _lost(table, change.schema, unknown))


def _lost(table: IcebergTable, schema: TableSchema, rows: int) -> ValuesLost:
    message = (
        f"{table.name} has diverged from its source: {rows} changed rows have values that the source's log omitted "
        "as unchanged and that are missing in the target."
    )
    return ValuesLost(message, table=str(schema.table))
