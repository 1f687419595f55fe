"""The MERGE statements."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from replicator.folding.footers import KeyColumnRange
from replicator.model.mode import CURRENT, DELETED, DELETED_AT, VALID_TO, Mode
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.targets.base import TargetTable
from replicator.targets.iceberg.spark.changes import GONE, SEQ, row
from replicator.targets.iceberg.spark.history_fold import HIT
from replicator.targets.iceberg.spark.soft_delete_fold import KNOWN
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.naming import quoted, sql_literal, sql_name, sql_string


def merge_keyed(
    spark: SparkSession, table: IcebergTable, schema: TableSchema, folded: DataFrame, ranges: Sequence[KeyColumnRange]
) -> None:
    """Apply a fold (c0…, _seq, _gone) to the table."""
    newer = f"s.{SEQ} > t.{quoted(SEQUENCE)}"  # invariants 4 and 5
    with _view(spark, folded) as view:
        spark.sql(
            f"MERGE INTO {sql_name(table.name)} AS t USING {view} AS s ON {_same_key(schema, ranges)} "
            f"WHEN MATCHED AND {newer} AND s.{GONE} THEN DELETE "
            f"WHEN MATCHED AND {newer} THEN UPDATE SET {_assign(schema)}, t.{quoted(SEQUENCE)} = s.{SEQ} "
            f"WHEN NOT MATCHED AND NOT s.{GONE} THEN {_insert(schema)}"
        ).collect()


def merge_soft_deleted(
    spark: SparkSession, table: IcebergTable, schema: TableSchema, folded: DataFrame, ranges: Sequence[KeyColumnRange]
) -> None:
    """Apply a fold of `merge.soft_delete`: what goes is marked, and keeps the values that the table has where the batch
    knows none.
    """
    newer = f"s.{SEQ} > t.{quoted(SEQUENCE)}"  # invariants 4 and 5
    marks = f"t.{quoted(SEQUENCE)} = s.{SEQ}, t.{DELETED} = s.{DELETED}, t.{DELETED_AT} = s.{DELETED_AT}"
    with _view(spark, folded) as view:
        spark.sql(
            f"MERGE INTO {sql_name(table.name)} AS t USING {view} AS s ON {_same_key(schema, ranges)} "
            f"WHEN MATCHED AND {newer} AND s.{KNOWN} THEN UPDATE SET {_assign(schema)}, {marks} "
            f"WHEN MATCHED AND {newer} THEN UPDATE SET {marks} "
            f"WHEN NOT MATCHED AND s.{KNOWN} THEN {_insert(schema, Mode.SOFT_DELETE)}"
        ).collect()


def merge_versions(
    spark: SparkSession, table: IcebergTable, schema: TableSchema, versions: DataFrame, ranges: Sequence[KeyColumnRange]
) -> None:
    """Apply a fold of `merge.history`: new versions, and ends of present ones."""
    own = quoted(SEQUENCE)
    with _view(spark, versions) as view:
        spark.sql(
            f"MERGE INTO {sql_name(table.name)} AS t USING {view} AS s ON {_same_key(schema, ranges)} AND t.{own} ="
            f" s.{HIT} WHEN MATCHED THEN UPDATE SET t.{own} = s.{SEQ}, t.{VALID_TO} = s.{VALID_TO}, t.{CURRENT} ="
            f" s.{CURRENT} WHEN NOT MATCHED AND s.{HIT} IS NULL THEN {_insert(schema, Mode.HISTORY)}"
        ).collect()


def merge_keyless(
    spark: SparkSession, table: IcebergTable, schema: TableSchema, delta: DataFrame, to_delete: tuple[int, int]
) -> None:
    """Apply a delta (c0…, _seq, _gone): rows are found by their own sequence number, between the two of `to_delete`."""
    own = f"t.{quoted(SEQUENCE)}"
    with _view(spark, delta) as view:
        spark.sql(
            f"MERGE INTO {sql_name(table.name)} AS t USING {view} AS s "
            f"ON {own} = s.{SEQ} AND {own} >= {to_delete[0]} AND {own} <= {to_delete[1]} "
            f"WHEN MATCHED AND s.{GONE} THEN DELETE "
            f"WHEN NOT MATCHED AND NOT s.{GONE} THEN {_insert(schema)}"
        ).collect()


def _same_key(schema: TableSchema, ranges: Sequence[KeyColumnRange]) -> str:
    same = [f"t.{quoted(name)} = s.{row(schema.names.index(name))}" for name in schema.key]
    return " AND ".join([*same, *bounds(ranges, "t.")])  # literals: files outside of them are not read


def _assign(schema: TableSchema) -> str:
    return ", ".join(f"t.{quoted(name)} = s.{row(i)}" for i, name in enumerate(schema.names))


def _insert(schema: TableSchema, mode: Mode = Mode.MIRROR) -> str:
    names = ", ".join([*(quoted(name) for name in schema.names), quoted(SEQUENCE), *mode.columns])
    values = ", ".join(
        [*(f"s.{row(i)}" for i in range(len(schema.columns))), f"s.{SEQ}", *(f"s.{n}" for n in mode.columns)]
    )
    return f"INSERT ({names}) VALUES ({values})"


def of_part(name: TargetTable) -> str:
    """The condition for the rows of a part of a shared table; of a table that is not shared, for all."""
    column, value = name.tenant
    return f"{quoted(column)} = {sql_string(value)}" if name.part else "true"


def bounds(ranges: Sequence[KeyColumnRange], prefix: str = "") -> Iterator[str]:
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
