"""Rows by place become rows under the target's names, with the columns of its mode."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from replicator.model.change import Operation
from replicator.model.mode import CURRENT, DELETED, VALID_FROM
from replicator.model.schema import OPERATION, SEQUENCE, TableSchema
from replicator.targets import base
from replicator.targets.iceberg.spark.changes import AT, SEQ, row
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.naming import sql_name
from replicator.targets.iceberg.table.types import from_iceberg


def insert(table: IcebergTable, rows: DataFrame, schema: TableSchema) -> None:
    """Append rows c0…, _seq, and those columns of the mode that are not null."""
    shaped(table, rows, schema).writeTo(sql_name(table.name)).append()


def shaped(table: IcebergTable, rows: DataFrame, schema: TableSchema) -> DataFrame:
    """Rows c0…, _seq under the target's names; a column that the source no longer has is null."""
    require_columns(table, schema)
    places = {name: i for i, name in enumerate(schema.names)}
    columns: list[Column] = []
    for name, text in table.columns:
        value = F.col(row(places[name])) if name in places else F.lit(None).cast(str(from_iceberg(text)))
        columns.append(value.alias(name))
    for name, kind in table.mode.columns.items():
        columns.append((F.col(name) if name in rows.columns else F.lit(None).cast(str(kind))).alias(name))
    return rows.select(*columns, F.col(SEQ).alias(SEQUENCE))


def as_read(rows: DataFrame) -> DataFrame:
    """READ rows (c0…, _seq, _at) with what every mode says of such."""
    said = {DELETED: F.lit(False), VALID_FROM: F.col(AT), CURRENT: F.lit(True)}  # noqa: FBT003
    return rows.withColumns({**said, OPERATION: F.lit(Operation.READ.value)})


def require_columns(table: IcebergTable, schema: TableSchema) -> None:
    """See `targets.base`."""
    base.require_columns(table.name, {name: from_iceberg(text) for name, text in table.columns}, schema)
