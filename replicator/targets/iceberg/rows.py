"""Rows by place become rows under the target's names."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from replicator.errors import TargetError
from replicator.merge.changes import SEQ, row
from replicator.model.schema import SEQUENCE, TableSchema
from replicator.targets.iceberg.catalog import LakeTable
from replicator.targets.iceberg.naming import sql_name
from replicator.targets.iceberg.types import from_iceberg


def insert(table: LakeTable, rows: DataFrame, schema: TableSchema) -> None:
    """Append rows c0…, _seq."""
    shaped(table, rows, schema).writeTo(sql_name(table.name)).append()


def shaped(table: LakeTable, rows: DataFrame, schema: TableSchema) -> DataFrame:
    """Rows c0…, _seq under the target's names; a column that the source no longer has is null."""
    require_columns(table, schema)
    places = {name: i for i, name in enumerate(schema.names)}
    columns: list[Column] = []
    for name, text in table.columns:
        value = F.col(row(places[name])) if name in places else F.lit(None).cast(str(from_iceberg(text)))
        columns.append(value.alias(name))
    return rows.select(*columns, F.col(SEQ).alias(SEQUENCE))


def require_columns(table: LakeTable, schema: TableSchema) -> None:
    """TargetError where the table has not the columns that the segments have: an Evolve must come first."""
    there = {name: from_iceberg(text) for name, text in table.columns}
    wrong = [c.name for c in schema.columns if there.get(c.name) != c.type]
    if wrong:
        message = f"{table.name} is not at the changes' schema: {', '.join(wrong)}"
        raise TargetError(message, table=str(table.name))
