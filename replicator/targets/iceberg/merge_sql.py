"""The MERGE statements."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from replicator.merge.changes import GONE, SEQ, quoted, row
from replicator.merge.ranges import KeyRange
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.targets.iceberg.catalog import LakeTable
from replicator.targets.iceberg.naming import sql_literal, sql_name


def merge_keyed(
    spark: SparkSession, table: LakeTable, schema: TableSchema, folded: DataFrame, ranges: Sequence[KeyRange]
) -> None:
    """Apply a fold (c0…, _seq, _gone) to the table."""
    places = {name: i for i, name in enumerate(schema.names)}
    on = [f"t.{quoted(name)} = s.{row(places[name])}" for name in schema.key]
    on += bounds(ranges, "t.")  # literals: files outside of them are not read
    assign = ", ".join(f"t.{quoted(name)} = s.{row(i)}" for name, i in places.items())
    newer = f"s.{SEQ} > t.{quoted(SEQUENCE)}"  # invariants 4 and 5
    with _view(spark, folded) as view:
        spark.sql(
            f"MERGE INTO {sql_name(table.name)} AS t USING {view} AS s ON {' AND '.join(on)} "
            f"WHEN MATCHED AND {newer} AND s.{GONE} THEN DELETE "
            f"WHEN MATCHED AND {newer} THEN UPDATE SET {assign}, t.{quoted(SEQUENCE)} = s.{SEQ} "
            f"WHEN NOT MATCHED AND NOT s.{GONE} THEN {_insert(schema)}"
        ).collect()


def merge_keyless(
    spark: SparkSession, table: LakeTable, schema: TableSchema, delta: DataFrame, doomed: tuple[int, int]
) -> None:
    """Apply a delta (c0…, _seq, _gone): rows are found by their own sequence number, between the two of `doomed`."""
    own = f"t.{quoted(SEQUENCE)}"
    with _view(spark, delta) as view:
        spark.sql(
            f"MERGE INTO {sql_name(table.name)} AS t USING {view} AS s "
            f"ON {own} = s.{SEQ} AND {own} >= {doomed[0]} AND {own} <= {doomed[1]} "
            f"WHEN MATCHED AND s.{GONE} THEN DELETE "
            f"WHEN NOT MATCHED AND NOT s.{GONE} THEN {_insert(schema)}"
        ).collect()


def _insert(schema: TableSchema) -> str:
    names = ", ".join([*(quoted(name) for name in schema.names), quoted(SEQUENCE)])
    values = ", ".join([*(f"s.{row(i)}" for i in range(len(schema.columns))), f"s.{SEQ}"])
    return f"INSERT ({names}) VALUES ({values})"


def bounds(ranges: Sequence[KeyRange], prefix: str = "") -> Iterator[str]:
    """Conditions that the keys of a batch meet."""
    for one in ranges:
        column = f"{prefix}{quoted(one.column)}"
        if one.values:
            yield f"{column} IN ({', '.join(sql_literal(value, one.type) for value in one.values)})"
        yield f"{column} >= {sql_literal(one.low, one.type)}"
        if one.high is not None:
            yield f"{column} <= {sql_literal(one.high, one.type)}"


@contextmanager
def _view(spark: SparkSession, rows: DataFrame) -> Iterator[str]:
    name = f"changes_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        spark.catalog.dropTempView(name)
