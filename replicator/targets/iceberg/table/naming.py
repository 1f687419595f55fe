"""Names, types and literals in Spark SQL."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from pyspark.sql import types as T  # noqa: N812 - everybody's name for it

from replicator.folding.footers import Bound
from replicator.model.types import DataType, Kind
from replicator.targets.base import TargetTable
from replicator.targets.iceberg.destination import CATALOG

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
