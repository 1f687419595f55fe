"""Names: any characters towards the user, safe ones towards the storage."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from replicator.folding.footers import Bound
from replicator.model.types import DataType, Kind
from replicator.targets.base import TargetTable
from replicator.targets.iceberg.destination import CATALOG
from replicator.targets.iceberg.spark.changes import quoted, spark_type


def sql_name(table: TargetTable) -> str:
    """The table in Spark SQL."""
    return f"{CATALOG}.{quoted(table.namespace)}.{quoted(table.name)}"


def sql_string(text: str) -> str:
    """A Spark string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "'" + escaped.replace("\0", "\\0") + "'"


def sql_literal(value: Bound, kind: DataType) -> str:
    """A literal of exactly the type `kind`: int, bigint, decimal, date and string only."""
    if kind.kind is Kind.STRING:
        return sql_string(str(value))
    if isinstance(value, date):
        return f"DATE {sql_string(value.isoformat())}"
    if isinstance(value, Decimal):
        return f"CAST({sql_string(format(value, 'f'))} AS {spark_type(kind).simpleString()})"
    return f"CAST({sql_string(str(value))} AS {spark_type(kind).simpleString()})"
